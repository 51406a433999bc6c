package world

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"stave/internal/model"
	"stave/internal/runelog"
)

// history is a second opinion: it reads nothing but runes, knows nothing of
// Step, Evolve or the laws, and says which promise a log breaks.
type history struct {
	seq      uint64
	at       map[string]string // state of everything alive, by path
	turns    map[string]*turnFacts
	calls    map[string]*callFacts
	config   map[string]any
	lastTurn map[string]int // of each agent
	messages uint64
	consumed map[uint64]bool
	faults   []string
	now      runelog.Rune // being read
	books    books
	memory   map[string]bool // what was approved for calls to come

	runs    map[string]*runFacts
	stages  map[string]*stageFacts
	stageOf map[string]string // of the agents that are there
	parents map[string]string // of all agents
	rootID  string
}

type turnFacts struct {
	said     string
	attempt  int
	received map[string]int // calls of the present round with their group
	results  map[string]int // and how many results each has
	ended    int            // terminal runes
}

type callFacts struct {
	tool, safety, digest string
	group                int
	approved             bool
	runs, results        int
}

// payload is everything the promises below look at, of all kinds.
type payload struct {
	Config   map[string]any `json:"config"`
	Message  any            `json:"message"`
	Mode     string         `json:"mode"`
	InARow   int            `json:"in_a_row"`
	Number   int            `json:"number"`
	Content  string         `json:"content"`
	Attempt  int            `json:"attempt"`
	Partial  string         `json:"partial_output"`
	CallID   string         `json:"call_id"`
	CallIDs  []string       `json:"call_ids"`
	Groups   []int          `json:"groups"`
	Safety   string         `json:"safety"`
	Digest   string         `json:"args_digest"`
	Group    int            `json:"group"`
	Approver string         `json:"approver"`
	ToolName string         `json:"tool_name"`
	Tool     string         `json:"tool"`
	Scope    string         `json:"scope"`
	Of       string         `json:"digest"`
	Messages int            `json:"messages"`
	Status   string         `json:"status"`
	Reason   string         `json:"reason"`
	Bill     any            `json:"bill"`
	Root     string         `json:"root_agent_id"`
}

func newHistory() *history {
	return &history{
		at: map[string]string{}, turns: map[string]*turnFacts{}, calls: map[string]*callFacts{}, consumed: map[uint64]bool{},
		lastTurn: map[string]int{}, books: newBooks(), memory: map[string]bool{},
		runs: map[string]*runFacts{}, stages: map[string]*stageFacts{}, stageOf: map[string]string{}, parents: map[string]string{},
	}
}

// read returns the faults of a log.
func read(runes []runelog.Rune) *history {
	h := newHistory()
	for _, r := range runes {
		h.add(r)
	}
	return h
}

func (h *history) hold(promise string, kept bool) {
	if !kept {
		h.faults = append(h.faults, fmt.Sprintf("%s at rune %d (%s at %s)", promise, h.now.Seq, h.now.Kind, h.now.Path))
	}
}

var arrows = func() map[string]bool {
	all := map[string]bool{}
	for _, s := range Specs() {
		for _, t := range s.Transitions {
			all[fmt.Sprint(s.Name, t.From, t.To, t.Rune)] = true
		}
	}
	return all
}()

func (h *history) add(r runelog.Rune) {
	h.now = r
	var p payload
	var m money
	var sp stagePayload
	if json.Unmarshal(r.Payload, &p) != nil || json.Unmarshal(r.Payload, &m) != nil || json.Unmarshal(r.Payload, &sp) != nil {
		h.hold("INV-LOG-SCHEMA", false)
		return
	}
	name, parent := Path(r.Path).machine(), string(Path(r.Path).parent())
	from, alive := h.at[r.Path]
	if name == "turn" && !alive {
		from = "idle"
	}
	h.hold("INV-LOG-SEQ-DENSE", r.Seq == h.seq+1)
	h.hold("INV-SESSION-TRANSITION", (r.Seq == 1) == (r.Kind == "session.created"))
	h.hold("INV-TRANSITION", r.From == from && arrows[fmt.Sprint(name, r.From, r.To, r.Kind)])
	h.hold("INV-SESSION-SEALED", h.at["session"] != "archived" && (h.at["session"] != "closed" || r.Kind == "session.archived"))
	h.hold("INV-AGENT-SILENT-AFTER-END", parent == "" || h.at[parent] != "")
	h.hold("INV-CAUSE", r.Cause < r.Seq)
	if r.Seq == 1 && r.Kind == "session.created" || h.books.of["session"] != nil {
		h.account(r, m)
	}
	switch name {
	case "session":
		h.session(r, p)
	case "agent":
		h.agent(r, sp)
	case "workflow":
		h.workflow(r, sp)
	case "stage":
		h.stage(r, sp)
	case "turn":
		h.turn(r, p)
	case "tool":
		h.tool(r, p, parent)
	}
	h.seq, h.at[r.Path] = r.Seq, r.To
	if slices.Contains([]string{
		"tool.result", "turn.finalized", "agent.terminated", "agent.failed",
		"stage.exited", "stage.failed", "stage.cancelled", "workflow.completed", "workflow.failed", "workflow.cancelled",
	}, r.Kind) {
		delete(h.at, r.Path)
		delete(h.stageOf, r.Path)
		delete(h.turns, r.Path)
		delete(h.calls, r.Path)
	}
}

