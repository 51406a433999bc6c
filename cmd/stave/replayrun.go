package main

import (
	"fmt"
	"strings"

	"stave/internal/machine"
	"stave/internal/machine/stage"
	run "stave/internal/machine/workflow"
)

func storyOfRun(e machine.Event) string {
	switch e := e.(type) {
	case run.Started:
		return fmt.Sprintf("the workflow %s begins: %s", e.Name, line(e.Task, shownLine))
	case run.StagesChosen:
		if e.After == "" {
			return "first: " + chosen(e)
		}
		return fmt.Sprintf("after %s: %s", e.After, chosen(e))
	case run.StageBegun:
		return fmt.Sprintf("%s may begin, visit %d", e.Stage, e.Visit)
	case run.StageDone:
		text := fmt.Sprintf("%s is over: %s, %s", e.Result.Stage, e.Result.Status, count(e.Result.Turns, "turn", "turns"))
		if e.Error != "" {
			text += ": " + line(e.Error, shownLine)
		}
		return text
	case run.NextDue:
		return fmt.Sprintf("the rules of %s are to say what follows", e.Stage)
	case run.DefinitionChanged:
		return "its definition was changed after it began"
	case run.DefinitionRestored:
		return "its definition is again the one it began with"
	case run.Confirmed:
		return "goes on by the definition it began with, says " + line(e.By, shownLine)
	case run.Stopping:
		return "stopping: " + line(e.Reason, shownLine)
	case run.Completed:
		return fmt.Sprintf("the workflow %s is completed: %s", e.Name, count(len(e.Results), "stage", "stages"))
	case run.Failed:
		return fmt.Sprintf("the workflow %s failed: %s", e.Name, line(e.Error, shownLine))
	case run.Cancelled:
		return fmt.Sprintf("the workflow %s is cancelled: %s", e.Name, line(e.Reason, shownLine))
	}
	return ""
}

func storyOfStage(e machine.Event) string {
	switch e := e.(type) {
	case stage.Begun:
		return fmt.Sprintf("%s begins: at most %s, %s, ends with %s", e.Stage, count(e.TurnCap, "turn", "turns"), count(e.MaxAttempts, "attempt", "attempts"), e.Completion)
	case stage.Prepared:
		text := "may use " + orNone(e.Tools)
		if len(e.Dropped) > 0 {
			text += "; this conversation does not have " + strings.Join(e.Dropped, ", ")
		}
		return text
	case stage.Initialized:
		return "its prompt is written: " + gist(e.Prompt)
	case stage.GateChecked:
		return "its gate says " + e.Verdict
	case stage.Stopping:
		return "stopping: " + line(e.Reason, shownLine)
	case stage.Exited:
		if e.Result.Status == stage.Skip {
			return "skipped"
		}
		return "done after " + count(e.Result.Turns, "turn", "turns")
	case stage.Failed:
		return fmt.Sprintf("failed in %s: %s", e.Phase, line(e.Error, shownLine))
	case stage.Cancelled:
		return "cancelled: " + line(e.Reason, shownLine)
	}
	return storyOfAttempt(e)
}

func storyOfAttempt(e machine.Event) string {
	switch e := e.(type) {
	case stage.ActStarted:
		return fmt.Sprintf("attempt %d begins on a fresh transcript", e.Attempt)
	case stage.CompletionRejected:
		return "what it handed in does not fit: " + line(e.Error, shownLine)
	case stage.CompletionAccepted:
		return "what it handed in fits: " + brief(e.Payload)
	case stage.TurnTaken:
		return count(e.Requests, "turn", "turns") + " so far; it goes on later"
	case stage.Reminded:
		return fmt.Sprintf("stopped without a result and is reminded; %s left", count(e.Left, "turn", "turns"))
	case stage.ActEnded:
		switch {
		case e.Error != "":
			return "its agent could not go on: " + line(e.Error, shownLine)
		case e.CapHit:
			return "all its turns are used"
		}
		return "its work is done"
	case stage.Asserted:
		if e.Reason != "" {
			return fmt.Sprintf("judged %s: %s", e.Verdict, line(e.Reason, shownLine))
		}
		return "judged " + e.Verdict
	case stage.Retried:
		return fmt.Sprintf("attempt %d is to follow: %s", e.Next, line(e.Reason, shownLine))
	case stage.Reentered:
		return fmt.Sprintf("attempt %d", e.Attempt)
	}
	return ""
}
