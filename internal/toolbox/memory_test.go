package toolbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMemory shows a note's life, and that doing each step again after a crash
// changes nothing.
func TestMemory(t *testing.T) {
	env, dir := newEnv(t), filepath.Join(t.TempDir(), "memory")
	tool := Memory(dir, func() bool { return false })
	if out := env.must(tool, args{"action": "list"}); out.Text != "(no notes)\n" {
		t.Error(out.Text)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("looking made the directory")
	}
	first := env.must(tool, args{"action": "append", "text": " tests run with make test "})
	id := first.Meta["id"].(string)
	again := env.must(tool, args{"action": "append", "text": "tests run with make test"})
	if again.Meta["id"] != id || again.Meta["new"] != false || again.Text != "that note is kept already, as "+id {
		t.Errorf("%s, %v", again.Text, again.Meta)
	}
	env.must(tool, args{"action": "append", "text": "<b> & ü"})
	other := Memory(dir, func() bool { return true })
	if out := env.must(other, args{"action": "list"}); !strings.HasPrefix(out.Text, id+" tests run with make test\n") || !strings.HasSuffix(out.Text, " <b> & ü\n") {
		t.Error(out.Text)
	}
	for _, removed := range []bool{true, false} {
		if out := env.must(tool, args{"action": "remove", "id": id}); out.Meta["removed"] != removed {
			t.Errorf("%s, %v", out.Text, out.Meta)
		}
	}
	if out := env.must(tool, args{"action": "list"}); out.Meta["notes"] != 1 {
		t.Error(out.Text)
	}
	for name, mode := range map[string]os.FileMode{".": privateDirectory | os.ModeDir, notesName: privateMode, notesLock: privateMode} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode() != mode {
			t.Errorf("%s has mode %v, %v", name, info.Mode(), err)
		}
	}
}

// TestMemoryTaint shows that a note of a tainted conversation is read by nobody
// until a person clears it, however often it is said, and that such a
// conversation cannot remove notes.
func TestMemoryTaint(t *testing.T) {
	env, dir := newEnv(t), t.TempDir()
	tainted := true
	tool := Memory(dir, func() bool { return tainted })
	out := env.must(tool, args{"action": "append", "text": "canary"})
	id := out.Meta["id"].(string)
	if !strings.Contains(out.Text, "until a person has looked at it") {
		t.Error(out.Text)
	}
	for _, tainted = range []bool{true, false} {
		env.must(tool, args{"action": "append", "text": "canary"})
		if out := env.must(tool, args{"action": "list"}); out.Text != "(no notes)\n[1 more notes wait until a person has looked at them]\n" {
			t.Error(out.Text)
		}
	}
	if err := NotesIn(dir).Clear("other"); err == nil {
		t.Error("a note that is not there was cleared")
	}
	if err := NotesIn(dir).Clear(id); err != nil {
		t.Fatal(err)
	}
	if out := env.must(tool, args{"action": "list"}); out.Text != id+" canary\n" {
		t.Error(out.Text)
	}
	tainted = true
	_, err := env.run(tool, args{"action": "remove", "id": id})
	wantError(t, err, "only a person may remove notes")
	env.must(Memory(dir, nil), args{"action": "append", "text": "nobody knows"})
	notes, err := NotesIn(dir).List()
	want := []Note{{ID: id, Text: "canary"}, {ID: sum([]byte("nobody knows"))[:noteIDLength], Text: "nobody knows", Waiting: true}}
	if diff := cmp.Diff(want, notes); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

// TestMemoryRefuses shows what is no note, and that a file that cannot be
// understood is left alone.
func TestMemoryRefuses(t *testing.T) {
	env, dir := newEnv(t), t.TempDir()
	tool := Memory(dir, func() bool { return false })
	for says, call := range map[string]args{
		"a note needs text":                          {"action": "append", "text": "  "},
		"one line of visible characters":             {"action": "append", "text": "a\nb"},
		"visible characters":                         {"action": "append", "text": "a\U000e0041"},
		"a note gets its id by itself":               {"action": "append", "text": "a", "id": "b"},
		"remove takes the id of a note alone":        {"action": "remove"},
		"list takes neither":                         {"action": "list", "id": "x"},
		"the id of a note alone; list shows the ids": {"action": "remove", "id": "x", "text": "y"},
	} {
		_, err := env.run(tool, call)
		wantError(t, err, says)
	}
	for _, content := range []string{"{", `[{"id":"a","text":"b","more":1}]`, `[{"ID":"a"}]`, strings.Repeat(" ", maxNotesFile+1)} {
		if err := os.WriteFile(filepath.Join(dir, notesName), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := env.run(tool, args{"action": "append", "text": "a"})
		wantError(t, err, notesName)
		if b, err := os.ReadFile(filepath.Join(dir, notesName)); err != nil || string(b) != content {
			t.Errorf("%.20q became %.20q, %v", content, b, err)
		}
	}
	outside := filepath.Join(t.TempDir(), notesName)
	if err := os.WriteFile(outside, []byte("[]"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, notesName)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, notesName)); err != nil {
		t.Fatal(err)
	}
	_, err := env.run(tool, args{"action": "list"})
	wantError(t, err, "path escapes from parent")
}

// TestMemoryTogether shows that notes written at the same time are all kept, up
// to the most there may be, and that what a crash left behind does not matter.
func TestMemoryTogether(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, tempPrefix+notesName), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	const writers, each = 4, 10
	var kept []Note
	for i := range maxNotes - writers*each {
		kept = append(kept, Note{ID: fmt.Sprint(i), Text: "older"})
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := writeNotes(root, kept); err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for writer := range writers {
		wait.Go(func() {
			for i := range each {
				if _, fresh, err := NotesIn(dir).Append(fmt.Sprintf("note %d of %d", i, writer), false); err != nil || !fresh {
					t.Errorf("fresh %v, %v", fresh, err)
				}
			}
		})
	}
	wait.Wait()
	if notes, err := NotesIn(dir).List(); err != nil || len(notes) != maxNotes {
		t.Errorf("%d notes, %v", len(notes), err)
	}
	_, _, err = NotesIn(dir).Append("one more", false)
	wantError(t, err, "200 notes are kept")
	if _, fresh, err := NotesIn(dir).Append("note 0 of 0", false); fresh || err != nil {
		t.Errorf("fresh %v, %v", fresh, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("%v, %v", entries, err)
	}
}
