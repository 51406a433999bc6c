package workflow

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// tools are the names of the bundled tools.
var tools = []string{"Read", "Glob", "Grep", "Write", "Edit", "MultiEdit", "Bash", "Fetch", "Todo"}

func find(t *testing.T, id string) Definition {
	t.Helper()
	all := Bundled()
	i := slices.IndexFunc(all, func(d Definition) bool { return d.ID == id })
	if i < 0 {
		t.Fatalf("there is no workflow %s", id)
	}
	return all[i]
}

func TestBundled(t *testing.T) {
	var ids []string
	for _, d := range Bundled() {
		ids = append(ids, d.ID)
		if err := Check(d, tools); err != nil {
			t.Error(err)
		}
		if d.Description == "" || !strings.HasPrefix(d.File, d.ID+".") {
			t.Errorf("%s: no description, or the file is called %s", d.ID, d.File)
		}
		for _, s := range d.Stages {
			if !strings.Contains(s.Body, "{{ctx.reason}}") || !strings.Contains(s.Body, s.CompletionTool) {
				t.Errorf("%s, %s: the prompt tells nothing of an earlier attempt, or not how to end", d.ID, s.ID)
			}
		}
		file, b, ok := Source(d.ID)
		if again, err := Load(file, b); !ok || err != nil || again.Hash != d.Hash {
			t.Errorf("%s: its source is another: %v", d.ID, err)
		}
	}
	if want := []string{"codeReview", "fixTests", "ralph", "research"}; !slices.Equal(ids, want) {
		t.Errorf("%v, want %v", ids, want)
	}
	if _, _, ok := Source("../starter"); ok {
		t.Error("a source outside of the bundle")
	}
}

// TestCodeReview shows that the workflow is the one of the specification.
func TestCodeReview(t *testing.T) {
	d := find(t, "codeReview")
	var got []string
	for _, s := range d.Stages {
		got = append(got, fmt.Sprint(s.ID, s.AllowedTools, s.CompletionTool, s.TurnCap, s.VisitCap))
	}
	want := []string{
		"Plan[Read Grep Glob]submit_plan20 0",
		"Execute[Read Grep Glob Edit Write]submit_diff40 0",
		"Review[]submit_review10 0",
	}
	if !slices.Equal(got, want) || d.First != "Plan" {
		t.Errorf("%q from %s", got, d.First)
	}
}

func TestNew(t *testing.T) {
	d, err := Load("mine.yaml", New("mine"))
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(d, tools); err != nil || d.ID != "mine" || len(d.Stages) != 2 {
		t.Errorf("%+v, %v", d, err)
	}
	if n := strings.Count(string(New("mine")), "#"); n < 20 {
		t.Errorf("only %d comments", n)
	}
}

// player runs a definition with payloads written down, by stage and visit.
type player struct {
	d        Definition
	payloads map[string][]string
	visits   map[string]int
	order    []string
}

// stage runs one stage and tells what it came to.
func (p *player) stage(t *testing.T, id string, upstream []StageResult) StageResult {
	t.Helper()
	s, ok := p.d.Stage(id)
	if !ok {
		t.Fatalf("there is no stage %s", id)
	}
	if err := s.Visit(p.visits[id]); err != nil {
		return StageResult{Stage: id, Status: err.Error()}
	}
	p.visits[id]++
	r := StageResult{Stage: id, Attempt: 1, Visit: p.visits[id], Turns: 1}
	c, err := s.Setup(Context{Task: "the task", Attempt: 1, Visit: r.Visit, Upstream: upstream})
	if err != nil {
		t.Fatal(err)
	}
	if prompt, err := s.Prompt(c); err != nil || strings.Contains(prompt, "{{") {
		t.Fatalf("%s: %v", prompt, err)
	}
	gate, err := s.CheckGate(c)
	if err != nil {
		t.Fatal(err)
	}
	if gate == Skip {
		p.order = append(p.order, id+" skipped")
		r.Status = Skip
		return r
	}
	p.order = append(p.order, id)
	r.Output = []byte(p.payloads[id][min(r.Visit, len(p.payloads[id]))-1])
	if err := s.Accept(r.Output); err != nil {
		t.Fatal(err)
	}
	if r.Status, err = s.Judge(c, r); err != nil {
		t.Fatal(err)
	}
	return r
}

// run follows the choices from the first stage and tells how the run ends.
func (p *player) run(t *testing.T) string {
	t.Helper()
	var upstream []StageResult
	for id := p.d.First; id != ""; {
		last := p.stage(t, id, upstream)
		if last.Status != OK && last.Status != Skip {
			return last.Status
		}
		upstream = p.d.Merge(upstream, last)
		s, _ := p.d.Stage(id)
		next, err := s.Choose(last)
		if err != nil {
			t.Fatal(err)
		}
		id = ""
		if next.Execution == Parallel {
			before := upstream
			for _, sibling := range next.Stages {
				upstream = p.d.Merge(upstream, p.stage(t, sibling, before))
			}
			id = next.Join
		} else if len(next.Stages) > 0 {
			id = next.Stages[0]
		}
	}
	return OK
}

