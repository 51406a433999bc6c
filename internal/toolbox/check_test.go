package toolbox

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write golden files")

type allKinds struct {
	Text   string            `json:"text" min:"2" max:"4"`
	Mode   string            `json:"mode,omitempty" enum:"a,b"`
	Count  int               `json:"count,omitempty" min:"1" max:"9"`
	Ratio  float64           `json:"ratio,omitzero" max:"1"`
	Small  uint8             `json:"small,omitempty"`
	On     *bool             `json:"on,omitempty"`
	List   []inner           `json:"list,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	Any    any               `json:"any,omitempty"`
}

type inner struct {
	Name string `json:"name"`
	Deep int    `json:"deep,omitempty" min:"0"`
}

func kinds() Tool {
	return New("Kinds", "", ReadOnly, true, func(context.Context, Env, allKinds) (Output, error) { return Output{}, nil })
}

// TestCheck shows that wrong arguments are named with what is expected, so that
// a model can mend the call.
func TestCheck(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"text":"abc"}`, ""},
		{`{"text":"äöüé","mode":"b","count":9,"ratio":0.5,"on":true,"list":[{"name":""}],"labels":{"k":"v"},"any":[1]}`, ""},
		{`{"text":"abc","count":2.0}`, ""},
		{`{}`, `"text" is missing; it must be a string`},
		{`{"text":3}`, `"text" must be a string, not the number 3`},
		{`{"text":null}`, `"text" must be a string, not null (leave an optional field out)`},
		{`{"text":"abc","on":null}`, `"on" must be a boolean, not null (leave an optional field out)`},
		{`{"text":"a"}`, `"text" must not be shorter than 2 characters`},
		{`{"text":"abcde"}`, `"text" must not be longer than 4 characters`},
		{`{"Text":"abc","text":"abc"}`, `"Text" is not a field here; write "text" exactly so`},
		{`{"text":"abc","extra":1}`, `"extra" is not a field here; the fields are text, mode, count, ratio, small, on, list, labels, any`},
		{`{"text":"abc","mode":"c"}`, `"mode" must be one of "a", "b", not the string "c"`},
		{`{"text":"abc","count":0}`, `"count" must be an integer from 1 to 9, not the number 0`},
		{`{"text":"abc","count":1.5}`, `"count" must be an integer from 1 to 9, not the number 1.5`},
		{`{"text":"abc","count":"5"}`, `"count" must be an integer from 1 to 9, not the string "5"`},
		{`{"text":"abc","ratio":2}`, `"ratio" must be a number of at most 1, not the number 2`},
		{`{"text":"abc","small":256}`, `"small" must be an integer from 0 to 255, not the number 256`},
		{`{"text":"abc","on":"yes"}`, `"on" must be a boolean, not the string "yes"`},
		{`{"text":"abc","list":{}}`, `"list" must be an array, not an object`},
		{`{"text":"abc","list":[{"name":"a"},{"deep":-1}]}`, `"list[1].name" is missing; it must be a string; "list[1].deep" must be an integer of at least 0, not the number -1`},
		{`{"text":"abc","labels":{"k":1}}`, `"labels.k" must be a string, not the number 1`},
		{`{"mode":"c","count":0}`, `"text" is missing; it must be a string; "count" must be an integer from 1 to 9, not the number 0; "mode" must be one of "a", "b", not the string "c"`},
	} {
		got := ""
		args, err := Canonical(c.in)
		if err == nil {
			err = kinds().Check(args)
		}
		if err != nil {
			got = err.Error()
		}
		want := c.want
		if want != "" {
			want = "wrong arguments: " + want
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", c.in, diff)
		}
	}
}

// TestCheckBounded shows that a hopeless call gets a short answer.
func TestCheckBounded(t *testing.T) {
	call := `{"text":"` + strings.Repeat("é", 10_000) + `"`
	for i := range 100 {
		call += `,"` + strings.Repeat("ü", 100) + string(rune('a'+i%26)) + strings.Repeat("x", i) + `":1`
	}
	err := kinds().Check(json.RawMessage(call + "}"))
	if err == nil {
		t.Fatal("no error")
	}
	if !strings.HasSuffix(err.Error(), "; and 93 more") || len(err.Error()) > 4000 || !utf8.ValidString(err.Error()) {
		t.Errorf("%d bytes: %s", len(err.Error()), err)
	}
}

