package crash

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"stave/internal/machine/tool"
)

const defaultAskingKills = 60

// TestKillWhileAsking shows that a question survives any kill: it is in the inbox
// until it is decided, it is decided once, and what was allowed happens once.
func TestKillWhileAsking(t *testing.T) {
	c := newCampaign(t, "testdata/asking.yaml", min(wanted(t, defaultAskingKills), longKills/2))
	c.reach = 12
	c.run(t, (*victim).beAsked)
}

// question is an entry of the inbox.
type question struct {
	ID   string `json:"id"`
	Log  string `json:"log"`
	Kind string `json:"kind"`
}

// beAsked leads a conversation with a question to its end, through all kills.
func (v *victim) beAsked() error {
	next := v.ask("--mode", "ask")
	for range maxProcesses {
		r, err := v.start(v.aim(), next...)
		if err != nil {
			return err
		}
		if looped := strings.Contains(r.stderr.String(), "crash_loop"); !r.killed && !looped && r.code != 0 && r.code != 3 {
			return errors.New("it failed")
		}
		if next, err = v.answer(); err != nil {
			return err
		}
		if next == nil {
			return v.judgeAnswer()
		}
	}
	return fmt.Errorf("the conversation does not rest after %d processes", maxProcesses)
}

// answer says what to type next, nothing once the conversation rests.
func (v *victim) answer() ([]string, error) {
	began, err := v.find()
	if err != nil || !began {
		return v.ask("--mode", "ask"), err
	}
	open, err := v.inbox()
	if err != nil {
		return nil, err
	}
	rec, err := readRecord(v.data, v.log)
	if err != nil {
		return nil, err
	}
	if asks := rec.asks(); asks != (len(open) == 1) {
		return nil, fmt.Errorf("the log has an open question: %t; the inbox shows %v", asks, open)
	}
	switch {
	case len(open) == 1:
		return v.decide(open[0])
	case rec.count("session.message_received") == 0:
		return []string{"send", v.log, prompt, "--json"}, nil
	case rec.count("turn.completed") == 0:
		return []string{"resume", v.log, "--json"}, nil
	}
	return nil, nil
}

// decide answers as somebody would who can see what happened.
func (v *victim) decide(q question) ([]string, error) {
	choice := "approve"
	if q.Kind == "what_happened" {
		// A shell that was started right before the kill needs a moment to show that it lives.
		const moment = time.Second
		time.Sleep(moment)
		if err := v.files.awaitEffects(); err != nil {
			return nil, err
		}
		times, err := v.files.ledger()
		if err != nil {
			return nil, err
		}
		choice = "retry"
		if len(times) > 0 {
			choice = "happened"
		}
	}
	return []string{"answer", q.ID, choice, "--json"}, nil
}

// inbox returns the conversation's open questions.
func (v *victim) inbox() ([]question, error) {
	r, err := v.tool("inbox", "--json")
	if err != nil {
		return nil, err
	}
	var open []question
	for _, l := range r.seen {
		var q question
		if err := json.Unmarshal([]byte(l.raw), &q); err != nil {
			return nil, fmt.Errorf("%v: %w", r, err)
		}
		if q.Log == v.log {
			open = append(open, q)
		}
	}
	return open, nil
}

// asks reports whether the log ends with a call that waits for a person.
func (c *record) asks() bool {
	state := ""
	for _, r := range c.runes {
		if strings.HasPrefix(r.Kind, "tool.") {
			state = r.To
		}
	}
	return state == "awaiting_approval" || state == "outcome_unknown"
}

// judgeAnswer holds the conversation against the rules.
func (v *victim) judgeAnswer() error {
	if err := v.files.awaitEffects(); err != nil {
		return err
	}
	rec, err := readRecord(v.data, v.log)
	if err != nil {
		return err
	}
	v.count(rec)
	errs := []error{endedOnce(rec), doneOnce(rec, v.files, cuts(v.runs)), decidedOnce(rec), v.tooLate(rec)}
	for _, r := range v.runs {
		errs = append(errs, keptWhatWasShown(rec, r))
	}
	return errors.Join(errs...)
}

// decidedOnce holds that one person allowed the call, once, and that nobody was
// left without an answer.
func decidedOnce(rec *record) error {
	if rec.looped() {
		return nil // which withdraws the question
	}
	approved := 0
	for i, r := range rec.runes {
		if _, ok := rec.events[i].(tool.Approved); !ok {
			continue
		}
		approved++
		if r.From != "awaiting_approval" || !strings.HasPrefix(r.By, "user:") {
			return fmt.Errorf("rune %d: approved by %s from %s", r.Seq, r.By, r.From)
		}
	}
	if approved != 1 {
		return fmt.Errorf("the call was approved %d times", approved)
	}
	for _, k := range rec.calls {
		for _, r := range k.results {
			if r.Status != tool.Success {
				return fmt.Errorf("the call ended as %s: %s", r.Status, r.Error)
			}
		}
	}
	return nil
}

// tooLate holds that an answer to a decided question is refused.
func (v *victim) tooLate(rec *record) error {
	if len(rec.calls) != 1 {
		return fmt.Errorf("the model made %d calls", len(rec.calls))
	}
	r, err := v.tool("answer", rec.calls[0].CallID, "approve")
	if r == nil || r.code != 1 || !strings.Contains(r.stderr.String(), "decided already") {
		return fmt.Errorf("a second answer was not refused: %w", err)
	}
	return nil
}
