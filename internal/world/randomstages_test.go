package world

import (
	"fmt"

	"pgregory.net/rapid"

	"stave/internal/machine"
	"stave/internal/machine/agent"
	"stave/internal/machine/stage"
	"stave/internal/machine/workflow"
	"stave/internal/model"
)

// runs adds what a person may do about workflows.
func (l *life) runs(rt *rapid.T, add func(p Path, by, job string, commands ...machine.Command)) {
	if l.State(SessionPath) == "active" && len(l.Runs()) < 2 && seldom(rt, 4) {
		id := fmt.Sprintf("r%d", l.seq)
		begun := workflow.Started{
			RunID: id, Name: "n", Hash: "h", Definition: []byte("{}"), ParentID: "agt_root",
			Parallel: rapid.IntRange(1, 3).Draw(rt, "parallel"), Headless: seldom(rt, 5),
		}
		if l.short(RootPath, model.Amount{Agents: 1}) == "" && l.State(RootPath) != machine.None && data[agent.Data](l.World, RootPath).Ending == "" && seldom(rt, 2) {
			begun.Budget = someLimit(rt)
		}
		add(RunPath(id), "user:ann", "", workflow.Start{Started: begun, Stages: l.someBriefs(rt, 1)})
	}
	for _, p := range l.Runs() {
		state := l.State(p)
		if state != "stopping" && seldom(rt, 8) {
			add(p, "user:ann", "", workflow.Cancel{})
		}
		if (state == "running" || state == "choosing") && seldom(rt, 6) {
			add(p, engineName, "", workflow.Drift{Hash: fmt.Sprint("h", l.seq)})
		}
	}
}

func (l *life) someBriefs(rt *rapid.T, n int) []workflow.Brief {
	var list []workflow.Brief
	for i := range n {
		b := workflow.Brief{
			Stage: string(rune('A' + i)), Completion: "hand", TurnCap: rapid.IntRange(1, 3).Draw(rt, "cap"),
			MaxAttempts: rapid.IntRange(1, 2).Draw(rt, "attempts"),
		}
		if seldom(rt, 3) {
			b.Budget = someLimit(rt)
		}
		list = append(list, b)
	}
	return list
}

// phases are the ways a job of a run or a stage can end, nil for other jobs.
func (l *life) phases(rt *rapid.T, j Job) []machine.Command {
	broken := stage.Break{Error: "broken"}
	switch j.Work.(type) {
	case stage.SetUp:
		tools := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"read", "bash", "post", "ask", "web"}), rapid.ID[string]).Draw(rt, "tools")
		ready := stage.Prepare{Prepared: stage.Prepared{Context: []byte("{}"), Tools: tools, All: seldom(rt, 6)}}
		return []machine.Command{ready, ready, ready, broken}
	case stage.Render:
		ready := stage.Initialize{Prompt: "do"}
		return []machine.Command{ready, ready, ready, broken}
	case stage.CheckGate:
		ready := stage.Gate{Verdict: stage.Proceed}
		return []machine.Command{ready, ready, ready, ready, stage.Gate{Verdict: stage.Skip}, stage.Gate{Verdict: stage.Retry}, broken}
	case stage.Judge:
		fair := stage.Assert{Verdict: fairly(data[stage.Data](l.World, j.Path))}
		return []machine.Command{fair, fair, fair, stage.Assert{Verdict: stage.Fail}, stage.Assert{Verdict: stage.Retry, Reason: "better"}, broken}
	case stage.Wait:
		return []machine.Command{stage.Again{}}
	case workflow.ChooseNext:
		list := l.someBriefs(rt, rapid.IntRange(1, 4).Draw(rt, "stages"))
		next := workflow.StagesChosen{Stages: list, Execution: rapid.SampledFrom([]string{workflow.Parallel, workflow.Sequential}).Draw(rt, "execution")}
		if len(list) > 1 && rapid.Bool().Draw(rt, "join") {
			next.Join, next.Stages = &list[len(list)-1], list[:len(list)-1]
		}
		return []machine.Command{workflow.Choose{StagesChosen: next}, workflow.Choose{StagesChosen: next}, workflow.Choose{}, workflow.Break{Error: "broken"}}
	}
	return nil
}
