package world

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"stave/internal/machine/agent"
	"stave/internal/machine/stage"
	"stave/internal/machine/tool"
	"stave/internal/machine/turn"
	"stave/internal/machine/workflow"
	"stave/internal/model"
)

const talkedAndPlanned = talking + "turn finish text=\"the root says hello\"\n" +
	"workflow:r start stages=Plan:3:2 name=codeReview\nPlan acts tools=read\n" +
	"Plan/turn receive_tool_calls text=\"the first plan\" calls=a:read\nPlan/a succeed text=\"a file of the plan\"\n" +
	"Plan/turn finish text=\"I stop here\"\nPlan/turn interrupt\nPlan assert verdict=retry\nPlan again\n" +
	"Plan acts tools=read\nPlan/turn receive_tool_calls text=\"the second plan\" calls=b:hand\nPlan/b succeed\nPlan assert verdict=ok\n" +
	"workflow:r choose stages=\"Test Lint\" execution=parallel join=Review after=Plan\n" +
	"Test acts tools=read\nLint acts tools=read\n" +
	"Test/turn receive_tool_calls text=\"the tests\" calls=c:hand\nTest/c succeed\nTest assert verdict=ok\n" +
	"Lint/turn receive_tool_calls text=\"the linter\" calls=d:hand\nLint/d succeed\nLint assert verdict=ok\n"

// heardBy is the transcript of an agent.
func heardBy(t *testing.T, at *tape, agent Path) string {
	t.Helper()
	tr := NewTranscript(agent)
	for _, r := range at.runes() {
		if err := tr.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := paired(tr.Messages()); err != nil {
		t.Errorf("%s: %v", agent, err)
	}
	return text(tr.Messages())
}

// TestStageTranscripts shows that no stage and no attempt hears another's words or
// the conversation's, and that the conversation hears only what came of the run.
func TestStageTranscripts(t *testing.T) {
	at := begin(t, talkedAndPlanned)
	words := map[Path][]string{
		RootPath:               {"user: hi\n", "the root says hello"},
		"agent:stg_r_Plan_1_1": {"the first plan", "a file of the plan", "I stop here", "You stopped without calling hand", "1 turns are left"},
		"agent:stg_r_Plan_1_2": {"the second plan"},
		"agent:stg_r_Test_1_1": {"the tests"},
		"agent:stg_r_Lint_1_1": {"the linter"},
	}
	for speaker, said := range words {
		for _, phrase := range said {
			for hearer := range words {
				if heard := strings.Contains(heardBy(t, at, hearer), phrase); heard != (hearer == speaker) {
					t.Errorf("%q of %s, heard by %s: %t\n%s", phrase, speaker, hearer, heard, heardBy(t, at, hearer))
				}
			}
		}
	}
	for agent := range words {
		begins := "user: Do the work that is described above."
		if first := heardBy(t, at, agent); agent != RootPath && !strings.HasPrefix(first, begins) {
			t.Errorf("%s begins with %s", agent, first)
		}
	}
}

// TestConversationHearsOfRuns shows what the root agent is told of a run, and that
// a rewind keeps it unless it goes back behind it.
func TestConversationHearsOfRuns(t *testing.T) {
	for _, c := range []struct{ end, want string }{
		{"Review acts tools=read\nReview/turn receive_tool_calls calls=e:hand\nReview/e succeed\nReview assert verdict=ok\nworkflow:r choose\n", "[The workflow codeReview completed]\nPlan (ok): {\"of\":\"b\"}\nTest (ok): {\"of\":\"c\"}\nLint (ok): {\"of\":\"d\"}\nReview (ok): {\"of\":\"e\"}\n"},
		{"Review break error=\"no rule\"\n", "[The workflow codeReview failed]\nstage Review failed: no rule\n"},
		{"workflow:r cancel reason=\"no more\"\n", "[The workflow codeReview cancelled]\nno more\n"},
	} {
		at := begin(t, talkedAndPlanned+c.end)
		before := heardBy(t, begin(t, talkedAndPlanned), RootPath)
		if got := heardBy(t, at, RootPath); got != before+"user: "+c.want {
			t.Errorf("%s", got)
		}
		last := at.seq
		back := begin(t, talkedAndPlanned+c.end+fmt.Sprintf("session rewind seq=%d\n", last))
		if got := heardBy(t, back, RootPath); got != before+"user: "+c.want {
			t.Errorf("rewound to %d:\n%s", last, got)
		}
		back = begin(t, talkedAndPlanned+c.end+"session rewind seq=15\n")
		if got := heardBy(t, back, RootPath); strings.Contains(got, "workflow") {
			t.Errorf("rewound behind it:\n%s", got)
		}
	}
}

// TestRunTextIsCut shows that a conversation is not flooded by what a run hands in.
func TestRunTextIsCut(t *testing.T) {
	got := runEnded("r", "n", "completed", strings.Repeat("é", maxRunText))
	text := fmt.Sprint(got[0].cmd)
	if len(text) > maxRunText+200 || !strings.Contains(text, "é … (cut)") {
		t.Errorf("%d bytes, ending in %q", len(text), text[len(text)-30:])
	}
}

// TestRunView shows where a run stands as people look at it: requests of a stage
// are those of its own agent, before, while and after it acts.
func TestRunView(t *testing.T) {
	for _, c := range []struct {
		lines string
		want  string
	}{
		{"Plan prepare\n", "Plan init 0/3 agent=\"\""},
		{"Plan acts tools=read\n", "Plan act 1/3 agent=\"stg_r_Plan_1_1\""},
		{"Plan acts tools=read\nPlan/turn receive_tool_calls calls=a:read\nPlan/a succeed\n", "Plan act 2/3 agent=\"stg_r_Plan_1_1\""},
		{"Plan acts tools=read\nPlan/turn finish text=x\n", "Plan act 2/3 agent=\"stg_r_Plan_1_1\""},
		{"Plan acts tools=read\nPlan/turn receive_tool_calls calls=a:hand\nPlan/a succeed\n", "Plan assert 1/3 agent=\"stg_r_Plan_1_1\""},
	} {
		// The root agent is in a turn of its own all the time.
		v := begin(t, talking+"workflow:r start stages=Plan:3:2\n"+c.lines).View()
		s := v.Runs[0].Stages[0]
		if got := fmt.Sprintf("%s %s %d/%d agent=%q", s.Stage, s.State, s.Turns, s.TurnCap, s.Agent); got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.lines, got, c.want)
		}
	}
	v := begin(t, fanned).View().Runs[0]
	if len(v.Stages) != 2 || !slices.Equal(v.Waiting, []string{"Last"}) || len(v.Results) != 1 || v.Name != "codeReview" || v.Task != "tidy up" {
		t.Errorf("%+v", v)
	}
}

