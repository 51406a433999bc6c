package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"stave/internal/machine"
	"stave/internal/machine/agent"
	"stave/internal/machine/session"
	"stave/internal/machine/tool"
	"stave/internal/machine/turn"
	"stave/internal/runelog"
	"stave/internal/world"
)

// stepJSON is one step of a replay as programs read it.
type stepJSON struct {
	Seq       uint64   `json:"seq"`
	At        string   `json:"at"`
	Path      string   `json:"path"`
	Kind      string   `json:"kind"`
	From      string   `json:"from"`
	To        string   `json:"to"`
	By        string   `json:"by"`
	Text      string   `json:"text"`
	Jobs      []string `json:"jobs"`      // what is due after this step
	Questions []string `json:"questions"` // what is asked after this step
}

func (a *app) replayCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "replay LOG",
		Short: "Compute a conversation again from its runes and tell it step by step",
		Long: `Folds the runes of a conversation into its present, offline: no model is asked and no tool runs.
Each step is checked against the tables. With --json each step says which jobs and questions are due after it.`,
		Example: "  stave replay last\n  stave replay last --json",
		Args:    exactly("LOG"),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.onMeta(args[0], func(ctx context.Context, h *host, m runelog.Meta) error {
				return a.replay(ctx, h, m.Log)
			})
		},
	}
}

func (a *app) replay(ctx context.Context, h *host, log string) error {
	w := world.New(log)
	var before string
	for r, err := range h.log.Read(ctx, log, 0) {
		if err != nil {
			return err
		}
		if err := w.Fold(r); err != nil {
			return err
		}
		e, err := world.EventOf(r)
		if err != nil {
			return err
		}
		if a.json {
			err = a.printJSON(stepFor(w, r, e))
		} else {
			if place := r.Path; place != before {
				a.printf("%s\n", shortIDs(place))
				before = place
			}
			a.printf("%5d  %-36s %s\n", r.Seq, or(r.From, "·")+" → "+r.To, story(e))
		}
		if err != nil {
			return err
		}
	}
	if !a.json {
		v := w.View()
		a.printf("\n%s is %s after %d runes; %s.\n", log, v.State, v.Seq, spent(v))
	}
	return nil
}

func stepFor(w *world.World, r runelog.Rune, e machine.Event) stepJSON {
	s := stepJSON{
		Seq: r.Seq, At: rfc3339(r.TSMs), Path: r.Path, Kind: r.Kind, From: r.From, To: r.To, By: r.By, Text: story(e),
	}
	for _, j := range w.Jobs() {
		s.Jobs = append(s.Jobs, j.ID)
	}
	for _, q := range w.Questions() {
		s.Questions = append(s.Questions, q.ID)
	}
	return s
}

// story tells an event in a sentence.
func story(e machine.Event) string {
	for _, tell := range []func(machine.Event) string{
		storyOfSession, storyOfStay, storyOfTurn, storyOfTool, storyOfAgent, storyOfRun, storyOfStage,
	} {
		if s := tell(e); s != "" {
			return s
		}
	}
	return strings.ReplaceAll(machine.Kind(e), "_", " ")
}

func storyOfSession(e machine.Event) string {
	switch e := e.(type) {
	case session.Created:
		return fmt.Sprintf("a conversation begins (mode %s, model %s)", e.Config.Mode, line(e.Config.Model, shownTitle))
	case session.MessageReceived:
		return fmt.Sprintf("message %d (%s): %s", e.Message, e.Mode, line(e.Text, shownLine))
	case session.TurnAdmitted:
		return fmt.Sprintf("turn %d may start", e.Turn)
	case session.TurnEnded:
		return fmt.Sprintf("%s is over: %s", e.TurnID, e.Outcome)
	case session.Paused:
		return "paused: " + line(e.Reason, shownLine)
	case session.Suspended:
		return "suspended: " + line(e.Reason+" "+e.Info, shownLine)
	case session.Recovered:
		return "the process had ended while work was due"
	case session.Closing:
		return "closing: " + line(e.Reason, shownLine)
	case session.Closed:
		return "closed; the log is sealed"
	}
	return ""
}

