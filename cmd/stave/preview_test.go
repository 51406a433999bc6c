package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stave/internal/machine/tool"
)

// shownCall is what a person reads of a call.
func shownCall(t *testing.T, dir, hint, name string, args any, traits ...string) string {
	t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	a, _, _ := testApp(t)
	a.models.secrets.Add("canary-4711-secret")
	p := a.preview(tool.Call{Tool: name, Arguments: raw, Digest: strings.Repeat("ab", 32), Traits: traits}, dir)
	return strings.ReplaceAll(strings.Join(p.lines(&a.console, hint), "\n"), dir, "DIR")
}

type argsOf map[string]any

// previewDir is a workspace with a file of each kind.
func previewDir(t *testing.T) string {
	t.Helper()
	outer := t.TempDir()
	dir := filepath.Join(outer, "work")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"a.txt": "one\ntwo\nthree\n", "key.txt": "KEY=canary-4711-secret\n", "bin": "\x00\x01", "../out.txt": "outside\n",
		"big": strings.Repeat("x", maxCompared+1),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"leads-out": "../out.txt", "link": "a.txt"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

const tail = "\n  cwd     DIR\n  digest  abababababab…"

// TestPreview shows what people read of the calls they are asked about.
func TestPreview(t *testing.T) {
	dir := previewDir(t)
	for _, c := range []struct {
		name, tool string
		args       argsOf
		want       string
	}{
		{"a new file", "Write", argsOf{"path": "n.txt", "content": "x\n\tpy\n"}, "  change\n  │ @@ n.txt: a new file, 2 lines\n  │ @@ -0,0 +1,2 @@\n  │ +x\n  │ +\tpy"},
		{"replaced", "Write", argsOf{"path": "a.txt", "content": "one\n2\nthree\n"}, "  change\n  │ @@ a.txt: changes 1 line\n  │ @@ -1,3 +1,3 @@\n  │  one\n  │ -two\n  │ +2\n  │  three"},
		{"by its whole path", "Write", argsOf{"path": filepath.Join(dir, "a.txt"), "content": "one\ntwo\nthree\n"}, "  change\n  │ @@ DIR/a.txt: nothing would change"},
		{"emptied", "Write", argsOf{"path": "a.txt", "content": ""}, "  change\n  │ @@ a.txt: removes 3 lines\n  │ @@ -1,3 +0,0 @@\n  │ -one\n  │ -two\n  │ -three\n  │ (it would be empty)"},
		{"no text", "Write", argsOf{"path": "bin", "content": "x"}, "  change\n  │ @@ bin: it is not compared: its 2 bytes are not text\n  │ @@ -0,0 +1,1 @@\n  │ +x\n  │ \\ No newline at end of file"},
		{"a link inside", "Write", argsOf{"path": "link", "content": "one\ntwo\nthree\n"}, "  change\n  │ @@ link: nothing would change (a symbolic link to a.txt)"},
		{"a link out", "Write", argsOf{"path": "leads-out", "content": "x\n"}, "  change\n  │ @@ leads-out: it is not compared: path escapes from parent\n  │ @@ -0,0 +1,1 @@\n  │ +x"},
		{"out", "Write", argsOf{"path": "../out.txt", "content": "x\n"}, "  change\n  │ @@ ../out.txt: it is not compared: it is outside the workspace, so the call would fail\n  │ @@ -0,0 +1,1 @@\n  │ +x"},
		{"a pipe nobody writes to", "Write", argsOf{"path": "pipe", "content": "x\n"}, "  change\n  │ @@ pipe: it is not compared: it is not a regular file\n  │ @@ -0,0 +1,1 @@\n  │ +x"},
		{"an edit", "Edit", argsOf{"path": "a.txt", "old_string": "two", "new_string": "2"}, "  change\n  │ @@ a.txt: changes 1 line\n  │ @@ -1,3 +1,3 @@\n  │  one\n  │ -two\n  │ +2\n  │  three"},
		{"an edit that does not fit", "Edit", argsOf{"path": "a.txt", "old_string": "four", "new_string": "4"}, "  change\n  │ @@ a.txt: it cannot be compared: the text to replace is not in it, so the call would fail\n  │ @@ -1,1 +1,1 @@\n  │ -four\n  │ \\ No newline at end of file\n  │ +4\n  │ \\ No newline at end of file"},
		{"edits after one another", "MultiEdit", argsOf{"edits": []argsOf{
			{"path": "a.txt", "old_string": "two", "new_string": "2"}, {"path": "./a.txt", "old_string": "2", "new_string": "deux"},
		}}, "  change\n  │ @@ a.txt: changes 1 line\n  │ @@ -1,3 +1,3 @@\n  │  one\n  │ -two\n  │ +deux\n  │  three"},
		{"a secret in the file", "Write", argsOf{"path": "key.txt", "content": ""}, "  change\n  │ @@ key.txt: removes 1 line\n  │ @@ -1,1 +0,0 @@\n  │ -KEY=[redacted]\n  │ (it would be empty)"},
		{"a command", "Bash", argsOf{"command": "cd x\n\techo \u202e\x1b[2J", "timeout_seconds": 5, "description": "harmless"}, "  command\n  │ cd x\n  │ \techo \\u202e\\u001b[2J\n  network no\n  at most 5s\n  model   says: harmless"},
		{"an address", "Fetch", argsOf{"url": "https://good.example@evil.example/?q=a"}, "  url\n  │ https://good.example@evil.example/?q=a\n  host    evil.example"},
		{"letters from elsewhere", "Fetch", argsOf{"url": "https://ex\u0430mple.org/"}, "  url\n  │ https://ex\u0430mple.org/\n  host    ex\u0430mple.org (its letters may not be what they look like)"},
		{"a question", "AskUser", argsOf{"question": "Red\nor blue?", "choices": []string{"red", "blue\n? y"}}, "  question\n  │ Red\n  │ or blue?\n  1       red\n  2       blue\\u000a? y"},
		{"others", "far__send", argsOf{"to": "x", "body": argsOf{"a": 1}}, "  arguments\n  │ {\n  │   \"body\": {\n  │     \"a\": 1\n  │   },\n  │   \"to\": \"x\"\n  │ }"},
		{"of another form", "Write", argsOf{"path": []string{"a"}}, "  arguments\n  │ {\n  │   \"path\": [\n  │     \"a\"\n  │   ]\n  │ }"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want+tail, shownCall(t, dir, "? shows all", c.tool, c.args)); diff != "" {
				t.Error(diff)
			}
		})
	}
	long := strings.Repeat("same\n", 49)
	if err := os.WriteFile(filepath.Join(dir, "long"), []byte(long+"fifty\n"+long), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := shownCall(t, dir, "", "Edit", argsOf{"path": "long", "old_string": "fifty\n", "new_string": "50\nand\n"}); !strings.Contains(got, "@@ long: removes 1 line, adds 2 lines\n") {
		t.Errorf("a small edit of a long file:\n%.200s", got)
	}
	if got := shownCall(t, dir, "", "Write", argsOf{"path": "big", "content": "x\n"}); !strings.Contains(got, "which is too many") {
		t.Errorf("a large file is compared:\n%.200s", got)
	}
	if got := shownCall(t, dir, "", "Bash", argsOf{"command": "ls"}, tool.External); !strings.Contains(got, "network yes, it can send data out") {
		t.Errorf("a command with network does not say so:\n%s", got)
	}
}

