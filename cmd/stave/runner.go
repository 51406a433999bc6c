package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"stave/internal/machine/tool"
	"stave/internal/policy"
	"stave/internal/toolbox"
	"stave/internal/toolbox/sandbox"
	"stave/internal/toolbox/supervisor"
)

// autoLevel is what a person means who names no level: the strongest there is.
const autoLevel = "auto"

// runner runs commands in a sandbox, under a supervisor that outlives us.
type runner struct {
	dir  string   // of the supervisors
	held *os.File // the same, under a shared lock; nil if it is to stay

	asked  sync.Once
	report sandbox.Report // what can be built here, once asked

	base sandbox.Limits // what the supervisor may use up, and so all it starts

	mu     sync.Mutex
	limits sandbox.Limits // where a project wants less
	client *supervisor.Client
	closed bool
	done   []string // commands whose results are durable: to be forgotten
	// adopted are the commands that a process before us had started.
	adopted map[string]bool
	tidying sync.WaitGroup // what is being forgotten
}

// commandKey carries what a conversation settled about its commands.
type commandKey struct{}

// commandSettings are what a conversation settled about its commands.
type commandSettings struct {
	level   string
	network bool
}

// withCommands tells the commands of a conversation how to run.
func withCommands(ctx context.Context, level string, network bool) context.Context {
	return context.WithValue(ctx, commandKey{}, commandSettings{level, network})
}

// Run implements toolbox.Runner.
func (r *runner) Run(ctx context.Context, c toolbox.Command, out func([]byte)) (toolbox.Ending, error) {
	if c.Again {
		if known, err := supervisor.Recover(r.dir, c.ID); err != nil || known.State != supervisor.Absent {
			return r.takeUp(ctx, c, out)
		}
		// A start is on record before it happens: this one never was.
	}
	launch, err := r.confine(ctx, c)
	if err != nil {
		return toolbox.Ending{}, err
	}
	defer launch.Release()
	client, err := r.supervisor()
	if err != nil {
		return toolbox.Ending{}, err
	}
	end, err := client.Run(ctx, r.spec(c, launch), out)
	return r.ending(c, end, err)
}

// spec tells a supervisor what to start.
func (r *runner) spec(c toolbox.Command, l sandbox.Launch) supervisor.Spec {
	s := supervisor.Spec{
		ID: c.ID, Argv: l.Argv, Dir: l.Dir, Env: l.Env, Deadline: c.Deadline, Session: c.Session,
		Hold: l.Hold, Wrapped: l.Wrapped, Walls: l.Walls, Inner: l.Inner, Collect: r.take(),
	}
	for _, f := range l.Files {
		s.Files = append(s.Files, supervisor.File(f))
	}
	return s
}

// confine puts a command behind the walls its conversation asks for.
func (r *runner) confine(ctx context.Context, c toolbox.Command) (sandbox.Launch, error) {
	s, _ := ctx.Value(commandKey{}).(commandSettings)
	level, err := levelOf(s.level, r.walls)
	if err != nil {
		return sandbox.Launch{}, fmt.Errorf("no command runs: %w", err)
	}
	var report sandbox.Report
	if level != sandbox.Off {
		report = r.walls()
	}
	p := sandbox.Profile{
		Level: level, Workspace: c.Dir, Protected: sandbox.DefaultProtected(), AcceptUnprotected: level == sandbox.Landlock,
		Network: s.network, Env: c.Env, Limits: r.limitsNow().Beyond(r.base), // the rest is handed on by the supervisor
	}
	if level == sandbox.Landlock { // which has no /tmp of its own
		p.TempDir = filepath.Join(os.TempDir(), filepath.Base(r.dir)+fmt.Sprintf("-tmp-%d", os.Getuid()))
		if err := privateDir(p.TempDir); err != nil {
			return sandbox.Launch{}, err
		}
		p.Env = append(slices.Clone(p.Env), "TMPDIR="+p.TempDir)
	}
	launch, err := report.Command(p, c.Argv, c.Dir)
	if err != nil {
		return launch, err
	}
	limited, err := launch.Limited()
	if err != nil {
		launch.Release()
	}
	return limited, err
}

// bound sets what commands to come may use up, where it is not the usual.
func (r *runner) bound(l sandbox.Limits) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limits = l
}

func (r *runner) limitsNow() sandbox.Limits {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.limits.Over(r.base)
}

// wallsName is where a runner keeps what it found out about sandboxes.
const wallsName = "sandbox.json"

// walls says what can be built here. To find out takes processes, so it is asked
// once and remembered as long as the machine is up.
func (r *runner) walls() sandbox.Report {
	r.asked.Do(func() { r.report = sandbox.Remembered(filepath.Join(r.dir, wallsName)) })
	return r.report
}

// supervisor starts ours when the first command comes.
func (r *runner) supervisor() (*supervisor.Client, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, errors.New("no command is started any more: Stave is about to end")
	}
	if r.client == nil {
		client, err := supervisor.New(r.dir, supervisor.Options{Linger: linger, Limits: r.base.Text()})
		if err != nil {
			return nil, err
		}
		r.client = client
	}
	return r.client, nil
}

