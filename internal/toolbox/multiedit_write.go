package toolbox

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
)

// changes is what is declared before any file of a batch is replaced. Each file
// changes in one step; together they tell how far a batch came.
type changes struct {
	Files []change `json:"files"`
}

// recover finds out how far an earlier attempt came. A batch that was half done
// is finished, because what each file was to become depends on that file alone.
// It reports odd when a file is neither as before nor as intended.
func (b *batch) recover(env Env) (odd bool, err error) {
	if env.Attempt() <= 1 || len(env.Intent()) == 0 {
		return false, nil
	}
	var was changes
	if err := json.Unmarshal(env.Intent(), &was); err != nil {
		return false, fmt.Errorf("reading the earlier attempt's intent: %w", err)
	}
	byPath := map[string]change{}
	for _, c := range was.Files {
		byPath[c.Path] = c
	}
	b.declared = true
	for _, f := range b.files {
		c, ok := byPath[f.path]
		if !ok {
			f.idle = true
			continue
		}
		delete(byPath, f.path)
		f.was = c
		f.removeTemp(c.Temp)
		f.done = f.before == c.After
		b.mixed = b.mixed || f.done
		odd = odd || !f.done && f.before != c.Before
	}
	return odd || len(byPath) > 0, nil
}

// unknown tells of every file where it stands now.
func (b *batch) unknown(why string) Output {
	var text strings.Builder
	var files []map[string]any
	text.WriteString(why + " Read the files before you decide.\n")
	for _, f := range b.files {
		state, found := "neither as before nor as intended", f.now()
		switch {
		case f.idle || f.was.Path == "":
			state = "was not to be written"
		case found == f.was.After:
			state = "changed as intended"
		case found == f.was.Before:
			state = "as before"
		}
		fmt.Fprintf(&text, "%s: %s\n", f.path, state)
		files = append(files, map[string]any{
			"path": f.path, "before": f.was.Before, "after": f.was.After, "found": found, "state": state,
		})
	}
	return Output{Unknown: true, Text: text.String(), Meta: map[string]any{"files": files}}
}

// now is the hash of what stands at the path at this moment, empty for nothing
// that can be read.
func (f *batchFile) now() string {
	if f.parent == nil {
		return ""
	}
	info, err := f.parent.Lstat(f.name)
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	fresh := f.replacing(info)
	fresh.before = ""
	if err := fresh.hash(context.Background()); err != nil {
		return ""
	}
	return fresh.before
}

// declare makes the whole plan durable before its first effect.
func (b *batch) declare(ctx context.Context, env Env) error {
	var plan changes
	same := b.declared
	for _, f := range b.files {
		if f.done {
			plan.Files = append(plan.Files, f.was)
			continue
		}
		if f.old == f.new {
			continue
		}
		c := change{Path: f.path, Before: f.before, After: sum([]byte(f.new)), Temp: f.was.Temp}
		if c != f.was {
			c.Temp, same = tempPrefix+rand.Text(), false
		}
		f.was = c
		plan.Files = append(plan.Files, c)
	}
	if len(plan.Files) == 0 || same {
		return nil
	}
	if err := env.Declare(ctx, plan); err != nil {
		return fmt.Errorf("declaring the edits of %d files: %w", len(plan.Files), err)
	}
	return nil
}

// stage writes all new contents beside their files, so that a full disk or a
// missing permission is found while nothing has changed.
func (b *batch) stage(ctx context.Context) error {
	for _, f := range b.files {
		if f.done || f.idle || f.old == f.new {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		f.temp = f.was.Temp
		if err := f.writeTemp(f.temp, []byte(f.new)); err != nil {
			return fmt.Errorf("writing %w", pathProblem(f.path, err))
		}
	}
	for _, f := range b.files {
		if f.temp == "" {
			continue
		}
		if err := f.unchanged(); err != nil {
			return fmt.Errorf("writing %w", pathProblem(f.path, err))
		}
	}
	return ctx.Err()
}

// commit puts the staged files in their places. If one fails, those before it
// are taken back; whether that worked decides what may be told.
func (b *batch) commit() error {
	for i, f := range b.files {
		if f.temp == "" {
			continue
		}
		if err := f.put(); err != nil {
			b.mixed = !takeBack(b.files[:i+1]) || b.mixed
			return fmt.Errorf("writing %w", pathProblem(f.path, err))
		}
	}
	return nil
}

// put replaces one file by its staged content.
func (f *batchFile) put() error {
	if err := f.unchanged(); err != nil {
		return err
	}
	info, err := f.parent.Lstat(f.temp)
	if err != nil {
		return err
	}
	if err := f.parent.Rename(f.temp, f.name); err != nil {
		return err
	}
	f.placed = info
	return syncDir(f.parent, ".")
}

// takeBack gives files their old content again and reports whether every file
// that we had changed has it.
func takeBack(files []*batchFile) bool {
	whole := true
	for _, f := range files {
		if f.placed == nil {
			continue
		}
		if err := f.replacing(f.placed).replace(tempPrefix+rand.Text(), []byte(f.old)); err != nil {
			whole = false
		}
	}
	return whole
}