// storyOfStay tells what happens to a conversation besides messages and turns.
func storyOfStay(e machine.Event) string {
	switch e := e.(type) {
	case session.Activated:
		return "its first agent is ready"
	case session.AgentJoined:
		return "an agent joined: " + shortIDs(e.AgentID)
	case session.AgentLost:
		return "an agent is gone: " + shortIDs(e.AgentID)
	case session.RunBegan:
		return "a workflow runs in it: " + e.Name
	case session.RunEnded:
		return fmt.Sprintf("the workflow %s is over: %s", e.Name, e.Outcome)
	case session.Resumed, session.Unsuspended:
		return "goes on"
	case session.ModelSwitched:
		return "the model is now " + line(e.Model, shownTitle)
	case session.Tainted:
		return "content came in from " + line(e.Source, shownLine)
	case session.Checkpointed:
		if e.Missed != "" {
			return "how the files were could not be kept: " + line(e.Missed, shownLine)
		}
		return "how the files were is kept: " + count(e.Files, "file", "files")
	case session.Rewound:
		return fmt.Sprintf("back to rune %d", e.Seq)
	}
	return ""
}

func storyOfTurn(e machine.Event) string {
	switch e := e.(type) {
	case turn.Started:
		return fmt.Sprintf("turn %d answers: %s", e.Number, line(e.Input.Text, shownLine))
	case turn.AssistantDelta:
		return "the model says: " + line(e.Content, shownLine)
	case turn.ToolCallsReceived:
		return "the model asks for " + count(len(e.CallIDs), "call", "calls")
	case turn.CallFinished:
		return "one call is done: " + e.Status
	case turn.ToolsFinished:
		return "the results go back to the model"
	case turn.Retried:
		return fmt.Sprintf("attempt %d: %s", e.Attempt, line(e.Why, shownLine))
	case turn.StopRequested:
		return "asked to stop: " + line(e.Reason, shownLine)
	case turn.Completed:
		return "the answer is complete (" + e.Reason + ")"
	case turn.Interrupted:
		return "interrupted: " + line(e.Reason, shownLine)
	case turn.Error:
		return "failed: " + line(e.Type+": "+e.Message, shownLine)
	case turn.Finalized:
		return fmt.Sprintf("%s, %s", count(e.Requests, "model request", "model requests"), count(e.Calls, "tool call", "tool calls"))
	}
	return ""
}

func storyOfTool(e machine.Event) string {
	switch e := e.(type) {
	case tool.Call:
		return toolName(e.Tool) + " " + brief(e.Arguments)
	case tool.ApprovalRequested:
		return "asks for permission: " + line(e.Reason, shownLine)
	case tool.Approved:
		return "allowed by " + line(e.Approver, shownLine)
	case tool.Denied:
		return "denied by " + line(e.By, shownLine) + ": " + line(e.Reason, shownLine)
	case tool.Progress:
		if e.Intent != nil {
			return "declares what it is about to do: " + cut(visible(string(e.Intent)), shownLine)
		}
		return "prints: " + line(e.Chunk, shownLine)
	case tool.Restarted:
		return fmt.Sprintf("attempt %d: %s", e.Attempt, line(e.Why, shownLine))
	case tool.OutcomeUnknown:
		return "nobody knows whether it happened: " + line(e.Known, shownLine)
	case tool.Result:
		if e.Status == tool.Success {
			return "result: " + gist(e.Text)
		}
		return string(e.Status) + ": " + line(e.Error, shownLine)
	}
	return ""
}

func storyOfAgent(e machine.Event) string {
	switch e := e.(type) {
	case agent.Spawning:
		return "an agent is made ready: " + e.Role
	case agent.Told:
		return "is told: " + line(e.Text, shownLine)
	case agent.Ready:
		return "is ready"
	case agent.Failed:
		return "it never became ready: " + line(e.Error, shownLine)
	case agent.TurnAssigned:
		return "takes " + e.TurnID
	case agent.TurnEnded:
		return "is done with " + e.TurnID
	case agent.Terminated:
		return "ends: " + line(e.Reason, shownLine)
	}
	return ""
}
