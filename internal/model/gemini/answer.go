package gemini

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"stave/internal/model"
	"stave/internal/model/sse"
)

// chunk is one event of the stream.
type chunk struct {
	Candidates []candidate `json:"candidates"`
	Feedback   *struct {
		Block string `json:"blockReason"`
	} `json:"promptFeedback"`
	Usage *usage   `json:"usageMetadata"`
	Error *failure `json:"error"`
}

type candidate struct {
	Index   int `json:"index"`
	Content struct {
		Parts []heard `json:"parts"`
	} `json:"content"`
	Finish  string `json:"finishReason"`
	Message string `json:"finishMessage"`
}

type usage struct {
	Prompt   tokens `json:"promptTokenCount"`
	Tools    tokens `json:"toolUsePromptTokenCount"`
	Answer   tokens `json:"candidatesTokenCount"`
	Thoughts tokens `json:"thoughtsTokenCount"`
	Cached   tokens `json:"cachedContentTokenCount"`
}

// heard is one part of what the service says; kinds of parts that were not
// asked for are passed over.
type heard struct {
	Text      *string `json:"text"`
	Thought   bool    `json:"thought"`
	Signature string  `json:"thoughtSignature"`
	Call      *call   `json:"functionCall"`
}

type call struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args,omitempty"`
}

// tokens is a count that is never an error: an answer is worth more than its
// bill, and a count that cannot be is found where usages are checked.
type tokens int64

// maxTokens keeps sums of counts from running over; it is past any that is believed.
const maxTokens = model.MaxUsageTokens << 10

// UnmarshalJSON reads any number.
func (t *tokens) UnmarshalJSON(data []byte) error {
	n, err := strconv.ParseInt(string(data), 10, 64)
	if err != nil {
		f, _ := strconv.ParseFloat(string(data), 64)
		n = int64(min(max(f, -maxTokens), maxTokens))
	}
	*t = tokens(min(max(n, -maxTokens), maxTokens))
	return nil
}

// answer turns the chunks of one stream into events.
type answer struct {
	yield    func(model.Event, error) bool
	left     bool // the reader has left
	inItem   bool // text or a thought is open
	thinking bool // it is a thought
	calls    int
	usage    *model.Usage
	stop     model.StopReason // once the service has given its reason
	finished bool             // Done was told
}

// read tells the whole stream. Its error is the end of the answer; without one
// the answer is finished or its reader has left.
func (a *answer) read(ctx context.Context, body io.Reader) error {
	stream := sse.NewReader(model.Pulsing(ctx, body), sse.Limits{Event: model.MaxResponseBytes, Stream: maxStreamBytes, Events: model.MaxResponseEvents})
	defer stream.Release()
	for !a.left {
		ev, err := stream.Next()
		// At the end of the stream an event may lack its empty line: JSON says
		// itself whether it is whole.
		if errors.Is(err, sse.ErrUnfinished) {
			err = nil
			if len(ev.Data) == 0 {
				err = io.EOF
			}
		}
		// What is said is complete with its reason to stop; usage may follow it.
		if err != nil && a.stop != "" && ctx.Err() == nil {
			break
		}
		if errors.Is(err, io.EOF) {
			return &model.Error{Kind: model.ErrStream, Message: "the stream of Gemini ended before its answer did", Retryable: true}
		}
		if err != nil {
			return broken(err)
		}
		if err := a.chunk(ctx, ev.Data); err != nil {
			return err
		}
		if a.stop != "" && a.usage != nil {
			break
		}
	}
	return a.finish(ctx)
}

func (a *answer) finish(ctx context.Context) error {
	a.endItem(ctx)
	if a.usage != nil {
		a.tell(ctx, model.Event{Usage: a.usage})
	}
	if a.stop == model.StopEnd && a.calls > 0 {
		a.stop = model.StopToolCalls
	}
	if a.left || ctx.Err() != nil {
		return ctx.Err()
	}
	a.finished = true
	a.tell(ctx, model.Event{Done: a.stop})
	return nil // whatever ended meanwhile: nothing follows Done
}

// tell hands out an event, unless nobody listens any more.
func (a *answer) tell(ctx context.Context, ev model.Event) {
	if !a.left && ctx.Err() == nil {
		a.left = !a.yield(ev, nil)
	}
}

