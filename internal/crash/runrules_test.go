package crash

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"stave/internal/machine"
	"stave/internal/machine/stage"
	"stave/internal/machine/workflow"
	"stave/internal/world"
)

// stagesEndedOnce holds that every run, stage, turn, agent and call has exactly
// one end, that a run hears of each of its stages once, and that the conversation
// rests.
func stagesEndedOnce(rec *record) error {
	begun, ends := map[string]int{}, map[string]int{}
	for _, r := range rec.runes {
		switch r.Kind {
		case "workflow.started", "stage.begun", "turn.started", "agent.spawning":
			begun[r.Path]++
		case "workflow.completed", "workflow.failed", "workflow.cancelled", "stage.exited", "stage.failed", "stage.cancelled",
			"turn.completed", "turn.interrupted", "turn.error", "agent.terminated", "agent.failed":
			ends[r.Path]++
		}
	}
	delete(begun, string(world.RootPath)) // which lives on
	var errs []error
	for path, n := range begun {
		if n != 1 || ends[path] != 1 {
			errs = append(errs, fmt.Errorf("%s began %d times and ended %d times", path, n, ends[path]))
		}
	}
	for _, k := range rec.calls {
		if len(k.results) != 1 {
			errs = append(errs, fmt.Errorf("call %s of %s has %d results", k.CallID, k.Tool, len(k.results)))
		}
	}
	for _, kinds := range [][2]string{
		{"workflow.started", "session.run_ended"}, {"workflow.stage_begun", "stage.begun"}, {"stage.begun", "workflow.stage_done"},
	} {
		if a, b := rec.count(kinds[0]), rec.count(kinds[1]); a == 0 || a != b {
			errs = append(errs, fmt.Errorf("%d × %s and %d × %s", a, kinds[0], b, kinds[1]))
		}
	}
	if s := rec.state(); s != "active" {
		errs = append(errs, fmt.Errorf("the conversation is %q", s))
	}
	return errors.Join(errs...)
}

// runEnd is the event that ended the run, nil if nothing did.
func (c *record) runEnd() machine.Event {
	for _, e := range c.events {
		switch e.(type) {
		case workflow.Completed, workflow.Failed, workflow.Cancelled:
			return e
		}
	}
	return nil
}

// cameTo holds that a run ended as its rules and its model demand.
func (p *plan) cameTo(rec *record) error {
	switch e := rec.runEnd().(type) {
	case workflow.Failed:
		if e.Stage != p.fails || !strings.Contains(e.Error, "does not pass") {
			return fmt.Errorf("it failed in stage %q: %s", e.Stage, e.Error)
		}
	case workflow.Completed:
		if p.fails != "" || len(e.Results) != len(p.steps) {
			return fmt.Errorf("it was completed with %d results, and stage %q must fail", len(e.Results), p.fails)
		}
	default:
		return fmt.Errorf("it ended with %T", e)
	}
	results := map[string]stage.Result{}
	for _, e := range rec.events {
		switch e := e.(type) {
		case stage.Exited:
			results[e.Result.Stage] = e.Result
		case stage.Failed:
			results[e.Result.Stage] = e.Result
		}
	}
	var errs []error
	for _, s := range p.reached() {
		errs = append(errs, s.result(results[s.name]))
	}
	return errors.Join(errs...)
}

// result holds what a stage came to against its plan.
func (s *step) result(r stage.Result) error {
	want, verdict := fmt.Sprintf(`{"attempt":%d,"good":%t}`, s.attempts, !s.bad), stage.OK
	if s.bad {
		verdict = stage.Fail
	}
	var got struct {
		Attempt int  `json:"attempt"`
		Good    bool `json:"good"`
	}
	if err := json.Unmarshal(r.Output, &got); err != nil {
		return fmt.Errorf("stage %s handed in %q: %w", s.name, r.Output, err)
	}
	if r.Status != verdict || r.Attempt != s.attempts || got.Attempt != s.attempts || got.Good == s.bad {
		return fmt.Errorf("stage %s came to %s in attempt %d with %s, want %s in attempt %d with %s",
			s.name, r.Status, r.Attempt, r.Output, verdict, s.attempts, want)
	}
	return nil
}

// did holds that every attempt made its calls, once each. After a crash loop the
// model may go on without one that was cut off.
func (p *plan) did(rec *record) error {
	asked := map[string]int{}
	for _, k := range rec.calls {
		if id := k.effect(); id != "" {
			asked[id]++
		}
	}
	for _, s := range p.reached() {
		for i := range s.attempts {
			id := s.effect(i + 1)
			if n := asked[id]; n > 1 || n == 0 && !rec.looped() {
				return fmt.Errorf("the model asked %d times for the effect %s", n, id)
			}
		}
	}
	return nil
}

// left holds that files are as the last attempt of each stage wrote them, that
// what no stage may do was not done, and that no half-written file is there.
func (p *plan) left(rec *record, w *workspace) error {
	var errs []error
	for _, s := range p.reached() {
		got, err := w.text(s.output())
		if want := s.effect(s.attempts); err != nil || got != want && !rec.looped() {
			errs = append(errs, fmt.Errorf("%s has %q, want %q: %w", s.output(), got, want, err))
		}
	}
	if seed, err := w.text("seed.txt"); err != nil || strings.Contains(seed, "weed") {
		errs = append(errs, fmt.Errorf("a call outside of its stage ran: %w", err))
	}
	names, err := w.list("notes")
	for _, n := range names {
		if strings.HasPrefix(n, ".stave-") && !rec.looped() { // a crash loop gives up on files as well
			err = errors.Join(err, fmt.Errorf("the half-written file notes/%s is left", n))
		}
	}
	return errors.Join(append(errs, err)...)
}
