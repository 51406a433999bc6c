package script

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"

	"stave/internal/model"
)

// Every mistake is named with its place and what to write instead.
func TestMistakes(t *testing.T) {
	const allReplyFields = "calls, chunk, delay, deltas, faults, opaque, pace, reasoning, stop, text, times, usage, when"
	for _, tc := range []struct{ text, want string }{
		{"", "s:1:1: the script is empty; write `replies:` and a list"},
		{"# only a comment\n", "s:1:1: the script is empty; write `replies:` and a list"},
		{"{}", "s:1:1: the script has no replies; write `replies:` and a list, for example `- text: Hello.`"},
		{"- text: a", `s:1:1: a script is a mapping, not a list; write some of: replies, scenes`},
		{"replies: [{text: a}]\n---\n{}\n", "s:2:1: a script is one YAML document; remove the second"},
		{"replies: [{text: a}]\n--- [", "s:2:1: not YAML: did not find expected node content"},
		{"replies:\n\t- a", "s:2:1: not YAML: found character that cannot start any token"},
		{"replies: \"\xff\"", "s:1:1: not YAML: invalid leading UTF-8 octet"},
		{"reply: []", `s:1:1: a script has no field "reply"; write some of: replies, scenes`},
		{"replies: []", "s:1:10: replies is empty; leave it out or write an item"},
		{"replies: {text: a}", "s:1:10: replies is a list, not a mapping; begin each of its items with `- `"},
		{"replies:\n  - Hello", `s:2:5: a reply is a mapping, not "Hello"; write some of: ` + allReplyFields},
		{"replies:\n  - txt: a", `s:2:5: a reply has no field "txt"; write some of: ` + allReplyFields},
		{"replies:\n  - [a]: b", `s:2:5: a reply has no field a list; write some of: ` + allReplyFields},
		{"replies:\n  - text: a\n    text: b", `s:3:5: a reply has the field "text" twice; remove one`},
		{"replies: [{times: 2}]", "s:1:11: the reply says nothing; write `text:`, `deltas:`, `reasoning:`, `calls:` or `stop:` (`text: \"\"` for an empty answer)"},
		{"replies: [{text: a, deltas: [b]}]", "s:1:11: the reply has both `text` and `deltas`; write one of them"},
		{"replies: [{stop: end, chunk: 2}]", "s:1:11: `chunk` splits text and reasoning, and the reply has neither; leave it out"},
		{"replies: [{text: }]", "s:1:18: this is nothing; write a string, in quotes if need be"},
		{"replies: [{text: 5}]", `s:1:18: this is "5"; write a string, in quotes if need be`},
		{"replies: [{text: !!binary '?'}]", "s:1:18: not base64 (illegal base64 data at input byte 0); write base64 after !!binary"},
		{"replies: [{deltas: ['']}]", "s:1:21: this is empty; write some text or leave it out"},
		{"replies: [{text: &a x}, {text: *a}]", "s:1:32: this is an alias (aliases are not read: write the value out); write a string, in quotes if need be"},
		{"replies: [{text: a, when: '('}]", "s:1:27: error parsing regexp: missing closing ): `(`; write a pattern of RE2 syntax"},
		{"replies: [{text: a, when: ''}]", "s:1:27: this is empty; write some text or leave it out"},
		{"replies: [{text: a, times: 0}]", "s:1:28: 0 is out of range; write a number from 1 to 1000000"},
		{"replies: [{text: a, chunk: x}]", `s:1:28: this is "x"; write a whole number`},
		{"replies: [{text: a, chunk: 99999999999999999999}]", `s:1:28: this is "99999999999999999999"; write a whole number`},
		{"replies: [{text: a, delay: 10}]", `s:1:28: this is "10"; write a duration with its unit, such as 10ms or 2s`},
		{"replies: [{text: a, pace: -1s}]", "s:1:27: -1s is out of range; write a duration from 0s to 10m0s"},
		{"replies: [{text: a, stop: tired}]", `s:1:27: "tired" is not known here; write one of: end, tool_calls, length, refusal`},
		{"replies: [{text: a, usage: {tokens: 1}}]", `s:1:29: usage has no field "tokens"; write some of: cached_tokens, input_tokens, output_tokens`},
		{"replies: [{text: a, usage: {input_tokens: 1.5}}]", `s:1:43: this is "1.5"; write a whole number`},
		{"replies: [{calls: [{args: {}}]}]", "s:1:20: the call names no tool; write `tool:` and its name"},
		{"replies: [{calls: [{tool: a, args: {}, raw: b}]}]", "s:1:20: the call has both `args` and `raw`; write `args` for a mapping, or `raw` for text that is sent as it is"},
		{"replies: [{calls: [{tool: a, args: [1]}]}]", "s:1:36: args is a mapping, not a list; use `raw` for text that is sent as it is"},
		{"replies: [{calls: [{tool: a, args: {n: 0x10}}]}]", "s:1:40: this is \"0x10\"; write the number as JSON does, or use `raw`"},
		{"replies: [{calls: [{tool: a, args: {n: .inf}}]}]", "s:1:40: this is \".inf\"; write the number as JSON does, or use `raw`"},
		{"replies: [{calls: [{tool: a, args: {1: b}}]}]", `s:1:37: this is "1"; write a string as the name, in quotes if need be`},
		{"replies: [{calls: [{tool: a, args: {b: 1, b: 2}}]}]", "s:1:43: the name \"b\" is there twice; remove one, or use `raw`"},
		{"replies: [{calls: [{tool: a, args: {b: !x c}}]}]", "s:1:40: this is \"c\" with the tag !x; write plain JSON values, or use `raw`"},
		{"replies: [{calls: [{tool: a, args: {b: &c d, e: *c}}]}]", "s:1:49: this is an alias (aliases are not read: write the value out); write plain JSON values, or use `raw`"},
		{"replies: [{text: a, faults: [{}]}]", "s:1:30: a fault is exactly one of error, cut, endless, stall, panic; this one has 0 of them"},
		{"replies: [{text: a, faults: [{stall: true, cut: 1}]}]", "s:1:30: a fault is exactly one of error, cut, endless, stall, panic; this one has 2 of them"},
		{"replies: [{text: a, faults: [{stall: false}]}]", "s:1:38: write true, or leave the fault out"},
		{"replies: [{text: a, faults: [{stall: yes}]}]", `s:1:38: this is "yes"; write true or false`},
		{"replies: [{text: a, faults: [{error: odd}]}]", `s:1:38: "odd" is not known here; write one of: stream, rate_limited, overloaded, timeout, auth, bad_request, limit, internal`},
		{"replies: [{text: a, faults: [{cut: 1, message: b}]}]", "s:1:30: `message` belongs to `error`, and this fault is `cut`; leave it out"},
		{"replies: [{text: a, faults: [{stall: true, silent: true}]}]", "s:1:30: `silent` belongs to `cut`, and this fault is `stall`; leave it out"},
		{"replies: [{text: a, faults: [{cut: 1, after: 1}]}]", "s:1:30: `cut` already says after how many events; leave `after` out"},
		{"replies: [{text: a, faults: [{cut: 3}]}]", "s:1:30: the fault comes after 3 events, but the reply has only 3, its end included; write at most 2"},
		{"scenes: [{system: a}]", "s:1:10: the scene has no replies; write `replies:` and a list"},
		{"scenes: [{replies: [{text: a}]}]", "s:1:10: the scene does not say when it is played; write `system:` or `opening:` with a pattern, or put its replies at the top"},
		{"replies:\n  - txt: a\n  - text: 5", `s:2:5: a reply has no field "txt"; write some of: ` + allReplyFields + "\ns:3:11: this is \"5\"; write a string, in quotes if need be"},
	} {
		_, err := Parse("s", []byte(tc.text))
		if err == nil || err.Error() != tc.want {
			t.Errorf("%q:\n got %v\nwant %s", tc.text, err, tc.want)
		}
	}
}

