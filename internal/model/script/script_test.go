package script_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"stave/internal/model"
	"stave/internal/model/script"
)

func user(s string) model.Message {
	return model.Message{Role: model.RoleUser, Parts: []model.Part{{Text: s}}}
}

func assistant(s string) model.Message {
	return model.Message{Role: model.RoleAssistant, Parts: []model.Part{{Text: s}}}
}

func result(texts ...string) model.Message {
	m := model.Message{Role: model.RoleTool}
	for _, s := range texts {
		m.Parts = append(m.Parts, model.Part{Result: &model.ToolResult{Text: s}})
	}
	return m
}

func answer(ctx context.Context, s *script.Script, r model.Request) (model.Response, error) {
	return model.Assemble(s.Stream(ctx, r), model.Limits{}, func(model.Delta) error { return nil })
}

func load(t testing.TB, name string) *script.Script {
	t.Helper()
	s, err := script.Load(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The table shows which reply of testdata/scenes.yaml each request gets.
func TestChoice(t *testing.T) {
	const planner, reviewer = "You are the planner.", "You are the reviewer."
	s := load(t, "scenes.yaml")
	for _, tc := range []struct {
		name     string
		system   string
		messages []model.Message
		want     string
	}{
		{"no message at all", "", nil, "First ordinary answer."},
		{"first", "", []model.Message{user("hi")}, "First ordinary answer."},
		{"second", "", []model.Message{user("hi"), assistant("…"), user("go on")}, "Every later ordinary answer."},
		{"repeated", "", slices.Repeat([]model.Message{user("hi"), assistant("…")}, 900), "Every later ordinary answer."},
		{"on a user text", "", []model.Message{user("Ping, please")}, "pong"},
		{"on a tool result", "", []model.Message{user("hi"), assistant("…"), result("ok", "permission denied")}, "I may not do that, so I shall describe it instead."},
		{"on one of several result messages", "", []model.Message{user("hi"), assistant("…"), result("not allowed"), result("ok")}, "I may not do that, so I shall describe it instead."},
		{"not on an older text", "", []model.Message{user("ping"), user("hi")}, "First ordinary answer."},
		{"a matched reply does not use up an ordinary one", "", []model.Message{user("ping"), assistant("pong"), user("hi")}, "First ordinary answer."},
		{"a matched reply is used up", "", []model.Message{user("ping"), assistant("pong"), user("ping"), assistant("pong"), user("ping")}, "First ordinary answer."},
		{"scene by system prompt", reviewer, []model.Message{user("look")}, "Looks good to me."},
		{"scene by opening", reviewer, []model.Message{user("Security, please")}, "No finding about security."},
		{"scene with calls", planner, []model.Message{user("plan")}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := answer(t.Context(), s, model.Request{System: tc.system, Messages: tc.messages, Attempt: 1})
			if err != nil {
				t.Fatal(err)
			}
			if got.Text != tc.want {
				t.Errorf("got %q, want %q", got.Text, tc.want)
			}
		})
	}
}

// After the last reply, and without a scene, the script says so and no retry is worth it.
func TestNoReply(t *testing.T) {
	for text, want := range map[string]string{
		"replies: [{text: a}, {text: b, times: 2}]":            "test.yaml has no reply number 4",
		"replies: [{text: a, when: b}]":                        "test.yaml has no reply number 4, and no `when` matches",
		"scenes: [{system: x, replies: [{text: a}]}]":          "test.yaml has no scene for this request",
		"scenes: [{system: ^$, replies: [{text: a}]}]":         "test.yaml (scene of line 1) has no reply number 4",
		"scenes: [{opening: '^\\d$', replies: [{text: a}]}]":   "test.yaml (scene of line 1) has no reply number 4",
		"scenes: [{opening: '^\\D$', replies: [{text: a}]}]\n": "test.yaml has no scene for this request",
	} {
		s := parse(t, text)
		messages := []model.Message{user("1"), assistant("…"), user("2"), assistant("…"), user("3"), assistant("…"), user("4")}
		_, err := answer(t.Context(), s, model.Request{Messages: messages, Attempt: 1})
		var typed *model.Error
		if !errors.As(err, &typed) || typed.Retryable || !strings.Contains(typed.Message, want) {
			t.Errorf("%s: got %v, want an error that is not retryable with %q", text, err, want)
		}
	}
}

// A reply says its events in a fixed order, and again the same ones when asked again.
func TestEvents(t *testing.T) {
	s := parse(t, `
replies:
  - reasoning: hmm
    opaque: sig
    text: Grüße
    chunk: 2
    calls:
      - {tool: read, args: {path: "ü", deep: {list: [1, -2.50, 1e3, true, null, x, 2001-01-01]}, "": ""}}
      - {tool: list}
      - {tool: write, id: "", raw: "not {json"}
    usage: {input_tokens: 3, output_tokens: 2, cached_tokens: 1}
`)
	think := func(s string) model.Event { return model.Event{Reasoning: &model.Reasoning{Text: s}} }
	call := func(id, name, args string) model.Event {
		return model.Event{Call: &model.RawCall{ID: id, Name: name, Args: args}}
	}
	want := []model.Event{
		think("hm"),
		think("m"),
		{Reasoning: &model.Reasoning{Opaque: "sig"}},
		{ItemDone: true},
		{Text: "Gr"},
		{Text: "üß"},
		{Text: "e"},
		{ItemDone: true},
		call("script_1_1", "read", `{"path":"ü","deep":{"list":[1,-2.50,1e3,true,null,"x","2001-01-01"]},"":""}`),
		call("script_1_2", "list", `{}`),
		call("", "write", `not {json`),
		{Usage: &model.Usage{InputTokens: 3, OutputTokens: 2, CachedTokens: 1}},
		{Done: model.StopToolCalls},
	}
	for range 2 {
		var got []model.Event
		for ev, err := range s.Stream(t.Context(), model.Request{Attempt: 1}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, ev)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("events (-want +got):\n%s", diff)
		}
	}
}

