package crash

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stave/internal/machine/tool"
)

const (
	lanes = 4 // data directories in use at the same time
	// A data directory serves several conversations, so that stores with a past
	// are killed too.
	conversationsPerData = 4
	// What kills one conversation may take, and processes in all.
	maxKills     = 10
	maxProcesses = 60
	// How many conversations there are to one that is driven into a crash loop.
	houndedOneIn = 20
)

// campaign is what the lanes share.
type campaign struct {
	binary, script, root string
	seed                 uint64
	target               int
	reach                int // how many runes a process may live to show
	kills                atomic.Int64
	whole                *record // the conversation that nobody killed
	wholeFiles           *workspace

	mu    sync.Mutex
	tally tally
}

// tally is what a campaign counts.
type tally struct {
	conversations, runs, loops int
	unknown, happened          int // effects with an unknown result, and those of them that took place
	phases                     map[string]int
	recoveries                 []time.Duration
}

func newCampaign(t *testing.T, script string, target int) *campaign {
	t.Helper()
	script, err := filepath.Abs(script)
	if err != nil {
		t.Fatal(err)
	}
	return &campaign{
		binary: program(t), script: script, root: scratch(t), seed: seedOf(t), target: target,
		tally: tally{phases: map[string]int{}},
	}
}

// playWhole plays the conversation that the others are held against.
func (c *campaign) playWhole(t *testing.T) {
	t.Helper()
	v, err := c.conversation("whole", nil)
	if err == nil {
		err = v.live(v.ask(alone...))
	}
	if err == nil {
		c.whole, err = readRecord(v.data, v.log)
	}
	if err != nil {
		t.Fatalf("without a kill: %v", err)
	}
	c.wholeFiles = v.files
}

// run leads conversations through their lives, in several lanes, until there
// were enough kills.
func (c *campaign) run(t *testing.T, lead func(*victim) error) {
	t.Helper()
	began := time.Now()
	err := inLanes(func(number int) error { return c.lane(number, lead) })
	c.report(t, time.Since(began))
	if err != nil {
		t.Fatal(err)
	}
}

// inLanes does work several times at once.
func inLanes(work func(number int) error) error {
	var all sync.WaitGroup
	errs := make([]error, lanes)
	for i := range errs {
		all.Go(func() { errs[i] = work(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// lane leads one conversation after the other.
func (c *campaign) lane(number int, lead func(*victim) error) error {
	rng := rand.New(rand.NewPCG(c.seed, uint64(number)))
	var known []string // logs of the present data directory
	for i := 0; c.kills.Load() < int64(c.target); i++ {
		v, err := c.conversation(fmt.Sprintf("lane%d-%d", number, i/conversationsPerData), rng)
		if err != nil {
			return err
		}
		if i%conversationsPerData == 0 {
			known = nil
		}
		v.old = known
		err = lead(v)
		known = append(known, v.log)
		v.files.close()
		if err != nil {
			return fmt.Errorf("lane %d, conversation %d (%s in %s):\n%w\n%s", number, i, v.log, v.data, err, v.history())
		}
	}
	return nil
}

// count adds the conversation to the campaign's tally.
func (v *victim) count(rec *record) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.tally.conversations++
	if v.plan != nil {
		v.tally.runs++
	}
	if rec.looped() {
		v.tally.loops++
	}
	times, _ := v.files.ledger()
	for _, k := range rec.calls {
		if k.effect() != "" && len(k.results) == 1 && k.results[0].Status == tool.Unknown {
			v.tally.unknown++
			v.tally.happened += times[k.effect()]
		}
	}
	for _, p := range v.phases(rec) {
		v.tally.phases[p]++
	}
	for _, r := range v.runs {
		if !r.killed && r.args[0] == "resume" && len(r.seen) > 0 {
			v.tally.recoveries = append(v.tally.recoveries, r.seen[0].at.Sub(r.began))
		}
	}
}
