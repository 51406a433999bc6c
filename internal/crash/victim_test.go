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
)

const prompt = "Do it all, and each of it once."

// alone are the flags of a conversation that asks nobody.
var alone = []string{"--mode", "yolo", "--headless"}

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

	hounded bool // killed each time before it gets anywhere
	unsaid  bool // it was killed between its beginning and its first message

	reach   int      // how many runes a process may live to show
	watched []string // kinds right behind which it is killed more often
	plan    *plan    // of one that runs a workflow
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
	v := &victim{campaign: c, rng: rng, data: filepath.Join(c.root, data), reach: c.reach, watched: watched}
	v.hounded = rng != nil && rng.IntN(houndedOneIn) == 0
	v.files, err = makeWorkspace(dir)
	return v, err
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

// history tells the processes of a conversation.
func (v *victim) history() string {
	var b strings.Builder
	for _, r := range v.runs {
		fmt.Fprintf(&b, "  %v\n", r)
	}
	return b.String()
}