// Every fault strikes in its attempt, after its events, and the attempt after
// the last fault succeeds.
func TestFaults(t *testing.T) {
	s := parse(t, `
replies:
  - deltas: [a, b]
    faults:
      - {error: rate_limited, message: slow down, retry_after: 24h}
      - {error: overloaded, retryable: false, after: 1}
      - {error: internal, retryable: true}
      - {cut: 0}
      - {cut: 3}
      - {cut: 2, silent: true}
`)
	for i, want := range []struct {
		text string
		err  *model.Error
	}{
		{"", &model.Error{Kind: model.ErrRateLimited, Message: "slow down", Retryable: true, RetryAfter: 24 * time.Hour}},
		{"a", &model.Error{Kind: model.ErrOverloaded, Message: "the script says so"}},
		{"", &model.Error{Kind: model.ErrInternal, Message: "the script says so", Retryable: true}},
		{"", &model.Error{Kind: model.ErrStream, Message: "the stream was cut after 0 events", Retryable: true}},
		{"ab", &model.Error{Kind: model.ErrStream, Message: "the stream was cut after 3 events", Retryable: true}},
		{"ab", &model.Error{Kind: model.ErrStream, Message: "the stream ended before the response was complete", Retryable: true}},
		{"ab", nil},
		{"ab", nil},
	} {
		got, err := answer(t.Context(), s, model.Request{Attempt: i + 1})
		var typed *model.Error
		errors.As(err, &typed)
		if diff := cmp.Diff(want.err, typed); diff != "" || got.Text != want.text {
			t.Errorf("attempt %d: text %q, want %q; error (-want +got):\n%s", i+1, got.Text, want.text, diff)
		}
	}
}

func TestPanicFault(t *testing.T) {
	s := parse(t, `replies: [{text: a, faults: [{panic: boom, after: 1}]}]`)
	defer func() {
		if got := recover(); got != "boom" {
			t.Errorf("recovered %v, want boom", got)
		}
	}()
	_, err := answer(t.Context(), s, model.Request{Attempt: 1})
	t.Errorf("no panic, but %v", err)
}

