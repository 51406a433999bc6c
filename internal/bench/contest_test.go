package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"testing"
	"time"
)

const (
	// roundEvents is how many events a round has, as stave's log tells them: the
	// model's answer, its call, the call's approval, its result, and that the model
	// may hear of it. The floor that counts syncs each of them.
	roundEvents = 5
	// roundSyncs is how many syncs stave makes of them, since what belongs together
	// is written together. A floor that does the same is the hardest to match.
	roundSyncs = 2
)

// contest is stave against the floor.
type contest struct {
	stave, floor string
	data         string
	tail         []string // of the floor's arguments: the server it speaks to
}

// run compares whole runs of 100 rounds, and what one round costs net of a run
// without any. Each gets its turn again and again, so that noise hits all.
func (c contest) run(b *testing.B, model string) {
	b.Helper()
	// A child's peak begins with that of the process it was forked from.
	debug.FreeOSMemory()
	check(b, os.WriteFile("/proc/self/clear_refs", []byte("5"), 0))
	none := "script:" + scriptFile(b, hello)
	took := map[string][]time.Duration{}
	var memory []int64
	for i := range repeats {
		dir := b.TempDir()
		ask := func(model string) (time.Duration, int64) {
			return clock(b, c.stave, "ask", "--data", c.data, "--cwd", dir, "--mode", "yolo", "--sandbox", "off", "--headless", "--model", model, "go")
		}
		bare := func(rounds, events int) time.Duration {
			file := filepath.Join(dir, fmt.Sprint("events", i, rounds, events))
			d, _ := clock(b, c.floor, append([]string{file, fmt.Sprint(rounds), fmt.Sprint(events)}, c.tail...)...)
			return d
		}
		d, rss := ask(model)
		memory = append(memory, rss)
		took["stave"] = append(took["stave"], d)
		took["floor-fsync"] = append(took["floor-fsync"], bare(rounds, roundEvents))
		took["floor-two-syncs"] = append(took["floor-two-syncs"], bare(rounds, roundSyncs))
		took["floor"] = append(took["floor"], bare(rounds, 0))
		d, _ = ask(none)
		took["stave-start"] = append(took["stave-start"], d)
		took["floor-start"] = append(took["floor-start"], bare(0, roundEvents))
	}
	whole := func(name string) float64 { return ms(median(took[name])) }
	net := func(name, start string) float64 { return (whole(name) - whole(start)) / rounds }
	for _, name := range []string{"stave", "floor-fsync", "floor-two-syncs", "floor"} {
		b.ReportMetric(whole(name), name+"-ms")
	}
	for _, name := range []string{"floor-fsync", "floor-two-syncs"} {
		b.ReportMetric(whole("stave")/whole(name), "x-"+name)
		b.ReportMetric(net("stave", "stave-start")/net(name, "floor-start"), "x-"+name+"-net")
	}
	b.ReportMetric(net("stave", "stave-start"), "ms/round")
	b.ReportMetric(float64(median(memory))/1024, "peak-MB")
}

// checkEvents makes sure that a round has as many events as the floor syncs.
func checkEvents(b *testing.B, stave, data string) {
	b.Helper()
	list, err := exec.Command(stave, "ls", "--data", data, "--json").Output()
	check(b, err)
	most := 0
	for line := range bytes.Lines(list) {
		var log struct{ Seq int }
		check(b, json.Unmarshal(line, &log))
		most = max(most, log.Seq)
	}
	if most < roundEvents*rounds {
		b.Fatalf("%d rounds have %d runes, the floor syncs %d events a round", rounds, most, roundEvents)
	}
}