// TestPreviewBounded shows that a long call is cut, that the cut is told, and that
// the whole of it is there for whoever asks.
func TestPreviewBounded(t *testing.T) {
	var b strings.Builder
	for i := range 100 {
		fmt.Fprintf(&b, "echo %d\n", i)
	}
	command := b.String() + "true" + strings.Repeat(" ", 1000) + "; rm -rf ~"
	short := shownCall(t, "/", "? shows all", "Bash", argsOf{"command": command})
	if strings.Contains(short, "echo 40\n") || !strings.Contains(short, "echo 39\n  … 61 more lines; ? shows all\n") {
		t.Errorf("cut to\n%s", short)
	}
	if whole := shownCall(t, "/", "", "Bash", argsOf{"command": command}); !strings.Contains(whole, "; rm -rf ~\n") || strings.Contains(whole, "more") {
		t.Errorf("the whole is\n%s", whole)
	}
	wide := shownCall(t, "/", "? shows all", "Bash", argsOf{"command": strings.Repeat(" ", 500) + "rm x"})
	if !strings.Contains(wide, "… 104 more characters; ? shows all\n") {
		t.Errorf("a wide line is\n%s", wide)
	}
}

// FuzzPreview shows that no argument gets a line of its own, one that is not
// behind our bar or name, and nothing a terminal acts on.
func FuzzPreview(f *testing.F) {
	f.Add("Bash", `{"command":"ls\n? y = yes\u001b[2J"}`)
	f.Add("Write", `{"path":"a\nb","content":"x\ry\u2028"}`)
	f.Add("AskUser", `{"question":"q","choices":["\n  digest 00"]}`)
	f.Add("Fetch", `{"url":"https://a\nb/"}`)
	f.Add("x", "{")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, name, args string) {
		a, _, _ := testApp(t)
		p := a.preview(tool.Call{Tool: name, Arguments: []byte(args), Digest: "00"}, dir)
		for _, l := range p.lines(&a.console, "") {
			if strings.TrimLeft(l, " ") == l || strings.ContainsFunc(l, func(r rune) bool { return r != '\t' && hidden(r) }) {
				t.Fatalf("%s %q is shown as %q", name, args, l)
			}
		}
	})
}