func (a *answer) chunk(ctx context.Context, data []byte) error {
	if fragment, ok := quickText(data); ok && a.stop == "" {
		a.text(ctx, fragment, "")
		return ctx.Err()
	}
	c, ok := quickChunk(data)
	if !ok {
		c = chunk{}
		if err := json.Unmarshal(data, &c); err != nil {
			return &model.Error{Kind: model.ErrStream, Message: "Gemini sent an event that cannot be read: " + err.Error(), Retryable: true}
		}
	}
	if c.Error != nil {
		return c.Error.toError(c.Error.Code, 0)
	}
	if u := c.Usage; u != nil {
		a.usage = &model.Usage{
			InputTokens: int64(u.Prompt + u.Tools), OutputTokens: int64(u.Answer + u.Thoughts),
			CachedTokens: int64(u.Cached), ReasoningTokens: int64(u.Thoughts),
		}
	}
	if c.Feedback != nil && c.Feedback.Block != "" {
		a.stop = model.StopRefusal
	}
	for _, candidate := range c.Candidates {
		if candidate.Index != 0 || a.stop != "" {
			continue // one answer was asked for
		}
		for _, p := range candidate.Content.Parts {
			a.part(ctx, p)
		}
		if candidate.Finish != "" {
			var err error
			if a.stop, err = stopReason(candidate.Finish, candidate.Message); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

func (a *answer) part(ctx context.Context, p heard) {
	switch {
	case p.Call != nil:
		a.endItem(ctx)
		args := string(p.Call.Args)
		if args == "" || args == "null" {
			args = "{}"
		}
		a.calls++
		a.tell(ctx, model.Event{Call: &model.RawCall{
			ID: p.Call.ID, Name: p.Call.Name, Args: args, Opaque: p.Signature, Origin: Origin,
		}})
	case p.Thought:
		a.thought(ctx, p)
	case p.Text != nil:
		a.text(ctx, *p.Text, p.Signature)
	case p.Signature != "":
		a.signature(ctx, signsVoid, p.Signature)
	}
}

func (a *answer) thought(ctx context.Context, p heard) {
	r := model.Reasoning{Opaque: p.Signature, Origin: Origin}
	if p.Text != nil {
		r.Text = *p.Text
	}
	if r.Text == "" && r.Opaque == "" {
		return
	}
	a.begin(ctx, true)
	a.tell(ctx, model.Event{Reasoning: &r})
	if r.Opaque != "" {
		a.endItem(ctx)
	}
}

// text tells a piece of text. A signed piece stays a part of its own: joined
// with its neighbours it would not be what was signed.
func (a *answer) text(ctx context.Context, s, signature string) {
	if signature != "" {
		a.endItem(ctx)
	}
	if s != "" {
		a.begin(ctx, false)
		a.tell(ctx, model.Event{Text: s})
	}
	switch {
	case signature == "":
	case s == "":
		a.signature(ctx, signsVoid, signature)
	default:
		a.endItem(ctx)
		a.signature(ctx, signsText, signature)
	}
}

// signature tells a signature that came without a thought.
func (a *answer) signature(ctx context.Context, where, signature string) {
	a.begin(ctx, true)
	a.tell(ctx, model.Event{Reasoning: &model.Reasoning{ID: where, Opaque: signature, Origin: Origin}})
	a.endItem(ctx)
}

func (a *answer) begin(ctx context.Context, thinking bool) {
	if a.thinking != thinking {
		a.endItem(ctx)
	}
	a.inItem, a.thinking = true, thinking
}

func (a *answer) endItem(ctx context.Context) {
	if a.inItem {
		a.inItem = false
		a.tell(ctx, model.Event{ItemDone: true})
	}
}

// stopReason says what an answer's end means. Some ends are failures.
func stopReason(reason, message string) (model.StopReason, error) {
	switch reason {
	case "STOP":
		return model.StopEnd, nil
	case "MAX_TOKENS":
		return model.StopLength, nil
	case "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII",
		"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "MODEL_ARMOR":
		return model.StopRefusal, nil
	}
	kind, retryable := model.ErrStream, true
	switch reason {
	case "TOO_MANY_TOOL_CALLS":
		kind, retryable = model.ErrLimit, false
	case "MISSING_THOUGHT_SIGNATURE":
		kind, retryable = model.ErrBadRequest, false
	}
	text := fmt.Sprintf("Gemini ended its answer with %.60q", reason)
	if message != "" {
		text += ": " + clip(message)
	}
	return "", &model.Error{Kind: kind, Message: text, Retryable: retryable}
}