// TestNewRefuses shows that arguments without a schema are found at start.
func TestNewRefuses(t *testing.T) {
	for name, build := range map[string]func(){
		"not a struct": func() {
			New("X", "", ReadOnly, true, func(context.Context, Env, int) (Output, error) { return Output{}, nil })
		},
		"a channel": func() {
			New("X", "", ReadOnly, true, func(context.Context, Env, struct{ C chan int }) (Output, error) { return Output{}, nil })
		},
		"a bound that is no number": func() {
			New("X", "", ReadOnly, true, func(context.Context, Env, struct {
				N int `min:"one"`
			},
			) (Output, error) {
				return Output{}, nil
			})
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s was accepted", name)
				}
			}()
			build()
		}()
	}
}

// TestRunChecks shows that Run trusts nobody to have called Check.
func TestRunChecks(t *testing.T) {
	_, err := Read().Run(context.Background(), newEnv(t), json.RawMessage(`{"PATH":"a"}`))
	wantError(t, err, `"path" is missing`)
}

// TestSchemas pins what a model is told about every bundled tool.
func TestSchemas(t *testing.T) {
	for _, tool := range append(All(), Memory("", nil), kinds()) {
		got, err := json.MarshalIndent(map[string]any{
			"name": tool.Name, "safety": tool.Safety, "parallel": tool.Parallel, "schema": tool.Schema,
		}, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, '\n')
		golden := filepath.Join("testdata", "schema", tool.Name+".json")
		if *update {
			if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(golden, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s changed; if meant, run with -update:\n%s", tool.Name, diff)
		}
	}
}

// TestSet shows that a set keeps order, finds exact names and takes no double.
func TestSet(t *testing.T) {
	set, err := NewSet(All()...)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range set.List() {
		names = append(names, tool.Name)
		if tool.Description == "" {
			t.Errorf("%s has no description", tool.Name)
		}
	}
	if diff := cmp.Diff([]string{"Read", "Glob", "Grep", "Write", "Edit", "MultiEdit", "Bash", "Fetch", "Todo"}, names); diff != "" {
		t.Error(diff)
	}
	if tool, ok := set.Lookup("Edit"); !ok || tool.Name != "Edit" {
		t.Errorf("Lookup found %q, %v", tool.Name, ok)
	}
	if _, ok := set.Lookup("edit"); ok {
		t.Error("Lookup folds case")
	}
	if _, ok := (Set{}).Lookup("Edit"); ok {
		t.Error("the empty set has a tool")
	}
	_, err = NewSet(Read(), Bash(), Read())
	wantError(t, err, "two tools are called Read")
	_, err = NewSet(Tool{})
	wantError(t, err, "no name")
}

// TestProse shows that what a model is told of limits is what the code does.
func TestProse(t *testing.T) {
	for doc, numbers := range map[string][]int{
		readDoc: {maxReadLines, maxReadLineBytes, maxText >> 10},
		globDoc: {maxGlobResults},
		grepDoc: {maxGrepMatches, maxGrepFiles, maxText >> 10},
		editDoc: {maxEditBytes >> 20},

		multiEditDoc: {maxEditFiles, maxEditTotal >> 20},
		fetchDoc:     {maxURLBytes, maxFetchBytes >> 20, int(fetchTimeout.Seconds()), maxRedirects, maxText >> 10},
		memoryDoc:    {maxNotes, maxNoteLength},

		bashDoc: {maxText >> 10, maxHead >> 10, int(defaultTimeout.Seconds())},
	} {
		for _, n := range numbers {
			if !regexp.MustCompile(fmt.Sprintf(`\b%d\b`, n)).MatchString(doc) {
				t.Errorf("%.40q does not say %d", doc, n)
			}
		}
	}
}
