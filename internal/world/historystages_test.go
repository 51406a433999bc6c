package world

import (
	"slices"
	"strings"

	"stave/internal/runelog"
)

// stageFacts is what a reader of the runes knows of a stage execution.
type stageFacts struct {
	completion         string
	cap, attempts      int
	attempt, requests  int // model requests of the present attempt
	tools              []string
	all, acted, output bool
}

// runFacts is what a reader knows of a run.
type runFacts struct {
	stages     map[string]int // by execution: how often it ended
	stopping   bool
	cap        int
	open       int
	mayOverlap bool
}

// stagePayload is what the promises about runs and stages look at.
type stagePayload struct {
	ID         string           `json:"stage_execution_id"`
	Stage      any              `json:"stage"`
	Cap        int              `json:"turn_cap"`
	Attempts   int              `json:"max_attempts"`
	Completion string           `json:"completion_tool"`
	Tools      []string         `json:"allowed_tools"`
	All        bool             `json:"all_tools"`
	Attempt    int              `json:"attempt"`
	Next       int              `json:"next_attempt"`
	Parallel   int              `json:"parallel_cap"`
	Execution  string           `json:"execution"`
	Stages     []map[string]any `json:"stages"`
	Parent     string           `json:"parent_id"`
	AgentID    string           `json:"agent_id"`
	Root       string           `json:"root_agent_id"`
}

func (h *history) workflow(r runelog.Rune, p stagePayload) {
	run := h.runs[r.Path]
	if run == nil {
		run = &runFacts{stages: map[string]int{}}
		h.runs[r.Path] = run
	}
	switch r.Kind {
	case "workflow.started":
		h.hold("INV-WORKFLOW-HUMAN", strings.HasPrefix(r.By, "user:") && (h.at["session"] == "active" || h.at["session"] == "created"))
		run.cap = p.Parallel
	case "workflow.confirmed":
		h.hold("INV-WORKFLOW-HUMAN", strings.HasPrefix(r.By, "user:"))
	case "workflow.stages_chosen":
		h.hold("INV-WORKFLOW-ORDER", run.open == 0 && !run.stopping)
		run.mayOverlap = p.Execution == "parallel"
	case "workflow.stage_begun":
		run.open++
		_, before := run.stages[p.ID]
		h.hold("INV-WORKFLOW-ORDER", !before && !run.stopping && r.From == "running")
		h.hold("INV-WORKFLOW-ORDER", run.open == 1 || run.mayOverlap && run.open <= run.cap)
		run.stages[p.ID] = 0
	case "workflow.stage_done":
		run.open--
		run.stages[p.ID]++
		h.hold("INV-WORKFLOW-ORDER", run.stages[p.ID] == 1)
	case "workflow.stopping":
		run.stopping = true
	case "workflow.completed", "workflow.failed", "workflow.cancelled":
		h.hold("INV-WORKFLOW-ORDER", run.open == 0 && len(h.under(r.Path, "stage")) == 0)
		for _, s := range h.stageOf {
			h.hold("INV-WORKFLOW-QUIET", !strings.HasPrefix(s, r.Path+"/"))
		}
		delete(h.runs, r.Path)
	}
}

func (h *history) stage(r runelog.Rune, p stagePayload) {
	s := h.stages[r.Path]
	if s == nil {
		s = &stageFacts{attempt: 1}
		h.stages[r.Path] = s
	}
	switch r.Kind {
	case "stage.begun":
		run := h.runs[string(Path(r.Path).parent())]
		ends, begun := -1, false
		if run != nil {
			ends, begun = run.stages[p.ID], true
		}
		h.hold("INV-WORKFLOW-ORDER", begun && ends == 0)
		s.completion, s.cap, s.attempts = p.Completion, p.Cap, p.Attempts
	case "stage.prepared":
		s.tools, s.all = p.Tools, p.All
	case "stage.act_started":
		h.hold("INV-STAGE-ATTEMPT", p.Attempt == s.attempt && !s.acted)
		s.acted = true
	case "stage.completion_accepted":
		h.hold("INV-STAGE-ONE-RESULT", !s.output)
		s.output = true
	case "stage.retried":
		h.hold("INV-STAGE-ATTEMPT", p.Next == s.attempt+1 && p.Next <= s.attempts)
		s.attempt, s.requests, s.acted, s.output = p.Next, 0, false, false
	case "stage.exited", "stage.failed", "stage.cancelled":
		for _, at := range h.stageOf {
			h.hold("INV-STAGE-AGENT", at != r.Path)
		}
		delete(h.stages, r.Path)
	}
}

// employed notes whom an agent works for.
func (h *history) employed(r runelog.Rune, p stagePayload) {
	switch {
	case r.Path == string(RootPath):
	case p.Parent == h.rootID:
		h.parents[r.Path] = string(RootPath)
	default:
		h.parents[r.Path] = "agent:" + p.Parent
	}
	at, _ := p.Stage.(string)
	if at == "" {
		return
	}
	s := h.stages[at]
	h.hold("INV-STAGE-AGENT", h.at[at] == "act" && s != nil && !slices.Contains(h.agentsOf(at), r.Path))
	h.stageOf[r.Path] = at
}

func (h *history) agentsOf(stage string) []string {
	var list []string
	for a, s := range h.stageOf {
		if s == stage {
			list = append(list, a)
		}
	}
	return list
}

// request counts a model request of a stage's agent.
func (h *history) request(agent string) {
	if s := h.stages[h.stageOf[agent]]; s != nil {
		s.requests++
		h.hold("INV-STAGE-TURN-CAP", s.requests <= s.cap)
	}
}

// unasked takes back a request that a stop of the conversation left without an
// answer.
func (h *history) unasked(r runelog.Rune, p payload) {
	stopped := p.Reason == "pause" || p.Reason == "suspended" || strings.HasPrefix(p.Reason, "budget: ")
	s := h.stages[h.stageOf[string(Path(r.Path).parent())]]
	if s != nil && r.Kind == "turn.interrupted" && r.From == "streaming" && p.Bill == nil && stopped {
		s.requests--
	}
}

// envelope returns the stage that has a say in what an agent does, nil for none.
func (h *history) envelope(agent string) *stageFacts {
	for range maxDepth + 1 { // a broken log may go round in circles
		if at := h.stageOf[agent]; at != "" {
			return h.stages[at]
		}
		agent = h.parents[agent]
	}
	return nil
}

// granted holds that in a stage its tools run by its own word or a person's, and
// everything else by a person's alone. It reports whether a stage had a say.
func (h *history) granted(r runelog.Rune, tool string, person bool) bool {
	s := h.envelope(string(AgentOf(Path(r.Path))))
	if s == nil {
		h.hold("INV-STAGE-ENVELOPE", !strings.HasPrefix(r.By, "stage:"))
		return false
	}
	inside := s.all || tool == s.completion || slices.Contains(s.tools, tool)
	h.hold("INV-STAGE-ENVELOPE", person || inside && (strings.HasPrefix(r.By, "stage:") || r.By == "rule:remembered"))
	return true
}
