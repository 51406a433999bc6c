package main

import (
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

func TestSafe(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"plain", "Grüße,\n\t世界 ✓", "Grüße,\n\t世界 ✓"},
		{"colour", "a\x1b[1;31mb\x1b[0mc", "abc"},
		{"cursor", "a\x1b[2J\x1b[Hb", "ab"},
		{"title", "a\x1b]0;owned\x07b", "ab"},
		{"link", "a\x1b]8;;http://x\x1b\\text\x1b]8;;\x1b\\b", "atextb"},
		{"device control", "a\x1bP1$r\x1b\\b", "ab"},
		{"8-bit sequence", "a\u009b31mb\u009d0;x\u009cc", "abc"},
		{"charset", "a\x1b(0b", "ab"},
		{"unfinished string", "a\x1b]0;never ends\nstill here", "a\nstill here"},
		{"unfinished sequence", "a\x1b[31\nb", "a\nb"},
		{"escape at the end", "a\x1b", "a"},
		{"controls", "a\x00\x07\x08\x0b\x0c\r\x7fb\u0085c", "abc"},
		{"bidi", "a\u202eb\u2066c\u200fd", "abcd"},
		{"zero width", "a\u200bb\u200dc\ufeffd\u00ade", "abcde"},
		{"other breaks", "a\u2028b\u2029c", "abc"},
		{"tags", "a\U000e0041b", "ab"},
		{"not UTF-8", "a\xffb", "a\ufffdb"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, safe(c.in)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestVisible(t *testing.T) {
	in := "{\"command\":\"rm \u202e\u200b\x1b\n\t\U000e0041世\"}"
	want := `{"command":"rm \u202e\u200b\u001b\u000a\u0009\udb40\udc41世"}`
	if diff := cmp.Diff(want, visible(in)); diff != "" {
		t.Error(diff)
	}
}

// FuzzSafe shows that nothing gets through that a terminal acts on, that cutting
// the text anywhere changes nothing, and that cleaning twice is cleaning once.
func FuzzSafe(f *testing.F) {
	for _, s := range []string{"a\x1b[31mb", "\x1b]0;x\x07y", "\u009b1m", "\x1b\x1b[\x1b", "a\u202eb", "\x1bP\x1b\x1b\\"} {
		f.Add(s, 3)
	}
	f.Fuzz(func(t *testing.T, s string, at int) {
		s = strings.ToValidUTF8(s, "?")
		clean := safe(s)
		for _, r := range clean {
			if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
				t.Fatalf("%q lets %q through", s, r)
			}
		}
		if again := safe(clean); again != clean {
			t.Fatalf("%q becomes %q and then %q", s, clean, again)
		}
		letters := []rune(s)
		if at < 0 || at > len(letters) {
			return
		}
		var c cleaner
		if got := c.clean(string(letters[:at])) + c.clean(string(letters[at:])); got != clean {
			t.Fatalf("%q cut at %d becomes %q, whole %q", s, at, got, clean)
		}
	})
}

// TestBrief shows that the path of a call comes before what may be too long to show,
// and that nothing else is changed or hidden.
func TestBrief(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"long", `{"content":"` + strings.Repeat("x", 100) + `","path":"a.txt"}`, `{"path":"a.txt","content":"` + strings.Repeat("x", 52) + `…`},
		{"all of it", `{"a<b":1,"path":["p"],"z":{"path":2}}`, `{"path":["p"],"a<b":1,"z":{"path":2}}`},
		{"none", `{"command":"ls","limit":1}`, `{"command":"ls","limit":1}`},
		{"twice", `{"path":"a","content":"x","path":"b"}`, `{"path":"b","path":"a","content":"x"}`},
		{"cut off", `{"content":"x","path":`, `{"content":"x","path":`},
		{"no object", `["path"]`, `["path"]`},
		{"hidden", "{\"content\":\"\",\"path\":\"\u202ea\"}", `{"path":"\u202ea","content":""}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, brief([]byte(c.in))); diff != "" {
				t.Error(diff)
			}
		})
	}
}
