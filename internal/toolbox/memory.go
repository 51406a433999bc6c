package toolbox

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
)

//go:embed memory.md
var memoryDoc string

// Actions of Memory.
const (
	memoryList   = "list"
	memoryAppend = "append"
	memoryRemove = "remove"
)

type memoryArgs struct {
	Action string `json:"action" enum:"list,append,remove" jsonschema:"what to do"`
	Text   string `json:"text,omitempty" max:"500" jsonschema:"the note to append, in one line"`
	ID     string `json:"id,omitempty" max:"64" jsonschema:"the id of the note to remove"`
}

// Memory returns the tool that keeps notes in a directory. What such a note says
// is read in conversations to come, so one that untrusted content may have
// dictated is kept apart until a person clears it: tainted says whether this
// conversation has read such content. Without it every note is kept apart.
//
// A note's id comes from its text, so doing a lost call again changes nothing.
func Memory(dir string, tainted func() bool) Tool {
	if tainted == nil {
		tainted = func() bool { return true }
	}
	m := memory{notes: NotesIn(dir), tainted: tainted}
	return New("Memory", memoryDoc, Idempotent, false, m.run).with(private)
}

type memory struct {
	notes   Notes
	tainted func() bool
}

func (m memory) run(_ context.Context, _ Env, args memoryArgs) (Output, error) {
	switch args.Action {
	case memoryAppend:
		return m.append(args)
	case memoryRemove:
		return m.remove(args)
	}
	if args.Text != "" || args.ID != "" {
		return Output{}, errors.New("list takes neither text nor id")
	}
	return m.list()
}

func (m memory) append(args memoryArgs) (Output, error) {
	if args.ID != "" {
		return Output{}, errors.New("append takes text alone: a note gets its id by itself")
	}
	note, fresh, err := m.notes.Append(args.Text, m.tainted())
	if err != nil {
		return Output{}, err
	}
	meta := map[string]any{"id": note.ID, "waiting": note.Waiting, "new": fresh}
	switch {
	case note.Waiting:
		return Output{Text: "noted as " + note.ID + ", but it is shown to nobody until a person has looked at it", Meta: meta}, nil
	case !fresh:
		return Output{Text: "that note is kept already, as " + note.ID, Meta: meta}, nil
	}
	return Output{Text: "noted as " + note.ID, Meta: meta}, nil
}

func (m memory) remove(args memoryArgs) (Output, error) {
	if args.ID == "" || args.Text != "" {
		return Output{}, errors.New("remove takes the id of a note alone; list shows the ids")
	}
	if m.tainted() {
		return Output{}, errors.New("content from outside was read in this conversation, so only a person may remove notes now")
	}
	removed, err := m.notes.Remove(args.ID)
	if err != nil {
		return Output{}, err
	}
	text := "removed " + args.ID
	if !removed {
		text = "there is no note " + fmt.Sprintf("%q", shorten(args.ID))
	}
	return Output{Text: text, Meta: map[string]any{"id": args.ID, "removed": removed}}, nil
}

// list shows the notes that may be shown, and says how many may not.
func (m memory) list() (Output, error) {
	notes, err := m.notes.List()
	if err != nil {
		return Output{}, err
	}
	var b strings.Builder
	shown, waiting := 0, 0
	for _, n := range notes {
		if n.Waiting {
			waiting++
			continue
		}
		shown++
		fmt.Fprintf(&b, "%s %s\n", n.ID, n.Text)
	}
	if shown == 0 {
		b.WriteString("(no notes)\n")
	}
	if waiting > 0 {
		fmt.Fprintf(&b, "[%d more notes wait until a person has looked at them]\n", waiting)
	}
	return Output{Text: b.String(), Meta: map[string]any{"notes": shown, "waiting": waiting}}, nil
}