// TestStageAgents shows who the agents of stages are to the engine: their prompt,
// their model, their envelope.
func TestStageAgents(t *testing.T) {
	w := begin(t, acting).World
	at := Path("agent:stg_r_Plan_1_1/turn:1")
	if who := w.Agent(at); who.System != "You are Plan." || who.Stage != stagePlan || who.Depth != 1 {
		t.Errorf("%+v", who)
	}
	call := proposal("a:write")
	steps := w.Explain(at, toolCall(call))
	if steps[1].Name != "stage" || steps[1].Said.Grant.ExecutionID != "r.Plan.1" || steps[1].Said.Grant.Attempt != 1 {
		t.Errorf("%+v", steps[1])
	}
	if steps := w.Explain(RootPath, toolCall(call)); steps[1].Said.Answer != "" {
		t.Errorf("the root agent is in a stage: %+v", steps[1])
	}
	d, run := w.Stage(stagePlan)
	if d.Stage != "Plan" || run.RunID != "r" || w.Run("workflow:r").RunID != "r" || !slices.Equal(w.Runs(), []Path{"workflow:r"}) {
		t.Errorf("%+v %+v", d, run)
	}
}

func toolCall(p turn.Proposal) tool.Call {
	return tool.Call{CallID: p.CallID, Tool: p.Tool, Arguments: p.Args, Digest: p.Digest, Safety: p.Safety}
}

