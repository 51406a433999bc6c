package crash

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stave/internal/machine/tool"
)

const (
	defaultKills = 240
	longKills    = 1000 // from here on every phase must have been hit
	lanes        = 4    // data directories in use at the same time
	// A data directory serves several conversations, so that stores with a past
	// are killed too.
	conversationsPerData = 4
	// What kills one conversation may take, and processes in all.
	maxKills     = 10
	maxProcesses = 60
	prompt       = "Do it all, and each of it once."
)

// TestKill shows that a conversation whose process is killed at any moment,
// again and again, loses nothing it showed, does nothing twice, and ends as if
// it had never been killed.
func TestKill(t *testing.T) {
	c := newCampaign(t, "testdata/story.yaml", wanted(t, defaultKills))
	c.reach = 40
	c.playWhole(t)
	c.run(t, (*victim).suffer)
	if c.target >= longKills {
		c.checkPhases(t)
	}
}

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
	conversations, loops int
	unknown, happened    int // effects with an unknown result, and those of them that took place
	phases               map[string]int
	recoveries           []time.Duration
}

func newCampaign(t *testing.T, script string, target int) *campaign {
	t.Helper()
	script, err := filepath.Abs(script)
	if err != nil {
		t.Fatal(err)
	}
	return &campaign{
		binary: program(t), script: script, root: t.TempDir(), seed: seedOf(t), target: target,
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
	var all sync.WaitGroup
	errs := make([]error, lanes)
	began := time.Now()
	for i := range errs {
		all.Go(func() { errs[i] = c.lane(uint64(i), lead) })
	}
	all.Wait()
	c.report(t, time.Since(began))
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// lane leads one conversation after the other.
func (c *campaign) lane(number uint64, lead func(*victim) error) error {
	rng := rand.New(rand.NewPCG(c.seed, number))
	for i := 0; c.kills.Load() < int64(c.target); i++ {
		v, err := c.conversation(fmt.Sprintf("lane%d-%d", number, i/conversationsPerData), rng)
		if err != nil {
			return err
		}
		err = lead(v)
		v.files.close()
		if err != nil {
			return fmt.Errorf("lane %d, conversation %d (%s in %s):\n%w\n%s", number, i, v.log, v.data, err, v.history())
		}
	}
	return nil
}

// victim is one conversation and the processes that ran it.
type victim struct {
	*campaign
	rng   *rand.Rand // nil: nobody kills it
	data  string
	files *workspace
	old   []string // logs that were there before
	log   string
	runs  []*run
	kills []bullet

	hounded bool // killed so early each time that it gets nowhere
	unsaid  bool // it was killed between its beginning and its first message
}

// bullet is a process that was killed, with what only its moment can tell.
type bullet struct {
	run    int
	opened bool // it owned the data directory
}

// conversation gets a conversation ready in the named data directory.
func (c *campaign) conversation(data string, rng *rand.Rand) (*victim, error) {
	dir, err := os.MkdirTemp(c.root, "workspace-")
	if err != nil {
		return nil, err
	}
	v := &victim{campaign: c, rng: rng, data: filepath.Join(c.root, data), hounded: rng != nil && rng.IntN(8) == 0}
	if v.files, err = makeWorkspace(dir); err != nil {
		return nil, err
	}
	v.old, err = v.logs()
	return v, err
}

// suffer lives and is judged.
func (v *victim) suffer() error {
	if err := v.live(v.ask(alone...)); err != nil {
		return err
	}
	return v.judge()
}

// live runs the conversation from a command to its rest, through all kills.
func (v *victim) live(next []string) error {
	for range maxProcesses {
		r, err := v.start(v.aim(), next...)
		if err != nil {
			return err
		}
		rests, err := v.follow(r)
		if err != nil || rests {
			return err
		}
		if next, err = v.next(); err != nil {
			return err
		}
	}
	return fmt.Errorf("the conversation does not rest after %d processes", maxProcesses)
}

// alone are the flags of a conversation that asks nobody.
var alone = []string{"--mode", "yolo", "--headless"}

func (v *victim) ask(flags ...string) []string {
	return append([]string{"ask", prompt, "--model", "script:" + v.script, "--cwd", v.files.dir, "--json"}, flags...)
}

// follow takes note of how a process ended and reports whether there is nothing
// left to run.
func (v *victim) follow(r *run) (rests bool, err error) {
	switch {
	case r.killed:
		return false, nil
	case r.code == 2 && strings.Contains(r.stderr.String(), "crash_loop"):
		return false, nil
	case r.code != 0:
		return false, errors.New("it failed")
	}
	rec, err := readRecord(v.data, v.log)
	if err != nil {
		return false, err
	}
	v.unsaid = rec.count("session.message_received") == 0
	return !v.unsaid && rec.state() == "active", nil
}

// next decides how to go on after a process that did not come to the end.
func (v *victim) next() ([]string, error) {
	began, err := v.find()
	switch {
	case err != nil:
		return nil, err
	case !began:
		return v.ask(alone...), nil
	case v.unsaid:
		v.unsaid = false
		return []string{"send", v.log, prompt, "--headless", "--json"}, nil
	}
	return []string{"resume", v.log, "--headless", "--json"}, nil
}

// find looks for the conversation's log, which its process may not have lived to
// show, and reports whether there is one.
func (v *victim) find() (began bool, err error) {
	if v.log != "" {
		return true, nil
	}
	logs, err := v.logs()
	if err != nil {
		return false, err
	}
	logs = slices.DeleteFunc(logs, func(l string) bool { return slices.Contains(v.old, l) })
	switch len(logs) {
	case 0:
		return false, nil
	case 1:
		v.log = logs[0]
		return true, nil
	}
	return false, fmt.Errorf("one conversation has the logs %v", logs)
}

// start runs one process of the conversation.
func (v *victim) start(a aim, args ...string) (*run, error) {
	r, err := start(exec.Command(v.binary, append(args, "--data", v.data)...), a)
	return v.note(r), err
}

// note remembers a process of the conversation.
func (v *victim) note(r *run) *run {
	if r == nil {
		return nil
	}
	v.runs = append(v.runs, r)
	if v.log == "" && len(r.seen) > 0 {
		v.log = logOf(r.seen[0].raw)
	}
	if r.killed {
		v.campaign.kills.Add(1)
		v.kills = append(v.kills, bullet{len(v.runs) - 1, r.opened(v.data)})
	}
	return r
}

// tool runs a command that nobody kills and that must not fail.
func (v *victim) tool(args ...string) (*run, error) {
	r, err := start(exec.Command(v.binary, append(args, "--data", v.data)...), never)
	if err == nil && r.code != 0 {
		err = fmt.Errorf("%v", r)
	}
	return r, err
}

// logs lists the conversations of the data directory.
func (v *victim) logs() ([]string, error) {
	r, err := v.tool("ls", "--json")
	if err != nil {
		return nil, err
	}
	var logs []string
	for _, l := range r.seen {
		logs = append(logs, logOf(l.raw))
	}
	return logs, nil
}

// logOf returns the log that a line of JSON names.
func logOf(raw string) string {
	_, rest, _ := strings.Cut(raw, `"log":"`)
	log, _, _ := strings.Cut(rest, `"`)
	return log
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
		endedOnce(rec), doneOnce(rec, v.files, len(v.kills)),
		sameStory(rec, v.whole), sameFiles(rec, v.files, v.wholeFiles),
	}
	for _, r := range v.runs {
		errs = append(errs, keptWhatWasShown(rec, r))
	}
	v.count(rec)
	return errors.Join(errs...)
}

// count adds the conversation to the campaign's tally.
func (v *victim) count(rec *record) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.tally.conversations++
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

// history tells the processes of a conversation.
func (v *victim) history() string {
	var b strings.Builder
	for _, r := range v.runs {
		fmt.Fprintf(&b, "  %v\n", r)
	}
	return b.String()
}
