package workflow

import (
	"slices"
	"testing"

	"stave/internal/machine"
)

// live is a run as its table moves it.
type live struct {
	t *testing.T
	machine.Instance
}

func begun(t *testing.T, parallel int) *live {
	t.Helper()
	l := &live{t, Machine.New()}
	l.take(Start{Started: Started{RunID: "r", Name: "n", Hash: "h", Parallel: parallel}, Stages: []Brief{{Stage: "P"}}})
	l.take(Proceed{})
	l.end("P", "ok")
	l.take(Proceed{})
	return l
}

func (l *live) take(c machine.Command) {
	l.t.Helper()
	next, _, err := l.Step(c)
	if err != nil {
		l.t.Fatalf("%T: %v", c, err)
	}
	l.Instance = next
}

func (l *live) data() Data { return machine.DataOf[Data](l.Instance) }

func (l *live) end(stage, status string) {
	l.t.Helper()
	l.take(StageEnded{StageDone{ExecutionID: ExecutionID("r", stage, l.data().Visits[stage]), Result: Result{Stage: stage, Status: status}}})
}

func choose(join string, names ...string) Choose {
	c := Choose{StagesChosen{Execution: Parallel}}
	for _, n := range names {
		c.Stages = append(c.Stages, Brief{Stage: n})
	}
	if join != "" {
		c.Join = &Brief{Stage: join}
	}
	return c
}

// TestFanOut shows, for every cap, that as many stages run as it lets, in their
// order, and the join after the last of them, in whatever order they end.
func TestFanOut(t *testing.T) {
	names := []string{"A", "B", "C"}
	for parallel := 1; parallel <= 4; parallel++ {
		for _, last := range []bool{true, false} {
			l := begun(t, parallel)
			l.take(choose("J", names...))
			ended := 0
			for range names {
				for range names {
					l.take(Proceed{})
				}
				running := l.data().Running
				if want := min(parallel, len(names)-ended); len(running) != want {
					t.Fatalf("cap %d: %v run, want %d", parallel, running, want)
				}
				if slices.Contains(running, "r.J.1") {
					t.Fatalf("cap %d: the join runs beside %v", parallel, running)
				}
				next := running[0]
				if last {
					next = running[len(running)-1]
				}
				l.end(next[2:3], "ok")
				ended++
			}
			l.take(Proceed{})
			l.take(Proceed{})
			if d := l.data(); l.State() != running || !slices.Equal(d.Running, []string{"r.J.1"}) || d.Entered() != 5 {
				t.Errorf("cap %d: %s, %v, %d entered", parallel, l.State(), d.Running, d.Entered())
			}
			l.end("J", "skip")
			l.take(Proceed{})
			if l.State() != choosing || l.data().Last != "J" {
				t.Errorf("cap %d: %s after %s", parallel, l.State(), l.data().Last)
			}
		}
	}
}

// TestFailureTakesAll shows that the first stage that is neither done nor skipped
// decides how the run ends, and that nothing begins after it.
func TestFailureTakesAll(t *testing.T) {
	for _, status := range []string{"fail", "retry", ""} {
		l := begun(t, 2)
		l.take(choose("J", "A", "B", "C"))
		l.take(Proceed{})
		l.take(Proceed{})
		l.end("B", status)
		l.take(Proceed{})
		if d := l.data(); l.State() != stopping || len(d.Queue) > 0 || d.Join != nil || !slices.Equal(d.Running, []string{"r.A.1"}) {
			t.Fatalf("%q: %s, %+v", status, l.State(), d)
		}
		l.end("A", "ok") // too late
		if l.take(Proceed{}); l.State() != failed || l.data().Failed != "B" {
			t.Errorf("%q: %s because of %q", status, l.State(), l.data().Failed)
		}
	}
}

// TestResults shows that the latest result of each stage is kept, the newest last.
func TestResults(t *testing.T) {
	l := begun(t, 1)
	l.take(Choose{StagesChosen{Stages: []Brief{{Stage: "A"}, {Stage: "P"}}}})
	l.take(Proceed{})
	l.end("A", "skip")
	l.take(Proceed{})
	if _, ok := l.data().Result("B"); ok {
		t.Error("a result of nothing")
	}
	l.take(StageEnded{StageDone{ExecutionID: "r.P.2", Result: Result{Stage: "P", Status: "ok", Visit: 2}}})
	p, ok := l.data().Result("P")
	if d := l.data(); !ok || p.Visit != 2 || len(d.Results) != 2 || d.Results[1].Stage != "P" || d.Visits["P"] != 2 {
		t.Errorf("%+v", d)
	}
}

// TestDrift shows that a person is asked once about each other definition.
func TestDrift(t *testing.T) {
	l := begun(t, 1)
	if l.take(Drift{"h"}); l.State() != choosing {
		t.Errorf("asked about its own definition: %s", l.State())
	}
	l.take(Drift{"h2"})
	if q := l.Due().(MayGoOn); l.State() != changed || q.Began != "h" || q.Now != "h2" {
		t.Errorf("%s: %+v", l.State(), l.Due())
	}
	l.take(GoOn{}.Signed("user:ann"))
	l.take(Proceed{})
	if l.take(Drift{"h2"}); l.State() != choosing {
		t.Errorf("asked again: %s", l.State())
	}
	if l.take(Drift{"h3"}); l.State() != changed {
		t.Errorf("not asked: %s", l.State())
	}
	if l.take(machine.Late{}); l.State() != stopping || l.data().Broken {
		t.Errorf("%s, %+v", l.State(), l.data())
	}
}

// TestDataIsNotShared shows that a run that goes on leaves earlier ones as they
// were.
func TestDataIsNotShared(t *testing.T) {
	l := begun(t, 3)
	l.take(choose("", "A", "B"))
	before := l.data()
	l.take(Proceed{})
	l.take(Proceed{})
	l.end("A", "ok")
	if len(before.Visits) != 1 || len(before.Running) != 0 || len(before.Results) != 1 || len(before.Queue) != 2 {
		t.Errorf("%+v", before)
	}
}
