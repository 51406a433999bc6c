package world

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"stave/internal/machine"
	"stave/internal/machine/agent"
	"stave/internal/machine/session"
	"stave/internal/machine/tool"
	"stave/internal/machine/turn"
	"stave/internal/model"
	"stave/internal/runelog"
)

// maxActions bounds a random life.
const maxActions = 60

// life is a random conversation: everybody does what they may, in any order.
type life struct {
	*tape
	calls     int  // minted so far
	onlyRaise bool // limits are raised, never set anew
}

func born(rt *rapid.T) *life {
	l := &life{tape: newTape()}
	cfg := session.Config{
		Mode:     rapid.SampledFrom([]string{"ask", "yolo"}).Draw(rt, "mode"),
		ReadOnly: rapid.IntRange(0, 9).Draw(rt, "read-only") == 0, MaxAttempts: 2, ErrorThreshold: 2, AnswerMs: 1000,
		MaxRequests: rapid.IntRange(0, 3).Draw(rt, "max requests"),
	}
	if rapid.Bool().Draw(rt, "limited") {
		cfg.Budget = someLimit(rt)
	}
	if _, err := l.tell(Message{Path: SessionPath, By: "user:ann", Command: session.Create{
		// Not agt_1: that is the agent of call_1.
		Created: session.Created{ConversationID: testLog, RootAgentID: "agt_root", Config: cfg},
	}}); err != nil {
		rt.Fatal(err)
	}
	return l
}

// act draws one thing that can happen now and lets it happen.
func (l *life) act(rt *rapid.T) error {
	options := l.options(rt)
	if len(options) == 0 {
		return nil // in the archive
	}
	m := options[rapid.IntRange(0, len(options)-1).Draw(rt, "action")]
	l.clock += 10
	if m.Command == nil {
		_, err := l.crash(rapid.Bool().Draw(rt, "headless"))
		return err
	}
	if _, err := l.tell(m); err != nil {
		return fmt.Errorf("%s %T: %w", m.Path, m.Command, err)
	}
	return nil
}

// options lists what can happen now; the zero message is a crash.
func (l *life) options(rt *rapid.T) []Message {
	var list []Message
	add := func(p Path, by, job string, commands ...machine.Command) {
		for _, c := range commands {
			list = append(list, Message{Path: p, By: by, Job: job, Command: c})
		}
	}
	for _, j := range l.Jobs() {
		add(j.Path, engineName, j.ID, l.reports(rt, j)...)
	}
	for _, q := range l.Questions() {
		add(q.Path, engineName, "", machine.Late{})
		for _, verb := range q.Choices {
			add(q.Path, "user:bob", "", l.answers(rt, q.Path, verb)...)
		}
	}
	l.agents(rt, add)
	l.runs(rt, add)
	if seldom(rt, 4) {
		list = append(list, Message{})
	}
	for _, p := range l.paths("turn", "") {
		if seldom(rt, 4) {
			add(p, "user:ann", "", turn.Interrupt{})
		}
	}
	if s := l.State(RootPath); (s == "idle" || s == "running_turn") && seldom(rt, 20) {
		add(RootPath, engineName, "", agent.ExhaustBudget{Limit: "tokens"})
	}
	for _, verb := range mustNode(l.World, SessionPath).Possible(true) {
		switch verb {
		case "say":
			add(SessionPath, "user:ann", "", session.Say{Text: "do"}, session.Say{Text: "now", Mode: "steer"}, session.Say{Text: "try", Headless: true})
		case "set_budget":
			add(SessionPath, "user:ann", "", session.SetBudget{Limit: l.newLimit(rt), Reconcile: rapid.Bool().Draw(rt, "reconcile")})
		case "switch_model":
			add(SessionPath, "user:ann", "", session.SwitchModel{Model: rapid.SampledFrom([]string{"small", "large"}).Draw(rt, "model")})
		case "rewind":
			if !l.Session().Running && len(l.Runs()) == 0 && len(l.paths("agent", "")) < 2 && seldom(rt, 4) {
				add(SessionPath, "user:ann", "", session.Rewind{Seq: rapid.Uint64Range(1, l.seq).Draw(rt, "back to")})
			}
		case "close", "stop", "pause":
			if !seldom(rt, 20) {
				continue
			}
			fallthrough
		default:
			t, _ := commandType("session", verb)
			add(SessionPath, "user:ann", "", reflect.Zero(t).Interface())
		}
	}
	return list
}

