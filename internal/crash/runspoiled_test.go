package crash

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stave/internal/machine/stage"
)

// TestRunRulesCatch shows that each rule about runs finds the fault it is there
// for, in a run that is sound until the test spoils it.
func TestRunRulesCatch(t *testing.T) {
	v, rec := wholeRun(t)
	defer v.files.close()
	p := v.plan
	other := *p
	other.fails = p.steps[1].name
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"nothing is wrong", v.judgeRun(), ""},
		{"a stage has no end", stagesEndedOnce(rec.without("stage.exited")), "began 1 times and ended 0 times"},
		{"a stage began twice", stagesEndedOnce(rec.twice("stage.begun")), "began 2 times"},
		{"a stage ended twice", stagesEndedOnce(rec.twice("stage.exited")), "ended 2 times"},
		{"a run has no end", stagesEndedOnce(rec.without("workflow.completed")), "ended 0 times"},
		{"an agent has no end", stagesEndedOnce(rec.without("agent.terminated")), "ended 0 times"},
		{"a turn has no end", stagesEndedOnce(rec.without("turn.completed")), "ended 0 times"},
		{"a call has no result", stagesEndedOnce(rec.without("tool.result")), "has 0 results"},
		{"the run did not hear of a stage", stagesEndedOnce(rec.without("workflow.stage_done")), "0 × workflow.stage_done"},
		{"the run did not end", p.cameTo(rec.without("workflow.completed")), "it ended with <nil>"},
		{"the run should have failed", other.cameTo(rec), "must fail"},
		{"a stage handed in nothing", p.cameTo(rec.without("stage.exited")), "handed in"},
		{"a stage took other attempts", p.steps[0].result(stage.Result{Status: stage.OK, Attempt: 9, Output: []byte(`{"attempt":1,"good":true}`)}), "in attempt 9"},
		{"an effect was not asked for", p.did(rec.without("tool.call")), "asked 0 times"},
		{"an effect was asked for twice", p.did(rec.twice("tool.call")), "asked 2 times"},
		{"a file has another text", v.withFile(p.steps[3].output(), "", rec), "want"},
		{"a half-written file is left", v.withFile("notes/.stave-1", "x", rec), "half-written"},
		{"a call ran that no stage has", v.withFile("seed.txt", "weed", rec), "outside of its stage"},
	} {
		if got := c.err; (got == nil) != (c.want == "") || got != nil && !strings.Contains(got.Error(), c.want) {
			t.Errorf("%s: found %v, want %q", c.name, got, c.want)
		}
	}
}

// wholeRun plays a run that nobody kills, and that completes.
func wholeRun(t *testing.T) (*victim, *record) {
	t.Helper()
	c := newCampaign(t, "testdata/brief.yaml", 1)
	v, err := c.conversation("run", nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for seed := uint64(1); v.plan == nil || v.plan.fails != ""; seed++ {
		if v.plan, err = newPlan(rand.New(rand.NewPCG(seed, seed)), dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := v.conduct(); err != nil {
		t.Fatalf("%v\n%s", err, v.history())
	}
	rec, err := readRecord(v.data, v.log)
	if err != nil {
		t.Fatal(err)
	}
	return v, rec
}

// withFile is what the rule about files finds while one has another text.
func (v *victim) withFile(name, text string, rec *record) error {
	path := filepath.Join(v.files.dir, name)
	before, missing := os.ReadFile(path)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	found := v.plan.left(rec, v.files)
	if missing != nil {
		return errors.Join(found, os.Remove(path))
	}
	return errors.Join(found, os.WriteFile(path, before, 0o600))
}

// twice is the record of a log that tells runes of a kind again.
func (c *record) twice(kind string) *record {
	again := &record{}
	for _, r := range c.runes {
		_ = again.add(r) // it was read before
		if r.Kind == kind {
			_ = again.add(r)
		}
	}
	return again
}
