package toolbox

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestCanonical shows that equal arguments get equal bytes, in the order and
// number format of RFC 8785.
func TestCanonical(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", `{}`},
		{" \n\t", `{}`},
		{` { } `, `{}`},
		{`{"b":1,"a":[true,null,"x"]}`, `{"a":[true,null,"x"],"b":1}`},
		{`{"a":-0,"b":1.0,"c":1E2,"d":0.1e1}`, `{"a":0,"b":1,"c":100,"d":1}`},
		{`{"a":9007199254740991,"b":-9007199254740991}`, `{"a":9007199254740991,"b":-9007199254740991}`},
		{`{"a":1e300,"b":1e-400,"c":1e21}`, `{"a":1e+300,"b":0,"c":1e+21}`},
		{`{"a":"\u0041\/\u00e9\n"}`, `{"a":"A/é\n"}`},
		{`{"a":"\ud83d\ude00"}`, `{"a":"😀"}`},
		{"{\"\U0001F600\":1,\"\uFB33\":2}", "{\"\U0001F600\":1,\"\uFB33\":2}"},
		{"{\"\uFB33\":2,\"\U0001F600\":1}", "{\"\U0001F600\":1,\"\uFB33\":2}"},
		{`{"a":` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + `}`, `{"a":` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + `}`},
	} {
		got, err := Canonical(c.in)
		if err != nil || string(got) != c.want {
			t.Errorf("Canonical(%s) = %s, %v; want %s", c.in, got, err, c.want)
		}
	}
}

// TestCanonicalRefuses shows that text two readers could understand differently
// is refused with a reason.
func TestCanonicalRefuses(t *testing.T) {
	for _, c := range []struct{ in, says string }{
		{`{"path":"a","path":"b"}`, `field "path" is given twice`},
		{`{"a":{"b":1,"\u0062":2}}`, `field "a.b" is given twice`},
		{"{\"a\":\"\xff\"}", "invalid UTF-8"},
		{`{"a":"\ud800"}`, "not valid JSON"},
		{`{"a":"\udc00\ud800"}`, "not valid JSON"},
		{`{"a":[0,9007199254740992]}`, `"a[1]": the integer 9007199254740992 is beyond ±9007199254740991; write it as a string`},
		{`{"a":-9007199254740993}`, "beyond"},
		{`{"a":9007199254740993.0}`, "beyond"},
		{`{"a":1e20}`, "beyond"},
		{`{"a":10000000000000000000000000}`, "beyond"},
		{`{"a":1e400}`, "out of range"},
		{`{"a":-1e400}`, "out of range"},
		{`{"a":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`, "deeper than 64"},
		{strings.Repeat(`{"a":`, 100_000), "deeper than 64"},
		{`{} {}`, "nothing after it"},
		{`{}x`, "nothing after it"},
		{`[]`, "must be one JSON object"},
		{`"a"`, "must be one JSON object"},
		{`null`, "must be one JSON object"},
		{`{"a":1`, "ends too early"},
		{`{"a":1,}`, "not valid JSON"},
		{`{'a':1}`, "not valid JSON"},
		{`{"a":01}`, "not valid JSON"},
		{`{"a":NaN}`, "not valid JSON"},
		{"\uFEFF{}", "not valid JSON"},
		{`{"a":"` + strings.Repeat("x", MaxArgsBytes) + `"}`, "at most"},
	} {
		got, err := Canonical(c.in)
		if err == nil {
			t.Errorf("Canonical(%.60s) = %.60s", c.in, got)
			continue
		}
		if !strings.Contains(err.Error(), c.says) {
			t.Errorf("Canonical(%.60s) says %q, want %q", c.in, err, c.says)
		}
	}
}

func TestDigest(t *testing.T) {
	const want = "31730788a3ffe2c7dc9f2fb159584633581c92266e7f929be12fb5d86a00a841"
	if got := Digest("Read", json.RawMessage(`{"path":"a"}`)); got != want {
		t.Errorf("digest is %s, want %s", got, want)
	}
	if Digest("Rea", json.RawMessage("d")) == Digest("Read", nil) {
		t.Error("tool and arguments run into each other")
	}
}

// FuzzCanonical shows that whatever a model writes, the result is stable,
// readable by another parser, and never a panic.
func FuzzCanonical(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `{"path":"a","limit":10}`, `{"a":1e20,"b":[{"c":"\ud83d\ude00"}]}`, `{"a":9007199254740991.4}`,
		`{"path":"a","path":"b"}`, "{\"a\":\"\xff\"}", `{"command":"x","timeout_seconds":"9"}`, `[1]`, `{"a":-0.0}`,
	} {
		f.Add(seed)
	}
	tools := All()
	f.Fuzz(func(t *testing.T, raw string) {
		canonical, err := Canonical(raw)
		if err != nil {
			for _, tool := range tools {
				if tool.Check(json.RawMessage(raw)) == nil {
					t.Errorf("%s takes %q, which is refused: %v", tool.Name, raw, err)
				}
			}
			return
		}
		again, err := Canonical(string(canonical))
		if err != nil || string(again) != string(canonical) {
			t.Errorf("%q becomes %q, then %q, %v", raw, canonical, again, err)
		}
		var plain map[string]any
		if err := json.Unmarshal(canonical, &plain); err != nil {
			t.Errorf("%q is no JSON: %v", canonical, err)
		}
		for _, tool := range tools {
			if (tool.Check(canonical) == nil) != (tool.Check(json.RawMessage(raw)) == nil) {
				t.Errorf("%s judges %q and %q differently", tool.Name, raw, canonical)
			}
		}
	})
}