func seldom(rt *rapid.T, one int) bool { return rapid.IntRange(1, one).Draw(rt, "seldom") == one }

func mustNode(w *World, p Path) node {
	n, ok := w.find(p)
	if !ok {
		panic("nothing at " + p)
	}
	return n
}

// reports are the ways the job can go on or end.
func (l *life) reports(rt *rapid.T, j Job) []machine.Command {
	if list := l.phases(rt, j); list != nil {
		return list
	}
	switch j.Work.(type) {
	case turn.CallModel:
		if c := reserve(l.World, j); c != nil {
			return []machine.Command{c, c, c, turn.Fail{Type: "unreachable", Retryable: true, Free: true}}
		}
		bill := someBill(rt, data[turn.Data](l.World, j.Path).Held)
		text := rapid.SampledFrom([]string{"", "a", "\"q\"\n", "é世"}).Draw(rt, "text")
		return []machine.Command{
			turn.Delta{Text: text},
			turn.Delta{Text: text, Reasoning: "hm", ItemDone: true},
			turn.Finish{Output: []model.Part{{Text: text}}, Stop: model.StopEnd, Bill: bill},
			turn.Fail{Type: "overloaded", Retryable: true, Free: true},
			turn.Fail{Type: "stream", Retryable: true},
			turn.Fail{Type: "auth", Free: text == ""},
			turn.Compact{Compacted: turn.Compacted{Messages: rapid.IntRange(1, 9).Draw(rt, "cut"), Summary: "so far", Bill: bill}},
			machine.Late{},
			l.someCalls(rt, text, bill),
			l.someCalls(rt, text, bill),
			l.someCalls(rt, text, bill),
			l.someCalls(rt, text, bill),
		}
	case tool.RunTool:
		ok := tool.Succeed{Output: tool.Output{Text: "ok"}}
		return []machine.Command{
			ok, ok, ok,
			tool.Report{Chunk: "out"},
			tool.Reattach{},
			tool.Report{Intent: []byte(`{"n":1}`)},
			tool.Fail{Error: "no", Output: tool.Output{Text: "half"}},
			tool.Expire{},
			tool.Crash{Error: "broken"},
			tool.Doubt{Known: "little"},
			machine.Late{},
		}
	}
	if seldom(rt, 10) {
		return []machine.Command{agent.FailInit{Error: "no"}, machine.Late{}}
	}
	return []machine.Command{agent.BecomeReady{}}
}

func (l *life) someCalls(rt *rapid.T, text string, bill turn.Bill) turn.ReceiveToolCalls {
	c := turn.ReceiveToolCalls{Bill: bill}
	if text != "" {
		c.Output = []model.Part{{Text: text}}
	}
	for _, name := range rapid.SliceOfN(rapid.SampledFrom(slices.Sorted(maps.Keys(workshop))), 1, 4).Draw(rt, "calls") {
		l.calls++
		c.Calls = append(c.Calls, proposal(fmt.Sprintf("call_%d:%s", l.calls, name)))
	}
	return c
}

// TestRandomLives shows that whatever people, models, tools, budgets and crashes
// do: every message that may be sent is taken, no promise is broken, replay gives
// the same world, and in the end everything that was begun has ended.
func TestRandomLives(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := born(rt)
		replica, told, h := New(testLog), 0, newHistory()
		catchUp := func() {
			for _, r := range l.runes()[told:] {
				if err := replica.Fold(r); err != nil {
					rt.Fatal(err)
				}
				h.add(r)
				told++
			}
			if err := h.books.differs(l.World); err != nil {
				rt.Fatalf("%v\n%s", err, tail(l.tape))
			}
			if h.faults != nil {
				rt.Fatalf("%s\n%s", strings.Join(h.faults, "\n"), tail(l.tape))
			}
		}
		for range rapid.IntRange(1, maxActions).Draw(rt, "actions") {
			if err := l.act(rt); err != nil {
				rt.Fatalf("%v\n%s", err, tail(l.tape))
			}
			catchUp()
			checkView(rt, l.World)
		}
		mustEqualRapid(rt, l.World, replica)
		if err := trusting.rest(l.tape); err != nil {
			rt.Fatalf("%v\n%s", err, tail(l.tape))
		}
		catchUp()
		if h.rest(); h.faults != nil {
			rt.Fatalf("%v", h.faults)
		}
	})
}

