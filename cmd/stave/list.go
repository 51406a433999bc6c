package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"stave/internal/runelog"
	"stave/internal/world"
)

const (
	shortLog   = len(logPrefix) + 8
	shownTitle = 60
)

// logJSON is a line of ls as programs read it.
type logJSON struct {
	Log       string  `json:"log"`
	Kind      string  `json:"kind"`
	State     string  `json:"state"`
	Title     string  `json:"title"`
	CreatedAt string  `json:"created_at"`
	UpdatedAt string  `json:"updated_at"`
	CostUSD   float64 `json:"cost_usd"`
	Priced    bool    `json:"priced"` // else the cost is not known, and 0 says nothing
	WaitsFor  string  `json:"waits_for,omitzero"`
	Seq       uint64  `json:"seq"`
}

func logFor(m runelog.Meta) logJSON {
	return logJSON{m.Log, m.Kind, m.State, m.Title, rfc3339(m.CreatedMs), rfc3339(m.UpdatedMs), m.CostUSD, m.CostUSD > 0, m.WaitsFor, m.Seq}
}

func (a *app) lsCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Short:   "List conversations, the newest change first",
		Example: "  stave ls\n  stave ls --json | jq -r 'select(.waits_for == \"person\").log'",
		Args:    atMost(0),
		RunE: func(*cobra.Command, []string) error {
			return a.hosted(func(h *host) error {
				metas, err := h.metas(context.Background())
				if listErr := a.printLogs(metas); listErr != nil {
					return listErr
				}
				return err
			})
		},
	}
}

// metas returns what can be listed, and an error if that is not all.
func (h *host) metas(ctx context.Context) (metas []runelog.Meta, err error) {
	for m, err := range h.log.List(ctx) {
		if err != nil {
			return metas, err
		}
		metas = append(metas, m)
	}
	return metas, nil
}

func (a *app) printLogs(metas []runelog.Meta) error {
	if a.json {
		for _, m := range metas {
			if err := a.printJSON(logFor(m)); err != nil {
				return err
			}
		}
		return nil
	}
	if len(metas) == 0 {
		a.note("there is no conversation yet; `stave ask` begins one, `stave demo` shows how")
		return nil
	}
	names := make([]string, len(metas))
	for i, m := range metas {
		names[i] = m.Log
	}
	short := shortest(names, shortLog)
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "LOG\tSTATE\tWAITS FOR\tAGE\tTITLE")
	for _, m := range metas {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", short[m.Log], m.State, or(m.WaitsFor, "-"), a.age(m.UpdatedMs), line(m.Title, shownTitle))
	}
	return w.Flush()
}

// viewJSON is a view whose questions are as inbox shows them.
type viewJSON struct {
	world.View
	Questions []questionJSON `json:"questions"`
	CostUSD   float64        `json:"cost_usd"`
	Priced    bool           `json:"priced"`
}

func (a *app) showCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "show LOG",
		Short:   "Look at one conversation as it is now",
		Example: "  stave show last\n  stave show conv_0198 --json",
		Args:    exactly("LOG"),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.onMeta(args[0], func(ctx context.Context, h *host, m runelog.Meta) error {
				if m.Archived {
					return a.showArchived(m)
				}
				v, err := h.engine.Look(ctx, m.Log)
				if err != nil {
					return err
				}
				if a.json {
					j := viewJSON{View: v, Priced: a.models.priced(v.Model)}
					j.CostUSD, _ = a.cost(v)
					for _, q := range v.Questions {
						j.Questions = append(j.Questions, questionFor(q))
					}
					return a.printJSON(j)
				}
				a.showView(v)
				return nil
			})
		},
	}
}

func (a *app) showArchived(m runelog.Meta) error {
	if a.json {
		return a.printJSON(logFor(m))
	}
	a.printf("%s\n", m.Log)
	a.field("title", line(m.Title, shownLine))
	a.field("state", m.State+", in cold storage since "+a.when(m.UpdatedMs))
	a.field("you can", a.command("restore %s", m.Log))
	return nil
}

