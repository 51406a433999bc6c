package crash

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// plan is a generated workflow with how the model plays it, and what a run of it
// must come to.
type plan struct {
	file, script string // where both are
	steps        []*step
	fails        string // the stage that takes the run with it, "" for none
	holds        bool   // a stage runs a command that is mostly cancelled
	atOnce       int    // effects that may be at work at the same time
}

// step is one stage of a plan.
type step struct {
	name     string
	attempts int  // as many are made
	bad      bool // and not even the last of them passes
	holds    bool // its command takes so long that the stage ends it
	strays   bool // it tries a tool that it does not have
	next     any
}

type object = map[string]any

const (
	// task is what every run is told; prompts repeat it.
	task = "do it all, and each of it once"
	// heldSeconds is how long a command lives that is to be cancelled: longer than
	// its sibling takes to fail.
	heldSeconds = 50
)

// newPlan draws a workflow and writes it to a directory.
func newPlan(rng *rand.Rand, dir string) (*plan, error) {
	p := &plan{file: filepath.Join(dir, "workflow.yaml"), script: filepath.Join(dir, "model.yaml"), atOnce: 1}
	names := []string{"Plan", "Build", "Test", "Report"}
	for i, name := range names {
		p.steps = append(p.steps, &step{name: name, attempts: 1 + rng.IntN(4)/3, strays: i == 0 && rng.IntN(2) == 0})
	}
	beginning, left, right, last := p.steps[0], p.steps[1], p.steps[2], p.steps[3]
	switch rng.IntN(5) {
	case 0: // one leads to the next
		beginning.next, left.next, right.next = left.name, right.name, last.name
	case 1: // a row that the first stage chose
		beginning.next, right.next = object{"stages": names[1:3], "execution": "sequential"}, last.name
	case 2: // a failure in the middle
		beginning.next, left.next, right.next = left.name, right.name, last.name
		p.fail(right)
	case 3: // a failure beside something that takes longer
		beginning.next = object{"stages": names[1:3], "execution": "parallel", "join": last.name}
		right.holds, p.holds = true, true
		p.fail(left)
	default: // side by side
		beginning.next = object{"stages": names[1:3], "execution": "parallel", "join": last.name}
		p.atOnce = 2
	}
	return p, errors.Join(write(p.file, p.workflow()), write(p.script, p.scenes()))
}

func (p *plan) fail(s *step) { s.attempts, s.bad, p.fails = 2, true, s.name }

// write puts down JSON, which is YAML too.
func write(name string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return os.WriteFile(name, text, 0o600)
}

func (p *plan) workflow() object {
	var stages []object
	for _, s := range p.steps {
		stage := object{
			"id": s.name, "body": "STAGE " + s.name + " attempt {{ctx.attempt}}: {{ctx.task}}",
			"allowedTools": []string{"Bash", "Write"}, "completionTool": s.completion(), "turnCap": 30,
			"completionSchema": object{
				"type": "object", "required": []string{"attempt", "good"}, "additionalProperties": false,
				"properties": object{"attempt": object{"type": "integer"}, "good": object{"type": "boolean"}},
			},
			"retryPolicy": object{"maxAttempts": max(s.attempts, 2), "backoff": "fixed", "delay": "20ms"},
			"assert":      "result.output.good",
		}
		if s.next != nil {
			stage["next"] = s.next
		}
		stages = append(stages, stage)
	}
	return object{"id": "generated", "stages": stages}
}

func (s *step) completion() string { return "submit_" + strings.ToLower(s.name) }

// scenes are what the model says: the system prompt of a stage tells which of
// them is played.
func (p *plan) scenes() object {
	var scenes []object
	for _, s := range p.steps {
		for i := range s.attempts {
			scenes = append(scenes, object{"system": fmt.Sprintf("STAGE %s attempt %d:", s.name, i+1), "replies": s.replies(i + 1)})
		}
	}
	return object{"scenes": scenes}
}

func (s *step) replies(attempt int) []object {
	const often = 100 // a crash loop makes the model begin its answers anew
	bash := toolCall("Bash", object{"command": fmt.Sprintf("id=%s; . ./effect", s.effect(attempt))})
	if s.holds {
		bash = toolCall("Bash", object{"command": fmt.Sprintf("exec 9>alive; sleep %d", heldSeconds)})
	}
	list := []object{{"text": "First the command of " + s.name, "chunk": 8, "pace": "4ms", "calls": []object{bash}}}
	if s.strays {
		list = append(list, object{"calls": []object{toolCall("Edit", object{"path": "seed.txt", "old_string": "seed", "new_string": "weed"})}})
	}
	hand := toolCall(s.completion(), object{"attempt": attempt, "good": attempt == s.attempts && !s.bad})
	return append(list,
		object{"calls": []object{toolCall("Write", object{"path": s.output(), "content": s.effect(attempt)})}},
		object{"text": "Now it is done.", "calls": []object{hand}, "times": often})
}

func toolCall(tool string, args object) object { return object{"tool": tool, "args": args} }

// effect names what an attempt leaves in the ledger.
func (s *step) effect(attempt int) string { return fmt.Sprintf("%s-%d", s.name, attempt) }

// output is the file that an attempt leaves.
func (s *step) output() string { return "notes/" + s.name + ".txt" }

// reached are the stages that a run must have ended by itself, in order.
func (p *plan) reached() []*step {
	for i, s := range p.steps {
		if s.name == p.fails {
			return p.steps[:i+1]
		}
	}
	return p.steps
}