func mustEqualRapid(rt *rapid.T, a, b *World) {
	x, errX := a.Save()
	y, errY := b.Save()
	if errX != nil || errY != nil || string(x) != string(y) {
		rt.Fatalf("live and replayed differ (%v, %v):\n%s\n%s", errX, errY, x, y)
	}
}

// checkView shows that the view agrees with what is due.
func checkView(rt *rapid.T, w *World) {
	v, meta := w.View(), w.Meta(1, 2)
	if len(v.Jobs) != len(w.Jobs()) || len(v.Questions) != len(w.Questions()) || len(v.Machines) != len(w.live) || v.Seq != w.Seq() {
		rt.Fatalf("the view is of another world: %+v", v)
	}
	want := ""
	switch {
	case len(v.Questions) > 0:
		want = "person"
	case len(v.Jobs) > 0:
		want = "work"
	}
	if meta.WaitsFor != want || meta.State != string(v.State) || meta.Seq != w.Seq() || meta.Log != testLog {
		rt.Fatalf("the listing says %+v, want it to wait for %q", meta, want)
	}
}

// anything sends commands nobody should: any command of any machine to any path,
// filled with anything, signed by anyone.
func anything(rt *rapid.T) {
	l := born(rt)
	replica, told := New(testLog), 0
	for range rapid.IntRange(1, maxActions).Draw(rt, "messages") {
		if rapid.IntRange(0, 2).Draw(rt, "sense") > 0 {
			_ = l.act(rt) // strange worlds may refuse sensible things
		} else {
			m := nonsense(rt, l.World)
			if _, err := l.tell(m); err != nil && !explained(err) {
				rt.Fatalf("%s %+v: %v", m.Path, m.Command, err)
			}
		}
		for _, r := range l.runes()[told:] {
			if err := replica.Fold(r); err != nil {
				rt.Fatalf("it wrote what replay refuses: %v\n%s", err, tail(l.tape))
			}
			told++
		}
	}
	mustEqualRapid(rt, l.World, replica)
}

// explained reports whether an error is one that a sender can understand.
func explained(err error) bool {
	var refusal *machine.Refusal
	var violation *Violation
	return errors.As(err, &refusal) || errors.As(err, &violation) || errors.Is(err, ErrStale) ||
		errors.Is(err, runelog.ErrConflict) || strings.Contains(err.Error(), "there is no machine at")
}

func nonsense(rt *rapid.T, w *World) Message {
	paths := []Path{SessionPath, RootPath, "agent:two", "session:two", RootPath.turn(1), RootPath.turn(7), RootPath.turn(1).tool("call_1"), "stage:1", "workflow:x", "workflow:x/stage:x.1", "", "a/b:c"}
	p := rapid.SampledFrom(append(paths, w.sorted()...)).Draw(rt, "path")
	name := p.machine()
	if boxes[name] == nil || rapid.IntRange(0, 4).Draw(rt, "other machine") == 0 {
		name = rapid.SampledFrom(RoomOrder).Draw(rt, "machine")
	}
	c := reflect.New(rapid.SampledFrom(commandsOf(name)).Draw(rt, "command")).Elem()
	fill(rt, c)
	return Message{
		Path: p, Command: c.Interface(), By: rapid.SampledFrom([]string{"user:ann", "engine", "", "agent:agt_1"}).Draw(rt, "by"),
		Job: rapid.SampledFrom([]string{"", "", "agent:root#1", "agent:root/turn:1#1.1"}).Draw(rt, "job"),
	}
}

// fill sets every field to something.
func fill(rt *rapid.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(rt, v.Field(i))
		}
	case reflect.String:
		v.SetString(rapid.SampledFrom([]string{"", "x", "agt_root", "agt_1", "turn_1", "call_1", "read", "pause", "steer", "success", "allow"}).Draw(rt, "text"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(rt, "flag"))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.Int64Range(-1, 3).Draw(rt, "number"))
	case reflect.Uint64:
		v.SetUint(rapid.Uint64Range(0, 3).Draw(rt, "number"))
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(`{"k":1}`))
			return
		}
		n := rapid.IntRange(0, 3).Draw(rt, "length")
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fill(rt, v.Index(i))
		}
	}
}

// TestAnything shows that no message, however strange, makes the world panic,
// write what replay refuses, or answer with what nobody understands.
func TestAnything(t *testing.T) { rapid.Check(t, anything) }

// FuzzAnything is TestAnything with coverage to guide it.
func FuzzAnything(f *testing.F) { f.Fuzz(rapid.MakeFuzz(anything)) }
