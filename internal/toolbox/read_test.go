package toolbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// TestRead shows what a model reads of a file.
func TestRead(t *testing.T) {
	long := strings.Repeat("é", 1500)
	for _, c := range []struct {
		name, content string
		args          args
		want          string
	}{
		{"whole", "a\nb\n", args{}, "1\ta\n2\tb\n"},
		{"no newline at the end", "a\nb", args{}, "1\ta\n2\tb\n"},
		{"empty lines", "\n\n", args{}, "1\t\n2\t\n"},
		{"empty", "", args{}, "(the file is empty)"},
		{"offset", "a\nb\nc\n", args{"offset": 2}, "2\tb\n3\tc\n"},
		{"limit", "a\nb\nc\n", args{"limit": 2}, "1\ta\n2\tb\n[the file of 6 bytes goes on: continue with offset 3]\n"},
		{"offset and limit", "a\nb\nc\n", args{"offset": 3, "limit": 1}, "3\tc\n"},
		{"carriage returns", "a\r\nb\r\n", args{}, "1\ta\n2\tb\n[lines end in CRLF, not shown]\n"},
		{"bad bytes", "a\xffb\n", args{}, "1\ta\uFFFDb\n[bytes that are not UTF-8 are shown as \uFFFD]\n"},
		{"long line", "a" + long + "\nb\n", args{}, "1\ta" + strings.Repeat("é", 999) + "… [cut: the line has 3001 bytes]\n2\tb\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := newEnv(t)
			env.put("f", c.content)
			c.args["path"] = "f"
			if diff := cmp.Diff(c.want, env.must(Read(), c.args).Text); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestReadHuge shows that a large file is read in bounded pages that join up.
func TestReadHuge(t *testing.T) {
	env := newEnv(t)
	var all strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&all, "%d %s\n", i+1, strings.Repeat("x", i%50))
	}
	env.put("f", all.String())
	offset, got := 1, ""
	for {
		out := env.must(Read(), args{"path": "f", "offset": offset})
		if len(out.Text) > maxText+200 || out.Meta["lines"].(int) > maxReadLines {
			t.Fatalf("%d bytes, %v lines", len(out.Text), out.Meta["lines"])
		}
		for line := range strings.Lines(out.Text) {
			if _, text, ok := strings.Cut(line, "\t"); ok {
				got += text
			}
		}
		offset += out.Meta["lines"].(int)
		if out.Meta["more"] == false {
			break
		}
	}
	if got != all.String() {
		t.Error("the pages do not add up to the file")
	}
}

// TestReadSparse shows that neither a line nor a file without end needs memory.
func TestReadSparse(t *testing.T) {
	env := newEnv(t)
	env.put("f", "start\n"+strings.Repeat("y", 10_000))
	if err := os.Truncate(filepath.Join(env.dir, "f"), 200<<20); err != nil {
		t.Fatal(err)
	}
	peak, stop := watchHeap()
	out := env.must(Read(), args{"path": "f"})
	stop()
	if !strings.HasPrefix(out.Text, "1\tstart\n2\tyyy") || !strings.HasSuffix(out.Text, "[cut: the line has 209715194 bytes]\n") {
		t.Errorf("%.40s … %s", out.Text, out.Text[max(0, len(out.Text)-80):])
	}
	if peak.Load() > 8<<20 {
		t.Errorf("heap grew by %d bytes", peak.Load())
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	env.put("lines", strings.Repeat("\n", 100_000))
	if _, err := env.runCtx(ctx, Read(), args{"path": "lines", "offset": 90_000}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled search for a line ends with %v", err)
	}
}

// TestReadRefuses shows the errors a model gets.
func TestReadRefuses(t *testing.T) {
	env := newEnv(t)
	env.put("dir/f", "a\nb\n")
	env.put("binary", "ELF\x00\x01")
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("canary"), 0o644); err != nil {
		t.Fatal(err)
	}
	link(t, env, filepath.Join(outside, "secret"), "absolute-link")
	link(t, env, "../"+filepath.Base(outside)+"/secret", "relative-link")
	link(t, env, outside, "dir-link")
	link(t, env, "loop", "loop")
	link(t, env, "dir/f", "good-link")
	if err := syscall.Mkfifo(filepath.Join(env.dir, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path string
		says string
	}{
		{"dir", "dir is a directory; list it with Glob"},
		{".", "is a directory"},
		{"binary", "binary is a binary file of 5 bytes"},
		{"missing", "missing does not exist"},
		{"dir/f/x", "not a directory"},
		{"fifo", "is a FIFO"},
		{"../" + filepath.Base(outside) + "/secret", "outside the workspace"},
		{"dir/../../x", "outside the workspace"},
		{filepath.Join(outside, "secret"), "outside the workspace"},
		{env.dir + "2/x", "outside the workspace"},
		{"/", "outside the workspace"},
		{"absolute-link", "leads out of the workspace"},
		{"relative-link", "leads out of the workspace"},
		{"dir-link/secret", "leads out of the workspace"},
		{"loop", "too many levels of symbolic links"},
		{"a\x00b", "NUL"},
	} {
		out, err := env.run(Read(), args{"path": c.path})
		wantError(t, err, c.says)
		if strings.Contains(out.Text, "canary") || err != nil && strings.Contains(err.Error(), env.dir+"/") {
			t.Errorf("%s: %q, %v tells too much", c.path, out.Text, err)
		}
	}
	_, err := env.run(Read(), args{"path": "dir/f", "offset": 3})
	wantError(t, err, "offset 3 is after the end: the file has 2 lines")
	_, err = env.run(Read(), args{"path": "dir/f", "offset": 30})
	wantError(t, err, "offset 30 is after the end: the file has 2 lines")
	devices := newEnv(t)
	devices.dir = filepath.Dir(os.DevNull)
	_, err = devices.run(Read(), args{"path": "null"})
	wantError(t, err, "is a device")
	for _, path := range []string{filepath.Join(env.dir, "dir/f"), "./dir//f", "good-link", "dir/../dir/f"} {
		if out := env.must(Read(), args{"path": path}); out.Text != "1\ta\n2\tb\n" {
			t.Errorf("%s reads as %q", path, out.Text)
		}
	}
}

// TestReadThroughLinkedWorkspace shows that an absolute path may name the
// workspace by either of its names.
func TestReadThroughLinkedWorkspace(t *testing.T) {
	env := newEnv(t)
	env.put("f", "a\n")
	real := env.dir
	env.dir = filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(real, env.dir); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{real, env.dir} {
		if out := env.must(Read(), args{"path": filepath.Join(dir, "f")}); out.Text != "1\ta\n" {
			t.Errorf("%s: %q", dir, out.Text)
		}
	}
}

func link(t *testing.T, env *fakeEnv, to, name string) {
	t.Helper()
	if err := os.Symlink(to, filepath.Join(env.dir, name)); err != nil {
		t.Fatal(err)
	}
}

func TestTrimPartial(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "a": "a", "é": "é", "a\xc3": "a", "a\xe2\x82": "a", "a\xf0\x9f\x98": "a", "a\xff": "a\xff", "\x80\x80\x80\x80\x80": "\x80\x80\x80\x80\x80",
	} {
		if got := string(trimPartial([]byte(in))); got != want {
			t.Errorf("trimPartial(%q) = %q, want %q", in, got, want)
		}
	}
	if got := shorten(strings.Repeat("é", 100)); !utf8.ValidString(got) || len(got) > maxQuoted+len("…") {
		t.Errorf("shorten gives %q", got)
	}
}
