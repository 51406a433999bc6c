package bench

import (
	"fmt"
	"testing"
	"time"
)

// sandboxedRounds are fewer than those of bare commands: each takes longer.
const sandboxedRounds = 40

// BenchmarkSandboxedRounds runs shell rounds bare and behind each kind of walls,
// by turns, and reports what walls add to one command.
func BenchmarkSandboxedRounds(b *testing.B) {
	stave := build(b, "stave/cmd/stave")
	replies := "replies:\n"
	for i := range sandboxedRounds { // the same command again and again would need a person
		replies += fmt.Sprintf("  - calls: [{tool: Bash, args: {command: \"true %d\"}}]\n", i)
	}
	script := scriptFile(b, replies+"  - text: done\n")
	data := usedData(b, stave)
	for b.Loop() {
		took := map[string][]time.Duration{}
		for range repeats {
			for _, level := range []string{"off", "landlock", "bwrap"} {
				d, _ := clock(b, stave, "ask", "--data", data, "--cwd", b.TempDir(), "--mode", "yolo", "--sandbox", level, "--headless", "--model", "script:"+script, "go")
				took[level] = append(took[level], d)
			}
		}
		bare := ms(median(took["off"]))
		b.ReportMetric(bare/sandboxedRounds, "bare-ms/command")
		for _, level := range []string{"landlock", "bwrap"} {
			b.ReportMetric((ms(median(took[level]))-bare)/sandboxedRounds, level+"-ms-over-bare")
		}
	}
}