// under lists what lives below a path, or everywhere, of one machine.
func (h *history) under(path, name string) []string {
	var found []string
	for p := range h.at {
		if Path(p).machine() == name && (path == "" || strings.HasPrefix(p, path+"/")) {
			found = append(found, p)
		}
	}
	return found
}

func (h *history) session(r runelog.Rune, p payload) {
	number, _ := p.Message.(float64)
	message := uint64(number)
	switch r.Kind {
	case "session.created":
		h.config, h.rootID = p.Config, p.Root
	case "session.message_received":
		h.messages++
		h.hold("INV-TURN-INPUT-ONCE", message == h.messages)
	case "session.turn_admitted":
		ownIdea := message == 0 && p.Mode == "continue"
		h.hold("INV-TURN-INPUT-ONCE", ownIdea || message > 0 && message <= h.messages && !h.consumed[message])
		h.hold("INV-TURN-SEQUENTIAL", h.at[string(RootPath)] == "idle" && len(h.under(string(RootPath), "turn")) == 0)
		h.consumed[message] = true
	case "session.recovered":
		h.hold("INV-SESSION-RECOVERY-BOUND", p.InARow <= 3 || r.From != "active")
	case "session.remembered":
		h.hold("INV-APPR-HUMAN", strings.HasPrefix(r.By, "user:"))
		h.memory[p.Tool+"/"+p.Of] = true
	case "session.closed":
		h.hold("INV-SESSION-QUIESCE", len(h.at) == 1)
	}
}

func (h *history) agent(r runelog.Rune, p stagePayload) {
	switch r.Kind {
	case "agent.spawning":
		h.employed(r, p)
		s := h.at["session"]
		h.hold("INV-AGENT-TREE", s == "created" || s == "active" || r.Path != string(RootPath) && (s == "paused" || s == "suspended"))
	case "agent.terminated":
		h.hold("INV-AGENT-PARENT-CLOSE", len(h.under(r.Path, "turn"))+len(h.under(r.Path, "tool")) == 0)
	}
}

func (h *history) turn(r runelog.Rune, p payload) {
	t := h.turns[r.Path]
	if t == nil {
		t = &turnFacts{results: map[string]int{}}
		h.turns[r.Path] = t
	}
	switch r.Kind {
	case "turn.started":
		h.hold("INV-SESSION-PAUSED-NO-TURN", h.at["session"] == "active")
		h.hold("INV-TURN-SEQUENTIAL", len(h.under(string(Path(r.Path).parent()), "turn")) == 0)
		agent := string(Path(r.Path).parent())
		h.hold("INV-TURN-ORDER", p.Number > h.lastTurn[agent])
		h.lastTurn[agent], t.attempt = p.Number, 1
		h.request(agent)
	case "turn.compacted":
		h.hold("INV-TURN-COMPACT", p.Messages > 0 && len(t.received) == 0)
	case "turn.assistant_delta":
		t.said += p.Content
	case "turn.retried":
		h.hold("INV-TURN-ATTEMPT", p.Attempt == t.attempt+1 && len(t.received) == 0)
		t.attempt, t.said = p.Attempt, ""
	case "turn.tool_calls_received":
		h.hold("INV-TURN-CALLS-CLOSED", len(t.received) == 0)
		t.received, t.results = map[string]int{}, map[string]int{}
		for i, id := range p.CallIDs {
			t.received[id] = p.Groups[i]
		}
		t.said = ""
	case "turn.call_finished":
		h.hold("INV-TOOL-TERMINAL", t.results[p.CallID] == 1)
	case "turn.tools_finished":
		h.allAnswered(r.Path, t)
		t.attempt, t.received = 1, nil
		h.request(string(Path(r.Path).parent()))
	case "turn.completed", "turn.interrupted", "turn.error":
		t.ended++
		h.unasked(r, p)
		h.hold("INV-TURN-TERMINAL", t.ended == 1)
		h.allAnswered(r.Path, t)
		h.hold("INV-TURN-FINAL-EQ-DELTAS", r.Kind != "turn.interrupted" || r.From != "streaming" || p.Partial == t.said)
	case "turn.finalized":
		h.hold("INV-TURN-TERMINAL", t.ended == 1)
	}
}

