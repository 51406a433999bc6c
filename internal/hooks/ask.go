package hooks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"stave/internal/machine/tool"
)

const (
	maxAnswerBytes = 64 << 10
	// maxArgsBytes is what a transform may print; arguments are bounded elsewhere, too.
	maxArgsBytes = 8 << 20
	maxInput     = 32 << 20
	// version is the form of what hooks read and write.
	version = 1
)

// input is the one JSON object a hook reads from its standard input.
type input struct {
	Version int            `json:"v"`
	Kind    Kind           `json:"kind"`
	Hook    string         `json:"hook"`
	Dir     string         `json:"dir"`
	CallID  string         `json:"call_id"`
	Tool    string         `json:"tool_name"`
	Args    jsontext.Value `json:"arguments"`
	Digest  string         `json:"args_digest,omitzero"`
	Safety  string         `json:"safety,omitzero"`
	Traits  []string       `json:"traits,omitzero"`
	Result  *outcome       `json:"result,omitzero"`
}

// outcome is how a call ended, for observers.
type outcome struct {
	Status tool.Status    `json:"status"`
	Error  string         `json:"error,omitzero"`
	Output string         `json:"output,omitzero"`
	Blob   string         `json:"blob,omitzero"`
	Meta   jsontext.Value `json:"meta,omitzero"`
}

// Guard asks every guard of the call's tool and returns what each said, in the
// order of the hooks. A guard that fails in any way has refused.
func (s *Set) Guard(ctx context.Context, c tool.Call) []tool.Verdict {
	guards := s.of(Guard, c.Tool)
	if len(guards) == 0 {
		return nil
	}
	said := make([]tool.Verdict, len(guards))
	var all sync.WaitGroup
	for i, h := range guards {
		all.Go(func() { said[i] = s.guard(ctx, h, c) })
	}
	all.Wait()
	return said
}

func (s *Set) guard(ctx context.Context, h Hook, c tool.Call) tool.Verdict {
	var answer struct {
		Decision tool.Answer `json:"decision"`
		Reason   string      `json:"reason"`
	}
	by := "hook:" + h.Name
	printed, err := s.run(ctx, h, s.about(h, c), maxAnswerBytes)
	if err == nil {
		err = decode(printed, &answer)
	}
	if err == nil && answer.Decision != tool.Allow && answer.Decision != tool.Ask && answer.Decision != tool.Refuse {
		err = fmt.Errorf("it answered %q; a guard answers allow, ask or deny", shorten(string(answer.Decision)))
	}
	if err != nil {
		return tool.Verdict{Answer: tool.Refuse, By: by, Reason: fmt.Sprintf("the guard %s did not answer, which counts as a refusal: %v", h.Name, err)}
	}
	reason := shorten(answer.Reason)
	if reason == "" && answer.Decision != tool.Allow {
		reason = "the guard " + h.Name + " gave no reason"
	}
	return tool.Verdict{Answer: answer.Decision, By: by, Reason: reason}
}

// Transform leads a call's arguments through every transform of its tool, one
// after another. The new arguments are a valid JSON object and not canonical
// yet. After an error the call must not run: nobody knows what it should be.
func (s *Set) Transform(ctx context.Context, c tool.Call) (args []byte, changed bool, err error) {
	for _, h := range s.of(Transform, c.Tool) {
		var answer struct {
			Args jsontext.Value `json:"arguments"`
		}
		printed, err := s.run(ctx, h, s.about(h, c), maxArgsBytes)
		if err == nil {
			err = decode(printed, &answer)
		}
		if err == nil && answer.Args != nil && answer.Args.Kind() != jsontext.KindBeginObject {
			err = errors.New("the new arguments are no JSON object")
		}
		if err != nil {
			return nil, false, fmt.Errorf("the transform %s: %w", h.Name, err)
		}
		if answer.Args == nil {
			continue
		}
		changed = changed || !bytes.Equal(answer.Args, c.Arguments)
		c.Arguments = []byte(answer.Args)
		c.Digest = "" // it was of other arguments
	}
	return c.Arguments, changed, nil
}

// Observe tells every observer of the call's tool how it ended. What goes wrong
// is only reported: the call is over.
func (s *Set) Observe(ctx context.Context, c tool.Call, r tool.Result) error {
	observers := s.of(Observer, c.Tool)
	failed := make([]error, len(observers))
	var all sync.WaitGroup
	for i, h := range observers {
		in := s.about(h, c)
		in.Result = &outcome{r.Status, r.Error, r.Text, r.Blob, jsontext.Value(r.Meta)}
		all.Go(func() {
			if _, err := s.run(ctx, h, in, maxAnswerBytes); err != nil {
				failed[i] = fmt.Errorf("the observer %s: %w", h.Name, err)
			}
		})
	}
	all.Wait()
	return errors.Join(failed...)
}

func (s *Set) about(h Hook, c tool.Call) input {
	return input{
		Version: version, Kind: h.Kind, Hook: h.Name, Dir: s.dir,
		CallID: c.CallID, Tool: c.Tool, Args: jsontext.Value(c.Arguments), Digest: c.Digest, Safety: c.Safety, Traits: c.Traits,
	}
}

// decode reads the one JSON object a hook printed. Fields it does not know may
// hold a condition that matters, so they are an error.
func decode(printed []byte, into any) error {
	if len(bytes.TrimSpace(printed)) == 0 {
		return errors.New("it printed nothing; a hook prints one JSON object")
	}
	if jsontext.Value(printed).Kind() != jsontext.KindBeginObject {
		return errors.New("what it printed is no JSON object")
	}
	if err := json.Unmarshal(printed, into, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("what it printed is not as agreed: %s", shorten(err.Error()))
	}
	return nil
}