func (a *app) showView(v world.View) {
	a.printf("%s\n", v.Log)
	a.field("title", line(v.Title, shownLine))
	a.field("state", string(v.State)+" since "+a.when(v.SinceMs))
	if v.Why != "" {
		a.field("why", line(v.Why, shownLine))
	}
	a.field("model", line(v.Model, shownLine))
	a.field("mode", v.Mode)
	a.field("cwd", visible(v.Dir))
	if v.Origin != nil {
		a.field("fork of", fmt.Sprintf("%s at rune %d", v.Origin.Log, v.Origin.Seq))
	}
	_, cost := a.cost(v)
	a.field("so far", spent(v)+", "+cost)
	for _, w := range v.Waiting {
		a.field("waiting", fmt.Sprintf("(%s) %s", w.Mode, line(w.Text, shownLine)))
	}
	for _, r := range v.Runs {
		a.field("run", fmt.Sprintf("%s is %s: %s", r.Name, r.State, line(r.Task, shownLine)))
		for _, s := range stagesOf(r) {
			a.field("stage", s)
		}
	}
	if last := lastRun(v); last != "" {
		a.field("last run", last)
	}
	for _, m := range v.Machines {
		a.field("machine", fmt.Sprintf("%s is %s since %s", shortIDs(string(m.Path)), m.State, a.when(m.SinceMs)))
	}
	for _, q := range v.Questions {
		a.field("question", fmt.Sprintf("%s %s: %s", q.ID, strings.Join(q.Choices, "|"), summary(q)))
	}
	for _, j := range v.Jobs {
		a.field("due", fmt.Sprintf("%s at %s", j.Work, shortIDs(string(j.Path))))
	}
	a.field("you can", strings.Join(verbs(v.Possible), ", "))
}

// stagesOf says where the stages of a run stand: those that ended, those under
// way, those that wait for their turn.
func stagesOf(r world.RunView) (lines []string) {
	for _, d := range r.Results {
		lines = append(lines, fmt.Sprintf("%s is over: %s, %s", d.Stage, d.Status, count(d.Turns, "turn", "turns")))
	}
	for _, s := range r.Stages {
		lines = append(lines, fmt.Sprintf("%s is in %s, attempt %d of %d, %d of %s", s.Stage, s.State, s.Attempt, s.Attempts, s.Turns, count(s.TurnCap, "turn", "turns")))
	}
	for _, name := range r.Waiting {
		lines = append(lines, name+" waits for its turn")
	}
	return lines
}

// lastRun says what became of the workflow that ended last.
func lastRun(v world.View) string {
	r := v.LastRun
	if r == nil {
		return ""
	}
	text := r.Name + " " + r.Outcome
	if r.Why != "" {
		text += ": " + line(r.Why, shownLine)
	}
	return text
}

func (a *app) field(name, value string) { a.printf("  %-9s %s\n", name, value) }

// spent says what a conversation has used. The books of a turn are closed at its
// end; while a workflow runs, what was charged so far says more.
func spent(v world.View) string {
	if len(v.Runs) > 0 {
		s := v.Accounts[0].Spent
		return fmt.Sprintf("%s, %s, %s", count(int(s.ModelCalls), "model call", "model calls"),
			count(int(s.ToolCalls), "tool call", "tool calls"), count(int(s.Tokens), "token", "tokens"))
	}
	u := v.Stats.Usage
	return fmt.Sprintf("%s, %s, %s in, %d out", count(v.Stats.Turns, "turn", "turns"),
		count(v.Stats.Calls, "tool call", "tool calls"), count(int(u.InputTokens), "token", "tokens"), u.OutputTokens)
}

func rfc3339(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339Nano) }

// when is a point in time as a person reads it.
func (a *app) when(ms int64) string {
	return time.UnixMilli(ms).Local().Format("2006-01-02 15:04:05") + " (" + a.age(ms) + ")"
}

// age says how long ago something was.
func (a *app) age(ms int64) string {
	const day = 24 * time.Hour
	switch d := a.now().Sub(time.UnixMilli(ms)); {
	case d < time.Second:
		return "now"
	case d < time.Minute:
		return fmt.Sprintf("%ds ago", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm ago", d/time.Minute)
	case d < day:
		return fmt.Sprintf("%dh ago", d/time.Hour)
	default:
		return fmt.Sprintf("%dd ago", d/day)
	}
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
