package engine

import (
	"context"
	"fmt"
	"strings"

	"stave/internal/machine/turn"
	"stave/internal/model"
	"stave/internal/world"
)

// A request that fills most of the model's window is shortened before it is made:
// the older part of the conversation becomes a summary, the newer part stays.
const (
	fullPercent  = 80 // of the window: beyond this it is shortened
	keepPercent  = 30 // of the window: about as much of the newest stays as it is
	summaryMost  = 4096
	excerptBytes = 2000 // of one message, in what the summary is made from
)

const summaryOrder = `Summarise the conversation below for the assistant that goes on with it and will not see it any more.
Keep: what the user wants, decisions and their reasons, what was done and with which result, names of files and commands, open ends. Leave out pleasantries. Write plain text.

`

// compact shortens a request that would not fit, and returns the one to make.
func (e *Engine) compact(ctx context.Context, t teller, p model.Provider, r model.Request) (model.Request, error) {
	window := e.opt.Info(r.Model).Window
	if window == 0 {
		return r, nil
	}
	before := e.opt.Tokens(r)
	if before <= window*fullPercent/100 {
		return r, nil
	}
	cut := cutAt(r, e.opt.Tokens, window*keepPercent/100)
	if cut < 1 {
		return r, nil // nothing to take away: the provider will say that it is too long
	}
	summarise := model.Request{
		Model: r.Model, MaxTokens: summaryMost, Attempt: r.Attempt, Priority: r.Priority,
		Messages: []model.Message{{Role: model.RoleUser, Parts: []model.Part{{Text: summaryOrder + excerpt(r.Messages[:cut], int(window))}}}},
	}
	if err := t.reserve(ctx, &summarise); err != nil {
		return r, err
	}
	live, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	answer, err := model.Assemble(e.cleaned(e.lively(live, cancel, p, summarise)), model.Limits{}, func(model.Delta) error { return nil })
	if cause := context.Cause(live); err != nil && cause != nil {
		err = cause
	}
	if err != nil {
		return r, err
	}
	if strings.TrimSpace(answer.Text) == "" {
		return r, &model.Error{Kind: model.ErrStream, Message: "the model gave no summary of the conversation", Retryable: true}
	}
	done := turn.Compacted{Messages: cut, Summary: answer.Text, Before: before, Bill: e.bill(r.Model, answer)}
	shorter := r
	shorter.Messages = append([]model.Message{{Role: model.RoleUser, Parts: []model.Part{{Text: answer.Text}}}}, r.Messages[cut:]...)
	done.After = e.opt.Tokens(shorter)
	if err := t.do(ctx, turn.Compact{Compacted: done}); err != nil {
		return r, err
	}
	err = t.a.do(ctx, func(a *actor) error {
		transcript, err := a.transcript(world.AgentOf(t.job.Path))
		if err == nil {
			r.Messages = transcript.Messages()
		}
		return err
	})
	return r, err
}

// cutAt returns how many of the first messages to summarise, so that about keep
// tokens of the newest stay. It never parts a call from its result, and the last
// message always stays.
func cutAt(r model.Request, tokens func(model.Request) int64, keep int64) int {
	cut := len(r.Messages) - 1
	for cut > 0 && tokens(model.Request{Messages: r.Messages[cut-1:]}) <= keep {
		cut--
	}
	for cut > 0 && r.Messages[cut].Role == model.RoleTool {
		cut--
	}
	return cut
}

// excerpt renders messages as text, each cut to a size, the oldest left out
// where all together are too long.
func excerpt(messages []model.Message, most int) string {
	var parts []string
	size := 0
	for i := len(messages) - 1; i >= 0 && size < most; i-- {
		text := render(messages[i])
		size += len(text)
		parts = append(parts, text)
	}
	var b strings.Builder
	for i := len(parts) - 1; i >= 0; i-- {
		b.WriteString(parts[i])
	}
	return b.String()
}

func render(m model.Message) string {
	var b strings.Builder
	for _, p := range m.Parts {
		switch {
		case p.Text != "":
			fmt.Fprintf(&b, "%s: %s\n", m.Role, short(p.Text))
		case p.Call != nil:
			fmt.Fprintf(&b, "%s called %s %s\n", m.Role, p.Call.Name, short(string(p.Call.Args)))
		case p.Result != nil:
			fmt.Fprintf(&b, "result: %s\n", short(p.Result.Text))
		case p.Image != nil:
			fmt.Fprintf(&b, "%s showed an image (%s)\n", m.Role, p.Image.MediaType)
		}
	}
	return b.String()
}

func short(text string) string {
	if len(text) <= excerptBytes {
		return text
	}
	half := excerptBytes / 2
	return strings.ToValidUTF8(text[:half], "") + " […] " + strings.ToValidUTF8(text[len(text)-half:], "")
}
