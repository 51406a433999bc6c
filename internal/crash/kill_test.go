package crash

import (
	"errors"
	"testing"
)

const (
	defaultKills = 200
	longKills    = 1000 // from here on every phase must have been hit
)

// TestKill shows that a conversation whose process is killed at any moment,
// again and again, loses nothing it showed, does nothing twice, and ends as if
// it had never been killed. About a third of them are runs of workflows.
func TestKill(t *testing.T) {
	c := newCampaign(t, "testdata/story.yaml", wanted(t, defaultKills))
	c.reach = 40
	c.playWhole(t)
	c.run(t, (*victim).sufferOrRun)
	if c.target >= longKills {
		c.checkPhases(t)
		nobodyStays(t)
	}
}

// suffer lives and is judged.
func (v *victim) suffer() error {
	if err := v.live(v.ask(alone...)); err != nil {
		return err
	}
	return v.judge()
}

// judge holds the conversation against every rule.
func (v *victim) judge() error {
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
		endedOnce(rec), doneOnce(rec, v.files, cuts(v.runs)),
		sameStory(rec, v.whole), sameFiles(rec, v.files, v.wholeFiles),
	}
	for _, r := range v.runs {
		errs = append(errs, keptWhatWasShown(rec, r))
	}
	v.count(rec)
	return errors.Join(errs...)
}
