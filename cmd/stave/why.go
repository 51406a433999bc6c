package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"stave/internal/machine/tool"
	"stave/internal/machine/workflow"
	"stave/internal/runelog"
	"stave/internal/world"
)

// reason is why a conversation is where it is, in sentences.
type reason struct {
	Log      string  `json:"log"`
	State    string  `json:"state"`
	WaitsFor string  `json:"waits_for"` // person, work, nobody
	Run      string  `json:"run,omitzero"`
	Waits    string  `json:"waits"`    // what it waits for
	MovedBy  string  `json:"moved_by"` // who can move it on, and how
	Since    string  `json:"since"`
	Cost     string  `json:"cost"`
	CostUSD  float64 `json:"cost_usd"`
	Priced   bool    `json:"priced"` // else nobody knows what it cost
	Next     string  `json:"next"`   // what happens then
}

func (a *app) whyCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "why LOG",
		Short:   "What a conversation waits for, who can move it on, since when, what happens next",
		Example: "  stave why last",
		Args:    exactly("LOG"),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.onMeta(args[0], func(ctx context.Context, h *host, m runelog.Meta) error {
				why, err := a.reasonOf(ctx, h, m)
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(why)
				}
				a.tellReason(why, m)
				return nil
			})
		},
	}
}

func (a *app) tellReason(w reason, m runelog.Meta) {
	since := m.UpdatedMs
	a.printf("%s (%s) is %s.\n", w.Log, line(m.Title, shownTitle), w.State)
	if w.Run != "" {
		a.printf("%s\n", w.Run)
	}
	a.printf("%s\n%s\n", w.Waits, w.MovedBy)
	a.printf("It has been so since %s.\n", a.when(since))
	a.printf("So far: %s.\n", w.Cost)
	a.printf("%s\n", w.Next)
}

func (a *app) reasonOf(ctx context.Context, h *host, m runelog.Meta) (reason, error) {
	w := reason{Log: m.Log, State: m.State, WaitsFor: "nobody", Since: rfc3339(m.UpdatedMs), CostUSD: m.CostUSD}
	if m.Archived {
		w.Cost = "what it cost is on record with its runes"
		w.Waits = "It waits for nobody: its runes are in cold storage."
		w.MovedBy = fmt.Sprintf("You can bring it back: `%s`.", a.command("restore %s", m.Log))
		w.Next = "Then it can be read, verified and forked; it takes no more messages."
		return w, nil
	}
	v, err := h.engine.Look(ctx, m.Log)
	if err != nil {
		return w, err
	}
	usd, words := a.cost(v)
	w.Cost, w.CostUSD, w.Priced = spent(v)+", "+words, usd, a.models.priced(v.Model)
	w.Run = runsOf(v)
	switch {
	case len(v.Questions) > 0:
		w.WaitsFor = "person"
		a.waitsForPerson(&w, v.Questions[0], len(v.Questions))
	case len(v.Jobs) > 0:
		w.WaitsFor = "work"
		a.waitsForWork(&w, v)
	default:
		a.rests(&w, v)
	}
	return w, nil
}

// runsOf says in a sentence how far the workflows of a conversation are.
func runsOf(v world.View) string {
	var runs []string
	for _, r := range v.Runs {
		runs = append(runs, fmt.Sprintf("The workflow %s is %s: %s.", r.Name, r.State, strings.Join(stagesOf(r), "; ")))
	}
	if last := lastRun(v); last != "" && len(runs) == 0 {
		runs = append(runs, "Its last workflow: "+last+".")
	}
	return strings.Join(runs, "\n")
}

func (a *app) waitsForPerson(w *reason, q world.Question, n int) {
	call, why := asked(q)
	w.Waits = fmt.Sprintf("It waits for a person: may %s run with %s? (%s)", call.Tool, cut(visible(string(call.Arguments)), shortArgs), line(why, shownLine))
	w.Next = "Approved, the call runs and its result goes back to the model; denied, the model is told so. Either way the turn goes on."
	switch ask := q.Ask.(type) {
	case tool.GrantStageTool:
		w.Waits = fmt.Sprintf("It waits for a person: may stage %s make this one call of %s with %s? (%s)", ask.Stage, call.Tool, cut(visible(string(call.Arguments)), shortArgs), line(why, shownLine))
		w.Next = "Granted, the call runs once; denied or deferred, the model is told so. Either way the stage goes on."
	case workflow.MayGoOn:
		w.Waits = fmt.Sprintf("It waits for a person: the definition of workflow %s was changed after this run began.", ask.Name)
		w.Next = "The run goes on by the definition it began with, or it is cancelled. Until then nothing of it goes on but calls that run already."
	case tool.WhatToSay:
		w.Waits = fmt.Sprintf("It waits for a person: %s asks %s", call.Tool, cut(visible(string(call.Arguments)), shortArgs))
		w.Next = "What you say becomes the call's result; then the turn goes on."
	case tool.WhatHappened:
		w.Waits = fmt.Sprintf("It waits for a person: what became of %s with %s? (%s)", call.Tool, cut(visible(string(call.Arguments)), shortArgs), line(why, shownLine))
		w.Next = "The answer becomes the call's result, or the call runs again; then the turn goes on."
	}
	if n > 1 {
		w.Waits += fmt.Sprintf(" And %s.", count(n-1, "more question", "more questions"))
	}
	w.MovedBy = fmt.Sprintf("You can answer: %s.", a.answerLine(q))
}

func (a *app) waitsForWork(w *reason, v world.View) {
	var due []string
	for _, j := range v.Jobs {
		due = append(due, strings.ReplaceAll(j.Work, "_", " ")+" at "+shortIDs(string(j.Path)))
	}
	w.Waits = fmt.Sprintf("It was cut off: its process ended while this was due: %s.", strings.Join(due, ", "))
	w.MovedBy = fmt.Sprintf("You can let it go on: `%s`.", a.command("resume %s", v.Log))
	w.Next = "A model call is made again; a call that only reads is done again; one whose effect may have happened is asked about."
}

func (a *app) rests(w *reason, v world.View) {
	waiting := ""
	if n := len(v.Waiting); n > 0 {
		waiting = " " + count(n, "message waits", "messages wait") + "."
	}
	switch v.State {
	case "paused":
		w.Waits = "It waits for nobody: it was paused." + waiting
		w.MovedBy = fmt.Sprintf("You can let it go on: `%s`.", a.command("resume %s", v.Log))
		w.Next = "What the pause cut off goes on, then the waiting messages get their turns."
	case "suspended":
		w.Waits = fmt.Sprintf("It waits for nobody: it was suspended (%s).%s", line(or(v.Why, "no reason given"), shownLine), waiting)
		w.MovedBy = fmt.Sprintf("Once the cause is gone you can let it go on: `%s`.", a.command("resume %s", v.Log))
		w.Next = "Its agent is made ready again and the waiting messages get their turns."
		if len(v.Runs) > 0 {
			w.Next = "Its workflow goes on where it was."
		}
	case "closed", "archived":
		w.Waits = "It waits for nobody: its log is sealed."
		w.MovedBy = fmt.Sprintf("You can archive it (`%s`) or begin a new one from it (`%s`).", a.command("archive %s", v.Log), a.command("fork %s", v.Log))
		w.Next = "Nothing more happens in it."
	default:
		w.Waits = "It waits for nobody: nothing is running and nothing is asked." + waiting
		w.MovedBy = fmt.Sprintf("You can say something: `%s`.", a.command("send %s TEXT", v.Log))
		w.Next = "Then the model answers in a new turn."
	}
}