// allAnswered holds that each call of the round has one result.
func (h *history) allAnswered(path string, t *turnFacts) {
	h.hold("INV-TURN-CALLS-CLOSED", len(h.under(path, "tool")) == 0)
	for id := range t.received {
		h.hold("INV-TOOL-TERMINAL", t.results[id] == 1)
	}
}

func (h *history) tool(r runelog.Rune, p payload, parent string) {
	c, t := h.calls[r.Path], h.turns[parent]
	if t == nil {
		t = &turnFacts{results: map[string]int{}}
	}
	if c == nil {
		c = &callFacts{}
		h.hold("INV-TOOL-CALL-BEFORE-RESULT", r.Kind == "tool.call")
		h.calls[r.Path] = c
	}
	h.hold("INV-TOOL-TERMINAL", c.results == 0 && p.CallID == Path(r.Path).Name())
	person := strings.HasPrefix(r.By, "user:")
	switch r.Kind {
	case "tool.call":
		group, expected := t.received[p.CallID]
		h.hold("INV-TOOL-CALL-OF-TURN", expected && group == p.Group && t.results[p.CallID] == 0)
		c.tool, c.safety, c.digest, c.group = p.ToolName, p.Safety, p.Digest, p.Group
	case "tool.approval_requested":
		h.hold("INV-TOOL-ARGS-FROZEN", p.Digest == c.digest)
	case "tool.approved":
		h.approved(r, p, c, t, person)
	case "tool.restarted":
		h.hold("INV-TOOL-RETRY-ONLY-SAFE", person || r.From == "executing" && c.safety != "side_effect")
	case "tool.result":
		c.results++
		t.results[p.CallID]++
		h.hold("INV-TOOL-TERMINAL", endOf[p.Status] == r.To)
		h.hold("INV-TOOL-UNKNOWN-EXPLICIT", r.From != "outcome_unknown" || person || p.Status == "unknown")
		h.hold("INV-APPR-TIMEOUT-DENIES", p.Status != "timeout" || r.From != "pending_call")
		h.hold("INV-APPR-HUMAN", r.From != "awaiting_approval" || p.Status != "success" || person && c.safety == "question")
	}
	if r.To == "executing" && r.Kind != "tool.progress" && r.Kind != "tool.reattached" {
		c.runs++
		h.hold("INV-TOOL-APPROVAL-BEFORE-EXEC", c.approved)
		h.hold("INV-TOOL-UNSAFE-AT-MOST-ONCE", c.runs == 1 || c.safety != "side_effect" || person)
	}
}

var endOf = map[string]string{
	"success": "completed_result", "error": "error_result", "timeout": "timeout_result",
	"cancelled": "cancelled_result", "denied": "denied", "unknown": "unknown_result",
}

func (h *history) approved(r runelog.Rune, p payload, c *callFacts, t *turnFacts, person bool) {
	c.approved = true
	s := h.at["session"]
	h.hold("INV-SESSION-PAUSED-NO-TURN", s == "active" || s == "closing")
	h.hold("INV-TOOL-ARGS-FROZEN", p.Digest == c.digest)
	h.hold("INV-APPR-HUMAN", p.Approver == r.By && person == (r.From == "awaiting_approval"))
	h.hold("INV-SESSION-MODE-FIXED", h.config["read_only"] != true || c.safety == "read_only")
	remembered := h.memory[c.tool+"/"] || h.memory[c.tool+"/"+c.digest]
	h.hold("INV-SESSION-MODE-FIXED", h.granted(r, c.tool, person) || h.config["mode"] == "yolo" || person || c.safety == "read_only" || remembered)
	h.hold("INV-APPR-QUESTION", c.safety != "question")
	for id, group := range t.received {
		h.hold("INV-TOOL-PARALLEL-SAFE", group >= c.group || t.results[id] == 1)
	}
}

// rest holds what must be true once nothing is running.
func (h *history) rest() {
	open := slices.Concat(h.under("", "turn"), h.under("", "tool"))
	if h.at["session"] == "active" {
		open = slices.Concat(open, h.under("", "stage"), h.under("", "workflow"), slices.Collect(maps.Keys(h.stageOf)))
	}
	if len(open) > 0 {
		h.faults = append(h.faults, fmt.Sprintf("INV-TURN-TERMINAL, INV-TOOL-TERMINAL at rest: %v of %v", open, slices.Sorted(maps.Keys(h.at))))
	}
	for path, s := range h.books.of {
		if s.held != (model.Amount{}) {
			h.faults = append(h.faults, fmt.Sprintf("INV-BUDGET-RESERVE at rest: %s holds %+v", path, s.held))
		}
	}
}