// takeUp follows a command that a process before us had started.
func (r *runner) takeUp(ctx context.Context, c toolbox.Command, out func([]byte)) (toolbox.Ending, error) {
	client, known, err := supervisor.Find(r.dir, c.ID)
	if err != nil {
		return toolbox.Ending{}, err
	}
	r.mu.Lock()
	r.adopted[c.ID] = true
	r.mu.Unlock()
	defer clearStandIns(c.Dir) // whoever started the command would have
	if client != nil {
		defer client.Close(false)
		end, err := client.Attach(ctx, c.ID, 0, out)
		return r.ending(c, end, err)
	}
	if b, err := os.ReadFile(known.Output); err == nil {
		out(b)
	}
	if known.State == supervisor.Ended {
		return r.ending(c, known.Ending, nil)
	}
	return toolbox.Ending{Unknown: "stave and the process that watched over the command ended while it ran"}, nil
}

// clearStandIns removes what a sandbox left in a workspace when its process was killed.
func clearStandIns(dir string) { sandbox.ClearStandIns(dir, sandbox.DefaultProtected()) }

func (r *runner) ending(c toolbox.Command, e supervisor.Ending, err error) (toolbox.Ending, error) {
	if errors.Is(err, supervisor.ErrLost) {
		return toolbox.Ending{Unknown: "the process that watched over the command ended while it ran"}, nil
	}
	return toolbox.Ending{Code: e.Code, Signal: e.Signal, TimedOut: e.TimedOut, Orphans: e.Orphans}, err
}

// survived says whether a call can be taken up again: a command can, since all
// about it is on record, even that it was never started. Only a power cut loses
// that record, so of what was allowed before the machine started nothing is known.
func (r *runner) survived(c tool.Call, attempt int, since time.Time) bool {
	if c.Tool != policy.ShellTool {
		return false
	}
	known, err := supervisor.Recover(r.dir, runID(c, attempt))
	if err != nil || known.State != supervisor.Absent {
		return err == nil
	}
	boot, err := supervisor.BootTime()
	return err == nil && since.After(boot.Add(clockSlack))
}

// clockSlack is how far the clock may have been set since.
const clockSlack = time.Minute

// take returns what is to be forgotten, once.
func (r *runner) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	done := r.done
	r.done = nil
	return done
}

// expect starts the supervisor while the model answers: it may ask for a command.
func (r *runner) expect() {
	if client, err := r.supervisor(); err == nil {
		_ = client.Start() // the first command says what is wrong
	}
}

// settled forgets a command whose result is durable: one of our own with the next
// that starts, one that we took up at once, beside what goes on.
func (r *runner) settled(c tool.Call, attempt int) {
	if c.Tool != policy.ShellTool {
		return
	}
	id := runID(c, attempt)
	r.mu.Lock()
	own := r.client != nil && !r.adopted[id]
	if own {
		r.done = append(r.done, id)
	}
	r.mu.Unlock()
	if !own {
		r.tidying.Go(func() { r.forget(id) })
	}
}

// forget lets go of a command that a process before us had started.
func (r *runner) forget(id string) {
	if other, _, err := supervisor.Find(r.dir, id); err == nil && other != nil {
		_ = other.Collect(id) // it lingers and then leaves by itself
		other.Close(false)
		return
	}
	_ = supervisor.Forget(r.dir, id) // what is left over is small
}

// abandoned ends a command that outlived us and whose call has ended meanwhile.
func (r *runner) abandoned(c tool.Call, attempt int) {
	id := runID(c, attempt)
	client, _, err := supervisor.Find(r.dir, id)
	if err != nil || client == nil {
		_ = supervisor.Forget(r.dir, id) // nothing runs any more
		return
	}
	defer client.Close(false)
	if client.Cancel(id) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), abandonPatience)
	defer cancel()
	if _, err := client.Attach(ctx, id, 0, nil); err == nil {
		_ = client.Collect(id)
	}
}

// sweep ends the commands whose call has ended: their process died right behind
// the word that ended it. What is left of others is forgotten. open are the calls
// that have not ended; it is asked only if there is something to sweep.
func (r *runner) sweep(open func() (map[string]bool, error)) error {
	left, err := supervisor.List(r.dir)
	if err != nil || len(left) == 0 {
		return err
	}
	calls, err := open()
	if err != nil {
		return err
	}
	for _, k := range left {
		call := k.ID[:max(0, strings.LastIndexByte(k.ID, '.'))]
		if calls[call] {
			continue
		}
		client, _, err := supervisor.Find(r.dir, k.ID)
		if err != nil || client == nil {
			_ = supervisor.Forget(r.dir, k.ID) // nothing of it runs, or nobody can end it
			continue
		}
		if client.Collect(k.ID) != nil { // it runs
			_ = client.Cancel(k.ID) // its supervisor sees to the rest
		}
		client.Close(false)
	}
	return nil
}

// abandonPatience is how long we wait for a command that nobody wants any more.
const abandonPatience = 5 * time.Second

func runID(c tool.Call, attempt int) string { return fmt.Sprintf("%s.%d", c.CallID, attempt) }

// close lets the commands that still run end with us: whoever closes in good
// order has put that on record.
func (r *runner) close() error {
	tidied := make(chan struct{})
	go func() { r.tidying.Wait(); close(tidied) }()
	select {
	case <-tidied:
	case <-time.After(abandonPatience): // what is left is found again
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	defer r.leaveDir()
	if r.client == nil {
		return nil
	}
	for _, id := range r.done {
		_ = r.client.Collect(id) // what is left over goes when the machine does
	}
	return r.client.Close(true)
}

// linger is how long a supervisor stays after its last command has ended and we
// are gone. What it knows lies in files, so nobody needs it any more.
const linger = 5 * time.Second
