package crash

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

const (
	// How many conversations there are to one that runs a workflow.
	runsOneIn = 3
	// How many runes a process of a run may live to show.
	runReachRunes = 60
)

// watchedInRuns are runes of a run right behind which it is worth to kill.
var watchedInRuns = []string{
	"workflow.", "workflow.next_due", "stage.prepared", "stage.act_started", "stage.completion_accepted", "stage.retried",
	"stage.reentered", "stage.stopping", "workflow.stage_done", "tool.approved", "session.recovered", "session.run_ended",
}

// sufferOrRun leads a conversation through its life: mostly one of messages, now
// and then the run of a workflow.
func (v *victim) sufferOrRun() error {
	if v.rng.IntN(runsOneIn) > 0 {
		return v.suffer()
	}
	if err := v.getRunReady(); err != nil {
		return err
	}
	return v.conduct()
}

func (v *victim) getRunReady() error {
	dir, err := os.MkdirTemp(v.root, "plan-")
	if err != nil {
		return err
	}
	v.reach, v.watched = runReachRunes, watchedInRuns
	v.plan, err = newPlan(v.rng, dir)
	return err
}

// conduct leads a run to its end, through all kills.
func (v *victim) conduct() error {
	next := v.begin()
	for range maxProcesses {
		r, err := v.start(v.aim(), next...)
		if err != nil {
			return err
		}
		if next, err = v.nextOfRun(r); err != nil {
			return err
		}
		if next == nil {
			return v.judgeRun()
		}
	}
	return fmt.Errorf("the run does not end after %d processes", maxProcesses)
}

// begin is how the run begins, in a new conversation or in the one that was
// killed before it had a run.
func (v *victim) begin() []string {
	if v.log != "" {
		return []string{"run", v.plan.file, task, "--resume", v.log, "--headless", "--json"}
	}
	return append([]string{"run", v.plan.file, task, "--model", "script:" + v.plan.script, "--cwd", v.files.dir, "--json"}, alone...)
}

// nextOfRun says what to type after a process, nothing once the run has ended.
func (v *victim) nextOfRun(r *run) ([]string, error) {
	again := []string{"resume", v.log, "--headless", "--json"}
	if r.killed && v.sawRunBegin() {
		return again, nil
	}
	if began, err := v.find(); err != nil || !began {
		if err == nil && !r.killed {
			err = errors.New("it left no conversation")
		}
		return v.begin(), err
	}
	again[1] = v.log
	rec, err := readRecord(v.data, v.log)
	if err != nil {
		return nil, err
	}
	looped := r.code == 2 && strings.Contains(r.stderr.String(), "crash_loop")
	ended := rec.count("session.run_ended") > 0 && rec.state() == "active"
	switch {
	case !r.killed && !looped && !v.plan.mayEndWith(r):
		return nil, errors.New("it failed")
	case rec.count("workflow.started") == 0:
		return v.begin(), nil
	case !ended && !r.killed && !looped:
		return nil, errors.New("it left before the run ended")
	case ended:
		return nil, nil
	}
	return again, nil
}

// sawRunBegin reports whether a process lived to show that the run began.
func (v *victim) sawRunBegin() bool {
	for _, r := range v.runs {
		for _, l := range r.seen {
			if strings.Contains(l.raw, `"kind":"workflow.started"`) {
				return true
			}
		}
	}
	return false
}

// mayEndWith holds a process's exit code against the plan. One that came after
// the end, or after the denial, has nothing to complain about.
func (p *plan) mayEndWith(r *run) bool {
	switch text := r.stderr.String(); r.code {
	case 0:
		return true
	case 2:
		return p.fails != "" && strings.Contains(text, "the workflow generated failed: stage "+p.fails+" failed")
	case 3:
		return p.steps[0].strays && strings.Contains(text, "nobody is there to give permission")
	}
	return false
}

// judgeRun holds the run against every rule.
func (v *victim) judgeRun() error {
	if err := v.files.awaitEffects(); err != nil {
		return err
	}
	if _, err := v.tool("verify", v.log); err != nil {
		return err
	}
	rec, err := readRecord(v.data, v.log)
	if err != nil {
		return err
	}
	errs := []error{
		stagesEndedOnce(rec), doneOnce(rec, v.files, cuts(v.runs)*v.plan.atOnce),
		v.plan.cameTo(rec), v.plan.did(rec), v.plan.left(rec, v.files),
	}
	for _, r := range v.runs {
		errs = append(errs, keptWhatWasShown(rec, r))
	}
	v.count(rec)
	return errors.Join(errs...)
}
