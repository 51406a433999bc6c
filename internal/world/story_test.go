package world

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stave/internal/machine"
	"stave/internal/machine/tool"
	"stave/internal/model"
	"stave/internal/runelog"
)

var update = flag.Bool("update", false, "write stories, golden files and docs instead of comparing with them")

// story plays one file of testdata: commands above ----, below it the runes
// they cause and what is due then.
type story struct {
	*tape
	name   string
	newest Path // turn
	// each is called after every batch, with what it recorded.
	each func(batch []runelog.Rune)
}

// stories returns the files of testdata, in order.
func stories(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	return files
}

// TestStories plays every story and compares what happens with what is written.
func TestStories(t *testing.T) {
	for _, file := range stories(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, got := play(t, file, listener{})
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("%s tells it differently (-file +now; make docs rewrites it):\n%s", file, diff)
			}
		})
	}
}

// listener hears a story: every step with its message, every line with the runes
// it caused.
type listener struct {
	step  func(m Message, batch []runelog.Rune)
	batch func(s *story, batch []runelog.Rune)
}

// play returns a story as written and as it happens now.
func play(t testing.TB, file string, l listener) (want, got []byte) {
	t.Helper()
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := &story{tape: newTape(), name: file}
	s.tape.heard = l.step
	if l.batch != nil {
		s.each = func(batch []runelog.Rune) { l.batch(s, batch) }
	}
	var out bytes.Buffer
	for block := range strings.SplitSeq(strings.TrimSpace(string(want)), "\n\n") {
		above, _, _ := strings.Cut(block+"\n", "----\n")
		above = strings.TrimRight(above, "\n") + "\n"
		if out.Len() > 0 {
			out.WriteString("\n")
		}
		out.WriteString(above)
		told := s.tellAll(t, above)
		if told != "" {
			out.WriteString("----\n" + told)
		}
	}
	return want, out.Bytes()
}

// tellAll plays the lines of one block.
func (s *story) tellAll(t testing.TB, block string) string {
	t.Helper()
	var b strings.Builder
	told := false
	for text := range strings.Lines(block) {
		if strings.HasPrefix(text, "#") || strings.TrimSpace(text) == "" {
			continue
		}
		told = true
		l, err := parseLine(text)
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		for _, step := range l.expand() {
			s.tellOne(t, &b, step)
		}
	}
	if !told {
		return ""
	}
	b.WriteString(s.outstanding())
	return b.String()
}

// tellOne plays one line and writes what came of it.
func (s *story) tellOne(t testing.TB, b *strings.Builder, l line) {
	t.Helper()
	runes, err := s.play(t, l)
	for _, r := range runes {
		b.WriteString(show(r))
		if Path(r.Path).machine() == "turn" {
			s.newest = Path(r.Path)
		}
	}
	if err != nil {
		fmt.Fprintf(b, "  ! %v\n", err)
	}
	if s.each != nil && len(runes) > 0 {
		s.each(runes)
	}
}

func (s *story) play(t testing.TB, l line) ([]runelog.Rune, error) {
	t.Helper()
	s.clock += 1000
	if l.who == "new" {
		heard := s.tape.heard
		s.tape = newTape()
		s.tape.heard = heard
		return nil, nil
	}
	if l.who == "crash" {
		return s.crash(l.verb == "headless")
	}
	m, err := l.message(s.World, s.newest)
	if err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	return s.tell(m)
}

// show writes a rune on one line: seq, path, kind, arrow, who, because of what,
// and what matters of its payload.
func show(r runelog.Rune) string {
	arrow := r.From + " → " + r.To
	if r.From == r.To {
		arrow = "in " + r.To
	}
	because := ""
	if r.Cause != 0 {
		because = fmt.Sprintf("←%d", r.Cause)
	}
	text := fmt.Sprintf("%3d %-16s %-25s %-36s %-11s %-4s %s", r.Seq, short(r.Path), r.Kind, strings.TrimSpace(arrow), r.By, because, matters(r.Payload))
	return strings.TrimRight(text, " ") + "\n"
}

func short(p string) string {
	return strings.TrimPrefix(strings.TrimPrefix(p, string(RootPath)+"/"), "workflow:r/")
}

