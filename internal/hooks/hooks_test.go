package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stave/internal/machine/tool"
)

// patient is a limit that no test runs into, however slow the machine is.
const patient = MaxTimeout

// script is a hook that runs a few lines of shell.
func script(kind Kind, name, lines string) Hook {
	return Hook{Name: name, Kind: kind, Argv: []string{"sh", "-c", lines}, Timeout: patient}
}

func set(t *testing.T, list ...Hook) *Set {
	t.Helper()
	s, err := New("/w/project", list, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var write = tool.Call{CallID: "c1", Tool: "Write", Arguments: []byte(`{"path":"a"}`), Digest: "d", Safety: "idempotent", Traits: []string{tool.Private}}

// TestNewRefuses shows that a bad hook is found before the first call, with its
// place in the list and what to write.
func TestNewRefuses(t *testing.T) {
	good := script(Guard, "g", "true")
	with := func(change func(*Hook)) Hook { h := good; change(&h); return h }
	for want, list := range map[string][]Hook{
		`hook 1 (""): the name is none`:                  {{}},
		`hook 1 ("A b"): the name is none`:               {with(func(h *Hook) { h.Name = "A b" })},
		`hook 2 ("x"): the kind "spy" is unknown`:        {good, with(func(h *Hook) { h.Name, h.Kind = "x", "spy" })},
		`hook 2 ("g"): another hook has the same name`:   {good, good},
		"the timeout -1ns is out of range":               {with(func(h *Hook) { h.Timeout = -1 })},
		"the timeout 5m0.000000001s is out of range":     {with(func(h *Hook) { h.Timeout = MaxTimeout + 1 })},
		"there is no program to run":                     {with(func(h *Hook) { h.Argv = nil })},
		"it names 101 tools":                             {with(func(h *Hook) { h.Tools = make([]string, 101) })},
		`the tool "[" is no glob`:                        {with(func(h *Hook) { h.Tools = []string{"["} })},
		`the program "./x" is a relative path`:           {with(func(h *Hook) { h.Argv = []string{"./x"} })},
		"finding its program: exec: \"no-such-program\"": {with(func(h *Hook) { h.Argv = []string{"no-such-program"} })},
		"there are 101 hooks; at most 100":               make([]Hook, 101),
	} {
		if s, err := New("/", list, nil); s != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	s := set(t, with(func(h *Hook) { h.Timeout = 0 }))
	if h := s.hooks[0]; h.Timeout != defaultTimeout || !filepath.IsAbs(h.Argv[0]) || good.Argv[0] != "sh" {
		t.Errorf("%+v", h)
	}
}

// TestGuard shows what guards may say, and that every way to fail is a refusal
// that tells why.
func TestGuard(t *testing.T) {
	quick := script(Guard, "g", "sleep 1000")
	quick.Timeout = 20 * time.Millisecond
	refusal := func(why string) tool.Verdict {
		return tool.Verdict{Answer: tool.Refuse, By: "hook:g", Reason: "the guard g did not answer, which counts as a refusal: " + why}
	}
	for _, c := range []struct {
		hook Hook
		want tool.Verdict
	}{
		{script(Guard, "g", `echo '{"decision":"allow"}'`), tool.Verdict{Answer: tool.Allow, By: "hook:g"}},
		{script(Guard, "g", `cat > /dev/null; printf '%s' ' {"decision":"ask","reason":"odd\nthing"} '`), tool.Verdict{Answer: tool.Ask, By: "hook:g", Reason: "odd thing"}},
		{script(Guard, "g", `echo '{"decision":"deny"}'`), tool.Verdict{Answer: tool.Refuse, By: "hook:g", Reason: "the guard g gave no reason"}},
		{script(Guard, "g", `echo '{"decision":"sure"}'`), refusal(`it answered "sure"; a guard answers allow, ask or deny`)},
		{script(Guard, "g", `echo '{}'`), refusal(`it answered ""; a guard answers allow, ask or deny`)},
		{script(Guard, "g", `true`), refusal("it printed nothing; a hook prints one JSON object")},
		{script(Guard, "g", `echo '["allow"]'`), refusal("what it printed is no JSON object")},
		{script(Guard, "g", `echo allow`), refusal("what it printed is no JSON object")},
		{script(Guard, "g", `echo '{"decision":"allow"'`), refusal("what it printed is not as agreed: ")},
		{script(Guard, "g", `echo '{"decision":"allow"}{"decision":"deny"}'`), refusal("what it printed is not as agreed: ")},
		{script(Guard, "g", `echo '{"decision":"deny","decision":"allow"}'`), refusal("what it printed is not as agreed: ")},
		{script(Guard, "g", `echo '{"decision":"allow","unless":"monday"}'`), refusal("what it printed is not as agreed: ")},
		{script(Guard, "g", `echo '{"Decision":"allow"}'`), refusal("what it printed is not as agreed: ")},
		{script(Guard, "g", `echo '{"decision":"allow"}'; echo oops >&2; exit 3`), refusal("exit status 3: oops")},
		{script(Guard, "g", `echo '{"decision":"allow"}'; kill -9 $$`), refusal("signal: killed")},
		{script(Guard, "g", `while :; do echo '{"decision":"allow"}'; done`), refusal("it printed too much: more than 65536 bytes")},
		{script(Guard, "g", `yes oops | head -c 100000 >&2; echo '{"decision":"allow"}'`), tool.Verdict{Answer: tool.Allow, By: "hook:g"}},
		{script(Guard, "g", `echo '{"decision":"allow"}'; sleep 1000 &`), refusal("it ended and left a process behind that holds its output")},
		{quick, refusal("it took longer than its limit of 20ms")},
	} {
		got := set(t, c.hook).Guard(t.Context(), write)
		if len(got) != 1 || got[0].Answer != c.want.Answer || got[0].By != c.want.By || !strings.HasPrefix(got[0].Reason, c.want.Reason) ||
			(got[0].Reason == "") != (c.want.Reason == "") {
			t.Errorf("%s: %+v, want %+v", c.hook.Argv[2], got, c.want)
		}
	}
}

// TestGuardOrder shows that a tool's guards are all asked and answer in the order
// they are written in, whoever is first, and that others are not asked.
func TestGuardOrder(t *testing.T) {
	first := script(Guard, "first", `sleep 0.1; echo '{"decision":"ask","reason":"1"}'`)
	second := script(Guard, "second", `echo '{"decision":"allow"}'`)
	second.Tools = []string{"Read", "Wr*"}
	third := script(Guard, "third", `echo '{"decision":"allow"}'`)
	third.Tools = []string{"Read"}
	s := set(t, first, second, third, script(Observer, "o", "false"))
	want := []tool.Verdict{{Answer: tool.Ask, By: "hook:first", Reason: "1"}, {Answer: tool.Allow, By: "hook:second"}}
	if d := cmp.Diff(want, s.Guard(t.Context(), write)); d != "" {
		t.Error(d)
	}
	if got := set(t, third).Guard(t.Context(), write); got != nil {
		t.Errorf("%+v", got)
	}
}

// TestInput shows what a hook reads, and that it sees none of our secrets.
func TestInput(t *testing.T) {
	t.Setenv("SECRET_KEY", "hunter2")
	dir := t.TempDir()
	keep := fmt.Sprintf(`cat > %s/in; env > %s/env; pwd > %s/pwd; ls /proc/self/fd > %s/fd 2>/dev/null; echo '{"decision":"allow"}'`, dir, dir, dir, dir)
	if got := set(t, script(Guard, "g", keep)).Guard(t.Context(), write); got[0].Answer != tool.Allow {
		t.Fatalf("%+v", got)
	}
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	want := `{"v":1,"kind":"guard","hook":"g","dir":"/w/project","call_id":"c1","tool_name":"Write","arguments":{"path":"a"},"args_digest":"d","safety":"idempotent","traits":["private"]}` + "\n"
	if d := cmp.Diff(want, read("in")); d != "" {
		t.Error(d)
	}
	if env := read("env"); strings.Contains(env, "hunter2") || !strings.Contains(env, "STAVE_HOOK=g") || !strings.Contains(env, "PATH=") {
		t.Error(env)
	}
	if pwd := read("pwd"); pwd != "/\n" {
		t.Error(pwd)
	}
}

// TestTransform shows that transforms follow one another, and that none of their
// failures lets a call run.
func TestTransform(t *testing.T) {
	for _, c := range []struct {
		hooks   []Hook
		want    string
		changed bool
		err     string
	}{
		{nil, `{"path":"a"}`, false, ""},
		{[]Hook{script(Transform, "a", `echo '{}'`)}, `{"path":"a"}`, false, ""},
		{[]Hook{script(Transform, "a", `echo '{"arguments":{"path":"a"}}'`)}, `{"path":"a"}`, false, ""},
		{[]Hook{script(Transform, "a", `echo '{"arguments":{"path":"b"}}'`), script(Transform, "b", `echo '{}'`)}, `{"path":"b"}`, true, ""},
		{[]Hook{script(Transform, "a", `echo '{"arguments":{"path":"b"}}'`), script(Transform, "b", `grep -q '"path":"b"' && echo '{"arguments":{"path":"c"}}'`)}, `{"path":"c"}`, true, ""},
		{[]Hook{script(Transform, "a", `echo '{"arguments":["b"]}'`)}, "", false, "the transform a: the new arguments are no JSON object"},
		{[]Hook{script(Transform, "a", `echo '{"arguments":null}'`)}, "", false, "the transform a: the new arguments are no JSON object"},
		{[]Hook{script(Transform, "a", `echo '{"arguments":{"a":1,"a":2}}'`)}, "", false, "the transform a: what it printed is not as agreed"},
		{[]Hook{script(Transform, "a", `exit 1`)}, "", false, "the transform a: exit status 1"},
		{[]Hook{script(Transform, "a", `true`)}, "", false, "the transform a: it printed nothing"},
	} {
		args, changed, err := set(t, c.hooks...).Transform(t.Context(), write)
		if string(args) != c.want || changed != c.changed || (err == nil) != (c.err == "") || err != nil && !strings.HasPrefix(err.Error(), c.err) {
			t.Errorf("%v: %s %t %v", c.hooks, args, changed, err)
		}
	}
}

// TestObserve shows that observers hear the result and that their failures are
// told and nothing more.
func TestObserve(t *testing.T) {
	dir := t.TempDir()
	s := set(t, script(Observer, "a", "cat > "+dir+"/a; echo nonsense"), script(Observer, "b", "exit 2"), script(Guard, "c", "exit 3"))
	r := tool.Result{CallID: "c1", Status: tool.Error, Error: "broken", Output: tool.Output{Text: "text", Meta: []byte(`{"exit_code":1}`)}}
	if err := s.Observe(t.Context(), write, r); err == nil || err.Error() != "the observer b: exit status 2" {
		t.Errorf("%v", err)
	}
	b, err := os.ReadFile(dir + "/a")
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Kind   string         `json:"kind"`
		Result map[string]any `json:"result"`
	}
	if err := json.Unmarshal(b, &got); err != nil || got.Kind != "observer" {
		t.Errorf("%s: %v", b, err)
	}
	want := map[string]any{"status": "error", "error": "broken", "output": "text", "meta": map[string]any{"exit_code": 1.0}}
	if d := cmp.Diff(want, got.Result); d != "" {
		t.Error(d)
	}
}

// TestGroupDies shows that what a hook started dies with it: the pipe its child
// holds comes to its end.
func TestGroupDies(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	s := set(t, script(Guard, "g", "sleep 100000 > "+pipe+" & wait"))
	said := make(chan []tool.Verdict, 1)
	go func() { said <- s.Guard(ctx, write) }()
	held, err := os.Open(pipe) // waits until the child holds the other end
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	cancel(errors.New("the turn was stopped"))
	if got := <-said; got[0].Answer != tool.Refuse || !strings.HasSuffix(got[0].Reason, "the turn was stopped") {
		t.Errorf("%+v", got)
	}
	if b, err := io.ReadAll(held); len(b) > 0 || err != nil {
		t.Errorf("%q %v", b, err)
	}
}

// TestLeftBehind shows that a child which let go of the output is ended as well.
func TestLeftBehind(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	s := set(t, script(Guard, "g", "(exec > "+pipe+" 2>&1 < /dev/null; sleep 100000) & read x < "+pipe+".go; echo '{\"decision\":\"allow\"}'"))
	if err := syscall.Mkfifo(pipe+".go", 0o600); err != nil {
		t.Fatal(err)
	}
	said := make(chan []tool.Verdict, 1)
	go func() { said <- s.Guard(t.Context(), write) }()
	held, err := os.Open(pipe)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := os.WriteFile(pipe+".go", []byte("go\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := <-said; got[0].Answer != tool.Allow {
		t.Errorf("%+v", got)
	}
	if _, err := io.ReadAll(held); err != nil {
		t.Error(err)
	}
}

// TestManyAtOnce shows that one set serves many calls at the same time, and that
// a call which is given up while it waits for a place starts nothing.
func TestManyAtOnce(t *testing.T) {
	s := set(t, script(Guard, "g", `cat > /dev/null; echo '{"decision":"allow"}'`))
	var all sync.WaitGroup
	for range 3 * maxRunning {
		all.Go(func() {
			if got := s.Guard(t.Context(), write); got[0].Answer != tool.Allow {
				t.Errorf("%+v", got)
			}
		})
	}
	all.Wait()
	for range maxRunning {
		s.running <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := s.Guard(ctx, write); got[0].Answer != tool.Refuse || !strings.HasSuffix(got[0].Reason, "it did not start: context canceled") {
		t.Errorf("%+v", got)
	}
}

// TestBadInput shows that a call which cannot be written down is refused.
func TestBadInput(t *testing.T) {
	s := set(t, script(Guard, "g", `echo '{"decision":"allow"}'`))
	for want, args := range map[string]string{"writing its input: ": `{"a":`, "its input has more than ": `{"a":"` + strings.Repeat("x", maxInput) + `"}`} {
		c := write
		c.Arguments = []byte(args)
		if got := s.Guard(t.Context(), c); got[0].Answer != tool.Refuse || !strings.Contains(got[0].Reason, want) {
			t.Errorf("%+v, want %s", got, want)
		}
	}
	gone := set(t, script(Guard, "g", "true"))
	gone.hooks[0].Argv = []string{"/no/such/program"}
	if got := gone.Guard(t.Context(), write); got[0].Answer != tool.Refuse || !strings.Contains(got[0].Reason, "no such file") {
		t.Errorf("%+v", got)
	}
}

func TestShorten(t *testing.T) {
	if got := shorten(strings.Repeat("é\x1b", 200)); len(got) > maxQuoted+6 || strings.ContainsRune(got, 0x1b) {
		t.Errorf("%q", got)
	}
}