// What stages submit.
const (
	failing    = `{"command":"go test","failing":true,"failures":[{"test":"T","cause":"c","where":"a.go:1","faultIn":"code"}]}`
	repaired   = `{"summary":"s","files":["a.go"]}`
	passed     = `{"passed":true,"evidence":"ok","honest":true,"remaining":[]}`
	weakened   = `{"passed":true,"evidence":"ok","honest":false,"remaining":["undo the skip"]}`
	found      = `{"findings":[{"claim":"c","source":"a.go:1","confidence":"certain"}],"unanswered":[]}`
	report     = `{"answer":"a","evidence":[{"claim":"c","sources":["a.go:1"]}],"open":[]}`
	discovery  = `{"goal":"g","facts":[],"acceptance":["a"],"check":"make test"}`
	part       = `{"title":"t","work":"w","files":["FILE"],"interface":"i"}`
	built      = `{"done":true,"summary":"s","files":["a"],"checks":"ok"}`
	complete   = `{"complete":true,"summary":"s","acceptance":[{"criterion":"a","met":true,"evidence":"e"}],"todo":[]}`
	unfinished = `{"complete":false,"summary":"s","acceptance":[{"criterion":"a","met":false,"evidence":"e"}],"todo":["x"]}`
	untrue     = `{"complete":true,"summary":"s","acceptance":[{"criterion":"a","met":false,"evidence":"e"}],"todo":[]}`
)

// TestPlay shows the way each bundled workflow takes with what its stages submit.
func TestPlay(t *testing.T) {
	parts := func(files ...string) string {
		var all []string
		for _, f := range files {
			all = append(all, strings.Replace(part, "FILE", f, 1))
		}
		return `{"parts":[` + strings.Join(all, ",") + `]}`
	}
	review := func(verdict, severity string) map[string][]string {
		return map[string][]string{
			"Plan":    {`{"goal":"g","steps":[{"file":"a","change":"b"}],"risks":[]}`},
			"Execute": {`{"summary":"s","diff":"d","files":["a"],"deviations":[]}`},
			"Review":  {`{"verdict":"` + verdict + `","summary":"s","findings":[{"severity":"` + severity + `","file":"a","problem":"p","suggestion":"s"}]}`},
		}
	}
	ralph := func(decompose string, reviews ...string) map[string][]string {
		return map[string][]string{"Discover": {discovery}, "Decompose": {decompose}, "BuildA": {built}, "BuildB": {built}, "Review": reviews}
	}
	research := func(code, history, web string) map[string][]string {
		return map[string][]string{
			"Frame": {`{"question":"q","code":[` + code + `],"history":[` + history + `],"web":[` + web + `]}`},
			"Code":  {found}, "History": {found}, "Web": {found}, "Report": {report},
		}
	}
	for _, c := range []struct {
		name, id   string
		payloads   map[string][]string
		order, end string
	}{
		{"the seed's trace", "codeReview", review("approve", "note"), "Plan Execute Review", OK},
		{"changes wanted", "codeReview", review("request_changes", "error"), "Plan Execute Review", OK},
		{"approved with an error", "codeReview", review("approve", "error"), "Plan Execute Review", Retry},
		{"no steps", "codeReview", map[string][]string{"Plan": {`{"goal":"g","steps":[],"risks":[]}`}}, "Plan", Retry},
		{"nothing fails", "fixTests", map[string][]string{"Diagnose": {`{"command":"c","failing":false,"failures":[]}`}}, "Diagnose", OK},
		{"repaired at once", "fixTests", map[string][]string{"Diagnose": {failing}, "Repair": {repaired}, "Verify": {passed}}, "Diagnose Repair Verify", OK},
		{"repaired the second time", "fixTests", map[string][]string{"Diagnose": {failing}, "Repair": {repaired}, "Verify": {weakened, passed}}, "Diagnose Repair Verify Repair Verify", OK},
		{"never repaired", "fixTests", map[string][]string{"Diagnose": {failing}, "Repair": {repaired}, "Verify": {weakened}}, "Diagnose Repair Verify Repair Verify Repair Verify", Fail},
		{"everywhere", "research", research(`"a"`, `"b"`, `"c"`), "Frame Code History Web Report", OK},
		{"only the code", "research", research(`"a"`, ``, ``), "Frame Code History skipped Web skipped Report", OK},
		{"nowhere", "research", research(``, ``, ``), "Frame", Retry},
		{"two parts", "ralph", ralph(parts("a", "b"), complete), "Discover Decompose BuildA BuildB Review", OK},
		{"one part", "ralph", ralph(parts("a"), complete), "Discover Decompose BuildA BuildB skipped Review", OK},
		{"parts that share a file", "ralph", ralph(parts("a", "a"), complete), "Discover Decompose", Retry},
		{"a second round", "ralph", ralph(parts("a", "b"), unfinished, complete), "Discover Decompose BuildA BuildB Review Decompose BuildA BuildB Review", OK},
		{"never complete", "ralph", ralph(parts("a"), unfinished), "Discover" + strings.Repeat(" Decompose BuildA BuildB skipped Review", 3), Fail},
		{"said to be complete", "ralph", ralph(parts("a"), untrue), "Discover Decompose BuildA BuildB skipped Review", Retry},
	} {
		p := player{d: find(t, c.id), payloads: c.payloads, visits: map[string]int{}}
		end := p.run(t)
		if got := strings.Join(p.order, " "); got != c.order || end != c.end {
			t.Errorf("%s: %s, %s\nwant %s, %s", c.name, got, end, c.order, c.end)
		}
	}
}