// TestNoAgent shows that a stage whose agent would break a law ends its attempt
// with the reason instead of waiting for ever.
func TestNoAgent(t *testing.T) {
	under := func(parent string) string {
		return "\nworkflow:r start stages=Plan parent_id=" + parent + "\nPlan prepare\nPlan initialize prompt=x\nPlan gate verdict=proceed\n"
	}
	for _, c := range []struct{ lines, want string }{
		{ready + under("agt_x"), "the agent it would work under is gone"},
		{talking + "root kill reason=x" + under("agt_1"), "the agent it would work under is ending"},
		{"session create mode=ask budget=agents:1\nroot become_ready\nagent:agt_a spawn" + under("agt_1"), "budget: agents"},
		{tower(maxDepth) + under("agt_d8"), "it would be agent number 9 in a row, at most 8 may be"},
		{parented + under("agt_a"), "it would have more tools than its parent"},
	} {
		w := begin(t, c.lines).World
		if d := data[stage.Data](w, stagePlan); w.State(stagePlan) != "assert" || d.Error != c.want {
			t.Errorf("%s: %q, want %q", w.State(stagePlan), d.Error, c.want)
		}
	}
}

// TestReminderFindsRoom shows that an agent with all the tasks it can hold is not
// reminded as well: it goes on with those.
func TestReminderFindsRoom(t *testing.T) {
	at := begin(t, planned+"Plan acts tools=read\n")
	for range agent.MaxTasks {
		at.must(t, "agent:stg_r_Plan_1_1", agent.Tell{Told: agent.Told{Text: "and this"}})
	}
	at.must(t, Path(planTurn), done(at.Jobs()[0].Work))
	if w := at.World; w.State("agent:stg_r_Plan_1_1") != "running_turn" || data[stage.Data](w, stagePlan).Used != 1 {
		t.Errorf("%s, %+v", w.State("agent:stg_r_Plan_1_1"), data[stage.Data](w, stagePlan))
	}
}

// TestRunBudgetHolds shows that the stages of a run share what it may use, also
// when the agent that holds it does not become ready.
func TestRunBudgetHolds(t *testing.T) {
	at := begin(t, ready+"workflow:r start stages=Plan budget=tokens:50\nPlan acts tools=read\n")
	if short := at.Short(Path(planTurn), model.Amount{Tokens: 51}); short != "tokens" {
		t.Errorf("short of %q", short)
	}
	at.must(t, "agent:agt_r", agent.FailInit{Error: "no"})
	if at.State(stagePlan) != "assert" || len(at.paths("turn", "")) > 0 {
		t.Errorf("the stage is %s, turns %v", at.State(stagePlan), at.paths("turn", ""))
	}
	if err := trusting.rest(at); err != nil || len(at.Runs()) > 0 {
		t.Errorf("%v, %v", err, at.Runs())
	}
	if d := at.Run("workflow:r"); d.RunID != (workflow.Data{}).RunID {
		t.Errorf("%+v", d)
	}
}

// TestWhoseLimit shows whose limit ends a turn in a stage: the conversation's if
// it has the least left, else that of the agent.
func TestWhoseLimit(t *testing.T) {
	for _, c := range []struct {
		session, run, stage string
		want                bool
	}{
		{"tokens:100", "", "0", true},
		{"tokens:100", "", "200", true},
		{"tokens:100", "", "50", false},
		{"tokens:100", "tokens:50", "0", false},
		{"tokens:100", "tokens:200", "0", true},
		{"model_calls:5", "tokens:50", "0", false},
		{"", "", "50", false},
	} {
		lines := "session create mode=ask budget=\"" + c.session + "\"\nroot become_ready\n" +
			"workflow:r start stages=Plan:3:2:" + c.stage + " budget=\"" + c.run + "\"\nPlan acts tools=read\n"
		at := begin(t, lines+"Plan/turn interrupt reason=\"budget: tokens\" by=engine\n")
		if suspended := at.State(SessionPath) == "suspended"; suspended != c.want || suspended == (at.State(stagePlan) != "act") {
			t.Errorf("%+v: the session is %s, the stage %s", c, at.State(SessionPath), at.State(stagePlan))
		}
	}
	for limit, want := range map[string]int64{"money": 1, "tokens": 2, "model calls": 3, "tool calls": 4, "agents": 5, "wall time": 6, "love": 0} {
		all := model.Amount{MicroUSD: 1, Tokens: 2, ModelCalls: 3, ToolCalls: 4, Agents: 5, WallMs: 6}
		if got := partOf(all, limit); got != want {
			t.Errorf("%s: %d, want %d", limit, got, want)
		}
	}
}
