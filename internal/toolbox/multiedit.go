package toolbox

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"strings"
)

const (
	maxEditFiles = 20
	// maxEditTotal bounds what is held in memory: every file before and after.
	maxEditTotal = maxEditBytes
)

//go:embed multiedit.md
var multiEditDoc string

type multiEditArgs struct {
	Edits []editArgs `json:"edits" min:"1" max:"100" jsonschema:"the edits, done in this order"`
}

// MultiEdit returns the tool that makes several edits at once.
func MultiEdit() Tool {
	return New("MultiEdit", multiEditDoc, Idempotent, false, runMultiEdit).with(private).onFiles()
}

func runMultiEdit(ctx context.Context, env Env, args multiEditArgs) (Output, error) {
	b := &batch{}
	defer b.close()
	if err := b.open(ctx, env, args.Edits); err != nil {
		b.blind = env.Attempt() > 1 && len(env.Intent()) > 0
		return b.failed(err)
	}
	odd, err := b.recover(env)
	if err != nil {
		return b.failed(err)
	}
	if odd {
		return b.unknown("The program stopped while it was changing several files, and something else changed some of them since. " +
			"Nothing was written now."), nil
	}
	for _, step := range []func() error{
		func() error { return b.plan(args.Edits) },
		func() error { return b.declare(ctx, env) },
		func() error { return b.stage(ctx) },
		b.commit,
	} {
		if err := step(); err != nil {
			return b.failed(err)
		}
	}
	return b.output(), nil
}

// batch is a set of files that change together.
type batch struct {
	files    []*batchFile
	byEdit   []*batchFile // the file of each edit
	declared bool         // by an earlier attempt, with these very files
	mixed    bool         // some files are changed and others are not
	blind    bool         // how far an earlier attempt came cannot be seen
}

type batchFile struct {
	*target
	first    int // the edit that named it first
	old, new string
	temp     string // its staged content; empty when nothing is to be written
	edits    int
	places   int
	done     bool        // an earlier attempt has written it
	idle     bool        // an earlier attempt found nothing to change in it
	was      change      // what the earlier attempt declared
	placed   os.FileInfo // what we put there, for taking it back
}

// failed ends a batch. What an earlier attempt has written stays written, so
// only then is the outcome more than an ordinary error.
func (b *batch) failed(err error) (Output, error) {
	switch {
	case b.blind:
		return Output{Unknown: true, Text: fmt.Sprintf("The program stopped while it was changing several files, and now nobody can "+
			"tell how far it came: %v. Nothing was written now. Read the files before you decide.", err)}, nil
	case b.mixed:
		return b.unknown(fmt.Sprintf("Several files were to change together and only some did: %v.", err)), nil
	}
	return Output{}, fmt.Errorf("%w; no file was changed", err)
}

// edit names an edit in errors as its arguments do.
func edit(i int) string { return fmt.Sprintf("edits[%d]", i) }

// open looks at every file once, however often it is named.
func (b *batch) open(ctx context.Context, env Env, edits []editArgs) error {
	byPath := map[string]*batchFile{}
	for i, e := range edits {
		if e.OldString == e.NewString {
			return fmt.Errorf("%s: %w", edit(i), errSameText)
		}
		if known := byPath[e.Path]; known != nil {
			b.byEdit = append(b.byEdit, known)
			continue
		}
		t, err := openTarget(ctx, env, e.Path)
		if err != nil {
			return fmt.Errorf("%s: %w", edit(i), err)
		}
		if known := byPath[t.path]; known != nil {
			t.Close()
			byPath[e.Path] = known
			b.byEdit = append(b.byEdit, known)
			continue
		}
		f := &batchFile{target: t, first: i}
		byPath[t.path], byPath[e.Path] = f, f
		b.files, b.byEdit = append(b.files, f), append(b.byEdit, f)
		if len(b.files) > maxEditFiles {
			return fmt.Errorf("%s names one file more than the %d that can be edited at once", edit(i), maxEditFiles)
		}
		if other := b.twin(f); other != nil {
			return fmt.Errorf("%s and %s name the same file as %s and %s; use one path for it",
				edit(other.first), edit(i), other.path, f.path)
		}
	}
	return nil
}

// twin finds another path to the same file, over a linked directory or where
// upper and lower case are one. Edited as two files, one change would be lost.
func (b *batch) twin(f *batchFile) *batchFile {
	for _, other := range b.files {
		if other != f && other.info != nil && f.info != nil && os.SameFile(other.info, f.info) {
			return other
		}
	}
	return nil
}

// plan tries all edits in memory.
func (b *batch) plan(edits []editArgs) error {
	total := 0
	for _, f := range b.files {
		if f.done || f.idle {
			continue
		}
		text, err := f.content()
		if err != nil {
			return fmt.Errorf("%s: %w", edit(f.first), err)
		}
		f.old, f.new = text, text
		if total += len(text); total > maxEditTotal {
			return fmt.Errorf("the files have together more than the %d bytes that can be edited at once", maxEditTotal)
		}
	}
	for i, e := range edits {
		f := b.byEdit[i]
		f.edits++
		if f.done || f.idle {
			continue
		}
		text, count, err := replaceText(f.new, e)
		if err != nil {
			return fmt.Errorf("%s, %s: %w%s", edit(i), f.path, err, afterEarlier(f))
		}
		if total += max(0, len(text)-len(f.new)); total > maxEditTotal {
			return fmt.Errorf("%s makes the files grow beyond the %d bytes that can be edited at once", edit(i), maxEditTotal)
		}
		f.new, f.places = text, f.places+count
	}
	return nil
}

// afterEarlier reminds a model that line numbers are those after its own edits.
func afterEarlier(f *batchFile) string {
	if f.edits < 2 {
		return ""
	}
	return fmt.Sprintf("\n(%d earlier edits of this call had been applied to the text)", f.edits-1)
}

func (b *batch) output() Output {
	var text strings.Builder
	var files []map[string]any
	places := 0
	for _, f := range b.files {
		places += f.places
		meta := map[string]any{"path": f.path, "edits": f.edits}
		switch {
		case f.done:
			meta["before"], meta["after"], meta["recovered"] = f.was.Before, f.was.After, true
			fmt.Fprintf(&text, "%s has the intended content %s\n", f.path, alreadyDone)
		case f.old == f.new:
			meta["before"], meta["after"] = f.before, f.before
			fmt.Fprintf(&text, "no change: the edits of %s cancel each other\n", f.path)
		default:
			meta["before"], meta["after"], meta["bytes"] = f.before, sum([]byte(f.new)), len(f.new)
			fmt.Fprintf(&text, "edited %s in %d places\n", f.path, f.places)
		}
		files = append(files, meta)
	}
	return Output{Text: text.String(), Meta: map[string]any{"files": files, "replacements": places}}
}

func (b *batch) close() {
	for _, f := range b.files {
		if f.temp != "" {
			f.parent.Remove(f.temp) // gone already when it was put in place
		}
		f.Close()
	}
}
