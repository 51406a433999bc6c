package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	rounds  = 100
	repeats = 15 // of each program, taken in turns so that noise hits both
)

// hello is a model that answers at once.
const hello = "replies:\n  - text: hello\n"

// build compiles a program of this module and returns its path.
func build(b *testing.B, pkg string) string {
	b.Helper()
	bin := filepath.Join(b.TempDir(), filepath.Base(pkg))
	cmd := exec.Command("go", "build", "-trimpath", "-o", bin, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("building %s: %v\n%s", pkg, err, out)
	}
	return bin
}

func scriptFile(b *testing.B, text string) string {
	b.Helper()
	name := filepath.Join(b.TempDir(), "script.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	return name
}

// shellRounds is a model that asks for a command n times, each time for another:
// the gate asks a person about a model that repeats itself.
func shellRounds(n int) string {
	var text strings.Builder
	text.WriteString("replies:\n")
	for i := range n {
		fmt.Fprintf(&text, "  - {calls: [{tool: Bash, args: {command: \"true %d\"}}]}\n", i)
	}
	text.WriteString("  - text: done\n")
	return text.String()
}

// clock runs a program and returns how long it took and its peak memory.
func clock(b *testing.B, name string, args ...string) (time.Duration, int64) {
	b.Helper()
	cmd := exec.Command(name, args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	began := time.Now()
	if err := cmd.Run(); err != nil {
		b.Fatalf("%s: %v\n%s", name, err, errs.Bytes())
	}
	took := time.Since(began)
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return took, usage.Maxrss
}

func median[T int64 | time.Duration | float64](of []T) T {
	slices.Sort(of)
	return of[len(of)/2]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// BenchmarkToolRounds runs 100 shell rounds with stave and with the floor, with a
// model that costs neither of them anything.
func BenchmarkToolRounds(b *testing.B) {
	stave, floor := build(b, "stave/cmd/stave"), build(b, "stave/internal/bench/floor")
	data := usedData(b, stave)
	script := scriptFile(b, shellRounds(rounds))
	for b.Loop() {
		contest{stave: stave, floor: floor, data: data}.run(b, "script:"+script)
	}
	checkEvents(b, stave, data)
}

// BenchmarkStart measures from process start to the first rune the model's
// answer causes, as a reader of --json sees it: the request came before that.
func BenchmarkStart(b *testing.B) {
	stave := build(b, "stave/cmd/stave")
	script := scriptFile(b, hello)
	data := usedData(b, stave)
	for b.Loop() {
		var first, whole, virgin []time.Duration
		for i := range repeats {
			f, w := firstAnswer(b, stave, script, data)
			first, whole = append(first, f), append(whole, w)
			f, _ = firstAnswer(b, stave, script, filepath.Join(b.TempDir(), fmt.Sprint(i)))
			virgin = append(virgin, f)
		}
		b.ReportMetric(ms(median(first)), "first-answer-ms")
		b.ReportMetric(ms(median(whole)), "whole-run-ms")
		b.ReportMetric(ms(median(virgin)), "new-directory-ms")
	}
}

// usedData returns a data directory as a person has it: one that exists.
func usedData(b *testing.B, stave string) string {
	b.Helper()
	data := filepath.Join(b.TempDir(), "data")
	clock(b, stave, "ask", "--data", data, "--cwd", b.TempDir(), "--headless", "--model", "script:"+scriptFile(b, hello), "go")
	return data
}

func firstAnswer(b *testing.B, stave, script, data string) (first, whole time.Duration) {
	b.Helper()
	dir := b.TempDir()
	cmd := exec.Command(stave, "ask", "--json", "--data", data, "--cwd", dir, "--mode", "yolo", "--headless", "--model", "script:"+script, "go")
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if first == 0 && bytes.Contains(lines.Bytes(), []byte(`"kind":"turn.assistant_delta"`)) {
			first = time.Since(began)
		}
	}
	if err := cmd.Wait(); err != nil {
		b.Fatal(err)
	}
	if first == 0 {
		b.Fatal("no answer was seen")
	}
	return first, time.Since(began)
}

// BenchmarkDeltas runs an answer of 10,000 fragments, net of a run without.
func BenchmarkDeltas(b *testing.B) {
	stave := build(b, "stave/cmd/stave")
	many := scriptFile(b, fmt.Sprintf("replies:\n  - {text: %q, chunk: 4}\n", bytes.Repeat([]byte("abc "), 10_000)))
	one := scriptFile(b, hello)
	data := usedData(b, stave)
	run := func(script string) time.Duration {
		took, _ := clock(b, stave, "ask", "--data", data, "--cwd", b.TempDir(), "--headless", "--model", "script:"+script, "go")
		return took
	}
	for b.Loop() {
		var with, without []time.Duration
		for range repeats {
			with, without = append(with, run(many)), append(without, run(one))
		}
		b.ReportMetric(ms(median(with)-median(without)), "net-ms")
	}
}
