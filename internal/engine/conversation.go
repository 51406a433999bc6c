package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"stave/internal/machine/session"
	"stave/internal/model"
	"stave/internal/runelog"
	"stave/internal/world"
)

// maxTitle bounds the title made from a first message, in runes.
const maxTitle = 72

// Begin is what a new conversation starts from.
type Begin struct {
	Text     string // the first message, may be empty
	Title    string // by default the beginning of that
	Images   []model.Image
	Config   session.Config
	Headless bool
	By       string
	Run      *Run // a workflow it begins with; its By and Headless are those above
}

// Begin makes a new conversation, gives it its first message, and returns its log.
func (e *Engine) Begin(ctx context.Context, b Begin) (string, error) {
	log := e.opt.NewID("conv")
	setDefault(&b.Title, b.Text)
	c := session.Created{ConversationID: log, RootAgentID: e.opt.NewID("agt"), Title: title(b.Title), Headless: b.Headless, Config: b.Config}
	if b.Text != "" {
		c.First = &session.First{Say: session.Say{Text: b.Text, Headless: b.Headless, Images: b.Images}, By: b.By}
	}
	m := world.Message{Log: log, Path: world.SessionPath, By: b.By, Command: session.Create{Created: c}}
	if b.Run != nil {
		r := *b.Run
		r.Headless = b.Headless
		run, err := e.newRun(r, c.RootAgentID)
		if err != nil {
			return "", err
		}
		m.Also = []world.Aside{run}
	}
	if _, err := e.Tell(ctx, m); err != nil {
		return "", fmt.Errorf("beginning a conversation: %w", err)
	}
	return log, nil
}

// Say gives a conversation a message.
func (e *Engine) Say(ctx context.Context, log string, s session.Say, by string) error {
	_, err := e.Tell(ctx, world.Message{Log: log, Path: world.SessionPath, By: by, Command: s})
	return err
}

// title is the first line of a message, cut to size.
func title(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD")), "\n")
	if utf8.RuneCountInString(line) <= maxTitle {
		return line
	}
	return string([]rune(line)[:maxTitle-1]) + "…"
}

// Fork begins a new conversation with what was said in another up to a rune.
// The new log carries that transcript itself, so it stands alone.
func (e *Engine) Fork(ctx context.Context, log string, at uint64, by string) (string, error) {
	t := world.NewTranscript(world.RootPath)
	w := world.New(log)
	var hash runelog.Hash
	for r, err := range e.opt.Log.Read(ctx, log, 0) {
		if err != nil {
			return "", err
		}
		if at != 0 && r.Seq > at {
			break
		}
		if err := errors.Join(w.Fold(r), t.Add(r)); err != nil {
			return "", err
		}
		hash = r.Hash()
	}
	if w.Seq() == 0 || w.Seq() < at {
		return "", fmt.Errorf("forking %s: it has no rune %d, its last is %d", log, at, w.Seq())
	}
	s := w.Session()
	cfg := s.Config
	cfg.Origin = &session.Origin{Log: log, Seq: w.Seq(), Hash: hash.String()}
	cfg.History = t.Messages()
	fork := e.opt.NewID("conv")
	_, err := e.Tell(ctx, world.Message{Log: fork, Path: world.SessionPath, By: by, Command: session.Create{Created: session.Created{
		ConversationID: fork, RootAgentID: e.opt.NewID("agt"), Title: s.Title + " (fork)", Headless: s.Headless, Config: cfg,
	}}})
	return fork, err
}

// SwitchModel lets another model go on with a conversation, if it can take what
// was said so far.
func (e *Engine) SwitchModel(ctx context.Context, log, name, by string) error {
	if _, err := e.opt.Provider(ctx, name); err != nil {
		return err
	}
	info := e.opt.Info(name)
	if info.NoImages {
		t := world.NewTranscript(world.RootPath)
		for r, err := range e.opt.Log.Read(ctx, log, 0) {
			if err = errors.Join(err, t.Add(r)); err != nil {
				return err
			}
		}
		if hasImages(t.Messages()) {
			return fmt.Errorf("%s cannot look at images, and the conversation has some; choose a model that can", name)
		}
	}
	if info.NoTools && len(e.allowed(nil)) > 0 {
		return fmt.Errorf("%s cannot call tools, and the conversation needs them; choose a model that can", name)
	}
	_, err := e.Tell(ctx, world.Message{Log: log, Path: world.SessionPath, By: by, Command: session.SwitchModel{Model: name}})
	return err
}

func hasImages(messages []model.Message) bool {
	for _, m := range messages {
		for _, p := range m.Parts {
			if p.Image != nil || p.Result != nil && len(p.Result.Images) > 0 {
				return true
			}
		}
	}
	return false
}

// Archive moves a closed conversation to cold storage.
func (e *Engine) Archive(ctx context.Context, log, by string) error {
	v, err := e.Look(ctx, log)
	if err != nil {
		return err
	}
	if v.State != "archived" { // else a crash came between the rune and the move
		if _, err := e.Tell(ctx, world.Message{Log: log, Path: world.SessionPath, By: by, Command: session.Archive{}}); err != nil {
			return err
		}
	}
	return e.opt.Log.Archive(ctx, log)
}
