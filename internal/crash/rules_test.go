package crash

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-cmp/cmp"

	"stave/internal/machine/tool"
	"stave/internal/runelog"
	"stave/internal/world"
)

// keptWhatWasShown holds that a process's complete lines are still in the log,
// byte for byte. If it was cut off, runes that may be written lazily can be lost,
// but only those behind the last rune that may not: a synced batch takes all
// before it along.
func keptWhatWasShown(rec *record, r *run) error {
	firm := len(r.seen)
	for r.cut() && firm > 0 {
		lazy, err := isLazy(r.seen[firm-1].raw)
		if err != nil {
			return fmt.Errorf("%v: line %d: %w", r, firm, err)
		}
		if !lazy {
			break
		}
		firm--
	}
	lost := false
	var last uint64
	for i, l := range r.seen {
		shown, err := runelog.Decode([]byte(l.raw))
		if err != nil {
			return fmt.Errorf("%v: line %d: %w", r, i+1, err)
		}
		if last != 0 && shown.Seq != last+1 {
			return fmt.Errorf("%v: rune %d was shown right after %d", r, shown.Seq, last)
		}
		last = shown.Seq
		kept := shown.Seq <= uint64(len(rec.runes)) && string(rec.runes[shown.Seq-1].Raw()) == l.raw
		switch {
		case !kept && i < firm:
			return fmt.Errorf("%v: rune %d (%s) was shown and is lost", r, shown.Seq, shown.Kind)
		case kept && lost:
			return fmt.Errorf("%v: rune %d is kept, one before it is lost", r, shown.Seq)
		}
		lost = !kept
	}
	return nil
}

// isLazy reports whether a rune may be written without waiting for the disk.
func isLazy(raw string) (bool, error) {
	r, err := runelog.Decode([]byte(raw))
	if err != nil {
		return false, err
	}
	if _, isBlob := runelog.BlobOf(r.Payload); isBlob {
		return false, nil // too large for a fragment
	}
	e, err := world.EventOf(r)
	lazy, ok := e.(interface{ Lazy() bool })
	return ok && lazy.Lazy(), err
}

// endedOnce holds that every turn and every call has exactly one end, and that
// the conversation came to rest after a completed turn.
func endedOnce(rec *record) error {
	var errs []error
	ends := map[string]int{}
	for _, r := range rec.runes {
		switch r.Kind {
		case "turn.started":
			ends[r.Path] += 0
		case "turn.completed", "turn.interrupted", "turn.error":
			ends[r.Path]++
		}
	}
	for path, n := range ends {
		if n != 1 {
			errs = append(errs, fmt.Errorf("%s ended %d times", path, n))
		}
	}
	for _, k := range rec.calls {
		if len(k.results) != 1 {
			errs = append(errs, fmt.Errorf("call %s of %s has %d results", k.CallID, k.Tool, len(k.results)))
		}
	}
	if n := rec.count("turn.completed"); n != 1 {
		errs = append(errs, fmt.Errorf("%d turns were completed", n))
	}
	if n := rec.count("turn.error", "session.agent_lost"); n != 0 {
		errs = append(errs, fmt.Errorf("%d turns or agents failed", n))
	}
	if s := rec.state(); s != "active" {
		errs = append(errs, fmt.Errorf("the conversation is %q", s))
	}
	return errors.Join(errs...)
}

// doneOnce holds that no effect happened twice, that every one with a result of
// success happened, and that no more results are unknown than kills can account for.
func doneOnce(rec *record, w *workspace, blamed int) error {
	times, err := w.ledger()
	if err != nil {
		return err
	}
	var errs []error
	unknown := 0
	for _, k := range rec.calls {
		id := k.effect()
		if id == "" || len(k.results) != 1 {
			continue
		}
		status, n := k.results[0].Status, times[id]
		delete(times, id)
		switch {
		case n > 1:
			errs = append(errs, fmt.Errorf("effect %s happened %d times; its result is %s", id, n, status))
		case status == tool.Success && n != 1:
			errs = append(errs, fmt.Errorf("effect %s has a result of success and happened %d times", id, n))
		case status == tool.Unknown:
			unknown++
		case status != tool.Success && n != 0:
			errs = append(errs, fmt.Errorf("effect %s happened, and its result is %s: %s", id, status, k.results[0].Error))
		}
	}
	if len(times) > 0 {
		errs = append(errs, fmt.Errorf("effects happened that no call asked for: %v", times))
	}
	if unknown > blamed {
		errs = append(errs, fmt.Errorf("%d results are unknown that no process was cut off at", unknown-blamed))
	}
	return errors.Join(errs...)
}

// cuts counts the processes that were cut off.
func cuts(runs []*run) int {
	n := 0
	for _, r := range runs {
		if r.cut() {
			n++
		}
	}
	return n
}

// sameStory holds that a conversation that was killed tells what the one that
// was never killed tells. A crash loop ends a turn early, and what follows is
// another story.
func sameStory(rec, whole *record) error {
	if rec.looped() {
		return nil
	}
	if diff := cmp.Diff(whole.story(), rec.story()); diff != "" {
		return fmt.Errorf("it tells another story than the one never killed (-whole +killed):\n%s", diff)
	}
	return nil
}

// sameFiles holds that files are as the results of Write and Edit say, and that
// no half-written one is left. A crash loop gives up on files as well.
func sameFiles(rec *record, w, whole *workspace) error {
	if rec.looped() {
		return nil
	}
	const name = "notes/today.txt"
	want, err := whole.text(name)
	if err != nil {
		return err
	}
	got, err := w.text(name)
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("%s has %q, want %q", name, got, want)
	}
	names, err := w.list("notes")
	for _, n := range names {
		if strings.HasPrefix(n, ".stave-") {
			err = errors.Join(err, fmt.Errorf("the half-written file notes/%s is left", n))
		}
	}
	return err
}
