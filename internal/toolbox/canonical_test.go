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
	const want = "ef325a491ead78dfa8c9bf33e54c04d2e20c7984605290ada8abed555aedd017"
	if got := Digest("Read", "def", json.RawMessage(`{"path":"a"}`)); got != want {
		t.Errorf("digest is %s, want %s", got, want)
	}
	if Digest("Rea", "", json.RawMessage("d")) == Digest("Read", "", nil) {
		t.Error("tool and arguments run into each other")
	}
	// Computed elsewhere, from the canonical form: key order, escapes, numbers,
	// nesting, null and absence.
	for _, v := range []struct{ args, want string }{
		{`{"b":1,"a":{"y":2,"x":[3,1]}}`, "e590f6ca5521e8fce0b89e05c37b5d050362ea8bf86f77973c5f876644a13ab6"},
		{`{"a":"\u20ac\u00e9"}`, "cec3c4058293c1b2d161914782832795ed81b2c42bd34784120fb198f0b9765a"},
		{`{"a":1.50e2}`, "f7676dbafa6d5e5392a6b4bb2a893748cf36a4265c48a0bd7f97bdc2df8ca7fc"},
		{`{"a":null}`, "894183209f29a3af1339b75392c235cd2bdf8bf687cdd1fbc37eaa6c47ed95d0"},
		{`{}`, "6a7a8375f0bf359d9960c06c47a9f719f389621a88a7e59a33206b9bf8c8e599"},
		{`{"10":1,"9":2,"a":"<&>"}`, "d75668b514de97f1e59b5d906660911f6d383552e5b27b5e200c9b82dd636c41"},
	} {
		canonical, err := Canonical(v.args)
		if got := Digest("T", "", canonical); err != nil || got != v.want {
			t.Errorf("%s: digest of %s is %s, want %s, %v", v.args, canonical, got, v.want, err)
		}
	}
}

func TestDefinition(t *testing.T) {
	tool := Tool{Name: "Read", Description: "reads", Schema: json.RawMessage(`{"type":"object"}`), Safety: ReadOnly}
	const want = "809a44af1a637d919d343b353526c992a15b6895aef4bb33dbb3abf249174ac7"
	if got := tool.Definition(); got != want {
		t.Errorf("definition is %s, want %s", got, want)
	}
	tool.Name, tool.Description = "Rea", "dreads"
	if tool.Definition() == want {
		t.Error("name and description run into each other")
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