func TestEndlessFaultMeetsTheLimits(t *testing.T) {
	s := parse(t, `replies: [{text: a, faults: [{endless: true}]}]`)
	_, err := answer(t.Context(), s, model.Request{Attempt: 1})
	var typed *model.Error
	if !errors.As(err, &typed) || typed.Kind != model.ErrLimit {
		t.Errorf("got %v, want a limit", err)
	}
}

// Delay comes before the first event and pace between all others; the end of
// the context cuts each of them short at once.
func TestTime(t *testing.T) {
	s := parse(t, `
replies:
  - deltas: [a, b]
    delay: 1s
    pace: 100ms
    faults: [{stall: true, after: 1}, {endless: true, after: 1}]
`)
	for _, tc := range []struct {
		attempt int
		limit   time.Duration
		want    time.Duration
		text    string
		err     error
	}{
		{attempt: 3, limit: time.Hour, want: 1300 * time.Millisecond, text: "ab"},
		{attempt: 3, limit: 500 * time.Millisecond, want: 500 * time.Millisecond, err: context.DeadlineExceeded},
		{attempt: 3, limit: 1050 * time.Millisecond, want: 1050 * time.Millisecond, text: "a", err: context.DeadlineExceeded},
		{attempt: 1, limit: time.Minute, want: time.Minute, text: "a", err: context.DeadlineExceeded},
		{attempt: 2, limit: 1350 * time.Millisecond, want: 1350 * time.Millisecond, text: "a" + strings.Repeat("and so on ", 3), err: context.DeadlineExceeded},
	} {
		t.Run(fmt.Sprintf("attempt %d within %v", tc.attempt, tc.limit), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tc.limit)
				defer cancel()
				start := time.Now()
				got, err := answer(ctx, s, model.Request{Attempt: tc.attempt})
				if took := time.Since(start); took != tc.want || got.Text != tc.text || !errors.Is(err, tc.err) {
					t.Errorf("took %v, said %q, ended with %v; want %v, %q, %v", took, got.Text, err, tc.want, tc.text, tc.err)
				}
			})
		})
	}
}

// A conversation rebuilt in another process goes on at the right reply.
func TestResume(t *testing.T) {
	conversation := []model.Message{user("begin")}
	var got []string
	for range 5 {
		r, err := answer(t.Context(), load(t, "faults.yaml"), model.Request{Messages: conversation, Attempt: 10})
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, r.Text)
		conversation = append(conversation, assistant(r.Text), result("done"))
	}
	want := []string{
		"It works at the third attempt.",
		"A call that arrived whole, but whose response did not, must not run.",
		"A service that stops talking, and one that never stops.",
		"Bytes that are no text, and calls that are no calls.",
		"café ☃ \uFFFD",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("replies (-want +got):\n%s", diff)
	}
}

// Every example, in testdata and in the documentation, is a script.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("found %d examples: %v", len(files), err)
	}
	for _, file := range files {
		if _, err := script.Load(file); err != nil {
			t.Error(err)
		}
	}
	docs, err := os.ReadFile("../../../docs/scripts.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(docs, -1)
	if len(blocks) == 0 {
		t.Error("the documentation has no example")
	}
	for i, block := range blocks {
		if _, err := script.Parse(fmt.Sprintf("docs/scripts.md example %d", i+1), block[1]); err != nil {
			t.Error(err)
		}
	}
}

func BenchmarkPlay10000Deltas(b *testing.B) {
	s, err := script.Parse("bench.yaml", fmt.Appendf(nil, "replies: [{chunk: 5, text: %q}]", strings.Repeat("word ", 10_000)))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := answer(b.Context(), s, model.Request{Attempt: 1}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/10_000, "ns/delta")
}

func BenchmarkChoiceInLongConversation(b *testing.B) {
	s := load(b, "scenes.yaml")
	r := model.Request{Messages: append(slices.Repeat([]model.Message{user("hello there"), assistant("…")}, 500), user("ping")), Attempt: 1}
	for b.Loop() {
		if _, err := answer(b.Context(), s, r); err != nil {
			b.Fatal(err)
		}
	}
}