// matters picks what a reader of a story wants to know of a payload.
func matters(payload []byte) string {
	var all map[string]any
	if err := json.Unmarshal(payload, &all); err != nil {
		panic(err)
	}
	var parts []string
	for _, key := range []string{
		"status", "outcome", "text", "mode", "stop", "reason", "error", "error_type", "message", "final_output", "partial_output", "output",
		"content", "item_done", "attempt", "wait_ms", "why", "known", "approver", "denied_by", "policy_reason", "in_a_row", "headless",
		"force", "budget_info", "safety", "group", "invalid", "groups", "chunk", "intent", "crashed", "final_stats",
		"parent_id", "tools", "budget", "limit", "reconciled", "micro_usd", "tokens", "model_calls", "usage_unknown", "free",
		"model", "before", "private", "untrusted", "source", "tool", "scope", "digest", "remember", "messages", "summary", "to_seq", "checkpoint", "blob", "times",
		"verdict", "stage", "visit", "after", "stages", "execution", "join", "requests", "turns_left", "cap_hit", "next_attempt", "result", "phase",
		"hash", "allowed_tools", "all_tools", "prompt", "payload", "grant", "concludes",
	} {
		value, ok := all[key]
		if _, isText := value.(string); (key == "message" || key == "output") && !isText {
			continue // a number and a list, where text and final_output say more
		}
		if _, isTurn := all["calls"]; key == "requests" && isTurn {
			continue // of interest where a cap is counted
		}
		if !ok || value == "" {
			continue
		}
		shown, _ := json.Marshal(value)
		if brief := inShort(key, value); strings.Contains(" stages join result grant ", " "+key+" ") {
			shown = []byte(brief)
		}
		if plain, isText := value.(string); isText && !strings.ContainsAny(plain, " \n\"") {
			shown = []byte(plain)
		}
		parts = append(parts, key+"="+string(shown))
	}
	return strings.Join(parts, " ")
}

// outstanding lists jobs and questions.
func (s *story) outstanding() string {
	var b strings.Builder
	for _, j := range s.Jobs() {
		fmt.Fprintf(&b, "due %s %s", short(j.ID), machine.Verb(j.Work))
		if run, ok := j.Work.(tool.RunTool); ok && run.Intent != nil {
			fmt.Fprintf(&b, " intent=%s", run.Intent)
		}
		b.WriteByte('\n')
	}
	for _, q := range s.Questions() {
		until := ""
		if q.DeadlineMs > 0 {
			until = fmt.Sprintf(" until %d ms", q.DeadlineMs)
		}
		fmt.Fprintf(&b, "ask %s %s (%s)%s\n", short(string(q.Path)), q.Kind, strings.Join(q.Choices, ", "), until)
	}
	due := b.Len() > 0
	for _, a := range s.Accounts() {
		if a.Limit != (model.Amount{}) {
			fmt.Fprintf(&b, "of %s: %s\n", short(string(a.Path)), balance(a))
		}
	}
	if due {
		return b.String()
	}
	state := string(s.State(SessionPath))
	if state == "suspended" {
		state += " for " + s.Session().Why
	}
	return "nothing is due: the session is " + state + "\n" + b.String()
}

// balance writes an account: what is used of each limit, and of that what is set
// aside or charged without a bill.
func balance(a Account) string {
	var limits []string
	used := a.Spent.Plus(a.Held)
	for _, key := range []string{"micro_usd", "tokens", "model_calls", "tool_calls", "agents", "wall_ms"} {
		of := func(x model.Amount) int64 { return field(reflect.ValueOf(x), key).Int() }
		if of(a.Limit) == 0 {
			continue
		}
		text := fmt.Sprintf("%d of %d %s", of(used), of(a.Limit), key)
		if held := of(a.Held); held > 0 {
			text += fmt.Sprintf(" (%d held)", held)
		}
		if unsure := of(a.Unsure); unsure > 0 {
			text += fmt.Sprintf(" (%d unsure)", unsure)
		}
		limits = append(limits, text)
	}
	return strings.Join(limits, ", ")
}