func TestTooLarge(t *testing.T) {
	big := "replies: [{text: " + strings.Repeat("a", MaxBytes) + "}]"
	path := filepath.Join(t.TempDir(), "big.yaml")
	if err := os.WriteFile(path, []byte(big), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(path)
	if want := path + ":1:1: the script has more than 1048576 bytes; split it"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want that the file does not exist", err)
	}
}

func TestProblemsAreBounded(t *testing.T) {
	_, err := Parse("s", []byte("replies: ["+strings.Repeat("{txt: a},", 1000)+"]"))
	if n := strings.Count(err.Error(), "\n") + 1; n != maxProblems {
		t.Errorf("got %d problems, want %d", n, maxProblems)
	}
	_, err = Parse("s", []byte("replies: [{text: a, stop: "+strings.Repeat("b", 100_000)+"}]"))
	if n := len(err.Error()); n > 200 {
		t.Errorf("the problem has %d bytes", n)
	}
}

// Whatever a file holds, it is refused with a place or gives replies that end.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse("s", data)
		if err != nil {
			var p *Problem
			if !errors.As(err, &p) || p.Line < 1 || p.Column < 1 || !utf8.ValidString(err.Error()) {
				t.Fatalf("not a problem with a place: %q", err)
			}
			return
		}
		for _, sc := range s.scenes {
			for _, r := range append(sc.cues, sc.ordered...) {
				checkEvents(t, r)
			}
		}
	})
}

func checkEvents(t *testing.T, r *reply) {
	t.Helper()
	var last model.Event
	n := 0
	for ev := range r.events(1) {
		if last.Done != "" {
			t.Fatal("an event follows Done")
		}
		if ev == (model.Event{}) {
			t.Fatal("an event says nothing")
		}
		last = ev
		n++
	}
	if last.Done == "" {
		t.Fatal("the reply does not end")
	}
	for _, f := range r.faults {
		if f.after >= n {
			t.Fatalf("a fault comes after %d of %d events", f.after, n)
		}
	}
}

// Arguments that are accepted are JSON.
func FuzzArguments(f *testing.F) {
	f.Add(`{path: a, n: [1, 2.5, 1e400, -0], deep: {t: true, n: null, s: "\0\u2028"}}`)
	f.Add(`{a: 2001-01-01, b: 'x', c: !!str 5, d: !!int "7", e: !!bool "x", f: !!float 3}`)
	f.Fuzz(func(t *testing.T, text string) {
		var doc yaml.Node
		if err := yaml.Unmarshal([]byte(text), &doc); err != nil || len(doc.Content) == 0 {
			return
		}
		d := &decoder{file: "s"}
		if args := d.arguments(doc.Content[0]); len(d.problems) == 0 && !jsontext.Value(args).IsValid() {
			t.Fatalf("%q became %q", text, args)
		}
	})
}
