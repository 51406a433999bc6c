package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestGateVectors(t *testing.T) {
	for text, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"result":{}}`:                                        "pass",
		`{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":2}}`:                             "twice",
		`{"jsonrpc":"2.0","id":1,"id":2,"result":{}}`:                                 "twice",
		`{"jsonrpc":"2.0","id":1,"result":"` + "\xc3\x28" + `"}`:                      "bad text",
		`{"jsonrpc":"2.0","id":1,"result":"\ud800"}`:                                  "bad text",
		`{"jsonrpc":"2.0","id":1}{"jsonrpc":"2.0","id":2}`:                            "follows",
		`[{"jsonrpc":"2.0","id":1,"result":{}}]`:                                      "not one object",
		`{"jsonrpc":"2.0","id":1`:                                                     "too early",
		strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200):                 "deeper",
		`{"jsonrpc":"2.0","method":"notifications/message","params":{}}`:              "drop",
		`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`:               "pass",
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}`:            "drop",
		`{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage"}`:                  "pass",
		`{"jsonrpc":"2.0","id":1,"result":{"x":"` + strings.Repeat("x", 5000) + `"}}`: "at most 4096",
	} {
		g := newGate(4096)
		ok, err := g.in([]byte(text))
		got := "drop"
		if ok {
			got = "pass"
		}
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%.80s: %s, want %s", text, got, want)
		}
		if (err == nil) != (g.broken() == nil) {
			t.Errorf("%.80s: the gate is broken by %v", text, g.broken())
		}
	}
}

func TestGateKeepsQueuesShort(t *testing.T) {
	g := newGate(4096)
	notice := []byte(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	for i, want := range []bool{true, false, false} {
		if ok, err := g.in(notice); ok != want || err != nil {
			t.Errorf("notice %d: %v, %v", i, ok, err)
		}
	}
	g.handled(toolsChanged)
	if ok, _ := g.in(notice); !ok {
		t.Error("after the first was handled there is no room for the next")
	}
	request := func(i int) []byte { return []byte(`{"jsonrpc":"2.0","id":` + strconv.Itoa(i) + `,"method":"ping"}`) }
	for i := range 10 * maxServerRequests {
		if _, err := g.in(request(i)); err != nil {
			t.Fatalf("an answered request counts: %v", err)
		}
		g.out([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}`))
	}
	for i := range maxServerRequests {
		if _, err := g.in(request(i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := g.in(request(0)); !errors.Is(err, errFlood) {
		t.Errorf("a flood gives %v", err)
	}
}

func FuzzGate(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{"a":[1,2,{"b":"c"}]}}`))
	f.Add([]byte(`{"method":"x","params":{"a":1,"A":2}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		ok, err := newGate(1 << 16).in(text)
		if ok && (err != nil || !json.Valid(text) || !utf8.Valid(text)) {
			t.Errorf("%q passed", text)
		}
	})
}

func FuzzEvents(f *testing.F) {
	f.Add([]byte("id: 1\ndata: {\"id\":1,\ndata: \"result\":{}}\n\nevent: x\ndata: y\n\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		g := newGate(1 << 12)
		e := &events{from: bufio.NewReader(bytes.NewReader(text)), closer: io.NopCloser(nil), gate: g}
		out, err := io.ReadAll(e)
		if len(out) > 8*len(text)+64 {
			t.Errorf("%d bytes became %d", len(text), len(out))
		}
		// What passed once passes again: nothing is left that needs a second look.
		if err == nil {
			again := &events{from: bufio.NewReader(bytes.NewReader(out)), closer: io.NopCloser(nil), gate: newGate(1 << 16)}
			if second, err := io.ReadAll(again); err != nil || !bytes.Equal(out, second) {
				t.Errorf("%q became %q and then %q, %v", text, out, second, err)
			}
		}
	})
}

func FuzzClean(f *testing.F) {
	f.Add("a\u202eb\x1b[31m\u200b\U000E0041", 3)
	f.Fuzz(func(t *testing.T, s string, most int) {
		most = min(max(most, 0), 1000)
		got := clean(s, most)
		if !utf8.ValidString(got) || utf8.RuneCountInString(got) > most+1 {
			t.Errorf("%q became %q", s, got)
		}
		for _, r := range got {
			if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Cf, r) {
				t.Errorf("%q keeps %U", s, r)
			}
		}
	})
}

func TestTail(t *testing.T) {
	l := &tail{most: 10}
	for range 100 {
		for _, s := range []string{"abc", "defghijklmnop", "q"} {
			if n, err := io.WriteString(l, s); n != len(s) || err != nil {
				t.Fatal(n, err)
			}
		}
	}
	if got := l.String(); got != "hijklmnopq" || cap(l.kept) > 64 {
		t.Errorf("kept is %q with room for %d", got, cap(l.kept))
	}
}
