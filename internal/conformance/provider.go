// Package conformance holds the suites that every Log and every Provider must pass.
package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"stave/internal/model"
)

const (
	// stopGrace is how long "at once" may take on a busy machine.
	stopGrace = 5 * time.Second
	// maxPlayedEvents ends a test whose provider does not stop.
	maxPlayedEvents = 100_000
)

// ProviderScenario is what the service behind a provider does in one test. The
// first Try answers the first request, the second the next one, the last one
// every later request. A Try that does not complete begins as the last one does.
type ProviderScenario struct {
	Name  string
	Tries []Try
}

// Try is one answer of the service: it either refuses, or says what is listed,
// in this order, and then ends as Ending says.
type Try struct {
	Refusal   *model.Error // instead of an answer; the message is the provider's own
	Reasoning string
	Text      []string // as the service splits it
	Calls     []model.RawCall
	Usage     model.Usage
	Stop      model.StopReason
	Ending    Ending
}

// Ending says how an answer of the service ends.
type Ending string

// Endings. All but Complete come after the last call and before any Usage or Stop.
const (
	Complete Ending = "complete"
	Cut      Ending = "cut"     // the connection is lost
	Stall    Ending = "stall"   // nothing comes any more, the connection stays
	Endless  Ending = "endless" // more and more text comes
)

// NewProvider makes a provider in front of a service that plays a scenario.
type NewProvider func(t *testing.T, s ProviderScenario) model.Provider

// Provider is the suite every provider passes.
func Provider(t *testing.T, newProvider NewProvider) {
	t.Run("answers", func(t *testing.T) { testAnswers(t, newProvider) })
	t.Run("refusals", func(t *testing.T) { testRefusals(t, newProvider) })
	t.Run("cut stream", func(t *testing.T) { testCut(t, newProvider) })
	t.Run("retry", func(t *testing.T) { testRetry(t, newProvider) })
	t.Run("cancelled before", func(t *testing.T) { testCancelledBefore(t, newProvider) })
	t.Run("cancelled in a stall", func(t *testing.T) { testCancelledMidway(t, newProvider, Stall) })
	t.Run("cancelled in an endless stream", func(t *testing.T) { testCancelledMidway(t, newProvider, Endless) })
	t.Run("deadline", func(t *testing.T) { testDeadline(t, newProvider) })
	t.Run("reader leaves", func(t *testing.T) { testReaderLeaves(t, newProvider) })
	t.Run("streams side by side", func(t *testing.T) { testSideBySide(t, newProvider) })
}

func plainAnswer() Try {
	return Try{
		Text: []string{"Grüße ", "from the ", "other side 🪵."}, Usage: model.Usage{InputTokens: 11, OutputTokens: 7},
		Stop: model.StopEnd, Ending: Complete,
	}
}

func answers() []ProviderScenario {
	calls := []model.RawCall{
		{ID: "a", Name: "read", Args: `{"path":"a.txt"}`},
		{ID: "b", Name: "write", Args: `{"path":"b.txt","content":"line\nü","n":[1,2.5,null,true]}`},
		{ID: "c", Name: "list", Args: `{}`},
	}
	usage := model.Usage{InputTokens: 1, OutputTokens: 1}
	return []ProviderScenario{
		{"text", []Try{plainAnswer()}},
		{"nothing", []Try{{Usage: usage, Stop: model.StopEnd, Ending: Complete}}},
		{"one call", []Try{{Calls: calls[:1], Usage: usage, Stop: model.StopToolCalls, Ending: Complete}}},
		{"thought, text and parallel calls", []Try{{
			Reasoning: "Both at once.", Text: []string{"Let me ", "look."}, Calls: calls,
			Usage: usage, Stop: model.StopToolCalls, Ending: Complete,
		}}},
		{"out of length", []Try{{Text: []string{"and then"}, Usage: usage, Stop: model.StopLength, Ending: Complete}}},
		{"declined", []Try{{Text: []string{"No."}, Usage: usage, Stop: model.StopRefusal, Ending: Complete}}},
		{"many deltas", []Try{{Text: slices.Repeat([]string{"wood "}, 500), Usage: usage, Stop: model.StopEnd, Ending: Complete}}},
	}
}

func testAnswers(t *testing.T, newProvider NewProvider) {
	for _, s := range answers() {
		t.Run(s.Name, func(t *testing.T) {
			p := newProvider(t, s)
			played := play(t.Context(), p, request(1), nil)
			played.checkSuccess(t, s.Tries[0])
		})
	}
}

func testRefusals(t *testing.T, newProvider NewProvider) {
	for _, want := range []model.Error{
		{Kind: model.ErrRateLimited, Retryable: true, RetryAfter: 2 * time.Second},
		{Kind: model.ErrOverloaded, Retryable: true},
		{Kind: model.ErrAuth},
		{Kind: model.ErrBadRequest},
	} {
		t.Run(string(want.Kind), func(t *testing.T) {
			p := newProvider(t, ProviderScenario{"refused", []Try{{Refusal: &want}}})
			played := play(t.Context(), p, request(1), nil)
			if len(played.events) > 0 {
				t.Errorf("got %d events, want none before a refusal", len(played.events))
			}
			played.checkFailure(t, want)
		})
	}
}

// A lost connection is a typed, retryable error, and a call that had arrived
// whole is not given out.
func testCut(t *testing.T, newProvider NewProvider) {
	p := newProvider(t, halfThenWhole())
	played := play(t.Context(), p, request(1), nil)
	played.checkFailure(t, model.Error{Kind: model.ErrStream, Retryable: true})
	if r, _ := played.assemble(); len(r.Calls) > 0 {
		t.Errorf("a cut response gave the calls %v", r.Calls)
	}
}

// The attempt after a cut one gives the whole answer and nothing of the first.
func testRetry(t *testing.T, newProvider NewProvider) {
	s := halfThenWhole()
	p := newProvider(t, s)
	play(t.Context(), p, request(1), nil)
	play(t.Context(), p, request(2), nil).checkSuccess(t, s.Tries[1])
}

func halfThenWhole() ProviderScenario {
	whole := Try{
		Reasoning: "A first thought.", Text: []string{"Let me ", "write."},
		Calls: []model.RawCall{{ID: "x", Name: "write", Args: `{"path":"x"}`}},
		Usage: model.Usage{InputTokens: 5, OutputTokens: 5}, Stop: model.StopToolCalls, Ending: Complete,
	}
	half := whole
	half.Ending = Cut
	return ProviderScenario{"half an answer, then a whole one", []Try{half, whole}}
}

func testCancelledBefore(t *testing.T, newProvider NewProvider) {
	p := newProvider(t, ProviderScenario{"text", []Try{plainAnswer()}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	played := within(t, func() played { return play(ctx, p, request(1), nil) })
	if len(played.events) > 0 {
		t.Errorf("got %d events of a call that was cancelled before it began", len(played.events))
	}
	played.checkEnded(t, context.Canceled)
}

func testCancelledMidway(t *testing.T, newProvider NewProvider, ending Ending) {
	p := newProvider(t, ProviderScenario{string(ending), []Try{{Text: []string{"well, "}, Ending: ending}}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	played := within(t, func() played {
		return play(ctx, p, request(1), func(model.Event) bool { cancel(); return true })
	})
	if len(played.events) != 1 {
		t.Errorf("got %d events, want only the one during which the call was cancelled", len(played.events))
	}
	played.checkEnded(t, context.Canceled)
}

func testDeadline(t *testing.T, newProvider NewProvider) {
	p := newProvider(t, ProviderScenario{"stall", []Try{{Text: []string{"well, "}, Ending: Stall}}})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	within(t, func() played { return play(ctx, p, request(1), nil) }).checkEnded(t, context.DeadlineExceeded)
}

func testReaderLeaves(t *testing.T, newProvider NewProvider) {
	p := newProvider(t, ProviderScenario{"endless", []Try{{Text: []string{"well, "}, Ending: Endless}}})
	played := within(t, func() played {
		return play(t.Context(), p, request(1), func(model.Event) bool { return false })
	})
	if len(played.events) != 1 || len(played.errs) > 0 {
		t.Errorf("got %d events and the errors %v, want one event and no error", len(played.events), played.errs)
	}
}

// Concurrent streams of one provider do not mix.
func testSideBySide(t *testing.T, newProvider NewProvider) {
	const streams = 8
	s := ProviderScenario{"text", []Try{plainAnswer()}}
	p := newProvider(t, s)
	all := make([]played, streams)
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() { all[i] = play(t.Context(), p, request(1), nil) })
	}
	wg.Wait()
	for _, played := range all {
		played.checkSuccess(t, s.Tries[0])
	}
}

func request(attempt int) model.Request {
	return model.Request{
		Model:  "test-model",
		System: "You are under test.",
		Messages: []model.Message{
			{Role: model.RoleUser, Parts: []model.Part{{Text: "Begin."}}},
		},
		Tools: []model.ToolSpec{
			{Name: "read", Description: "Reads a file.", Schema: json.RawMessage(`{"type":"object"}`)},
			{Name: "write", Description: "Writes a file.", Schema: json.RawMessage(`{"type":"object"}`)},
			{Name: "list", Description: "Lists files.", Schema: json.RawMessage(`{"type":"object"}`)},
		},
		Attempt: attempt,
	}
}

// played is all that one stream yielded.
type played struct {
	events   []model.Event
	errs     []error
	mistakes []string // against the port itself
}

// play reads a stream to its end, or until next says to leave.
func play(ctx context.Context, p model.Provider, r model.Request, next func(model.Event) bool) played {
	var got played
	done := false
	for ev, err := range p.Stream(ctx, r) {
		switch {
		case len(got.errs) > 0:
			got.mistakes = append(got.mistakes, "something follows an error")
		case done:
			got.mistakes = append(got.mistakes, "something follows Done")
		case len(got.events) == maxPlayedEvents:
			got.mistakes = append(got.mistakes, "the stream does not end")
		}
		if len(got.mistakes) > 0 {
			return got
		}
		if err != nil {
			got.errs = append(got.errs, err)
			continue
		}
		if n := fieldsSet(ev); n != 1 {
			got.mistakes = append(got.mistakes, "an event does not have exactly one field set")
		}
		got.events = append(got.events, ev)
		done = ev.Done != ""
		if next != nil && !next(ev) {
			return got
		}
	}
	if !reflect.DeepEqual(r, request(r.Attempt)) {
		got.mistakes = append(got.mistakes, "the provider changed the request")
	}
	return got
}

func fieldsSet(ev model.Event) int {
	n := 0
	for _, set := range []bool{
		ev.Text != "", ev.Reasoning != nil, ev.ItemDone, ev.Call != nil, ev.Usage != nil, ev.Done != "",
	} {
		if set {
			n++
		}
	}
	return n
}

// within fails the test when a stream does not end at once.
func within(t *testing.T, run func() played) played {
	t.Helper()
	result := make(chan played, 1)
	go func() { result <- run() }()
	select {
	case got := <-result:
		return got
	case <-time.After(stopGrace):
		t.Fatalf("the stream did not end within %v", stopGrace)
		return played{}
	}
}

func (p played) assemble() (model.Response, error) {
	var a model.Assembler
	for _, ev := range p.events {
		if _, err := a.Add(ev); err != nil {
			break
		}
	}
	return a.Result()
}

func (p played) checkPort(t *testing.T) {
	t.Helper()
	for _, m := range p.mistakes {
		t.Error(m)
	}
}

func (p played) checkSuccess(t *testing.T, want Try) {
	t.Helper()
	p.checkPort(t)
	if len(p.errs) > 0 {
		t.Fatalf("got the error %v", p.errs[0])
	}
	if n := len(p.events); n == 0 || p.events[n-1].Done == "" {
		t.Fatal("the stream ended without Done")
	}
	got, err := p.assemble()
	if err != nil {
		t.Fatalf("assemble: %v", err)
	}
	if text := strings.Join(want.Text, ""); got.Text != text {
		t.Errorf("text is %q, want %q", got.Text, text)
	}
	// A service may keep its thinking to itself.
	if thought := reasoningOf(got); thought != "" && thought != want.Reasoning {
		t.Errorf("reasoning is %q, want %q", thought, want.Reasoning)
	}
	if got, want := shapes(t, got.Calls), shapes(t, want.Calls); !reflect.DeepEqual(got, want) {
		t.Errorf("calls are %v, want %v", got, want)
	}
	if got.Usage != want.Usage {
		t.Errorf("usage is %+v, want %+v", got.Usage, want.Usage)
	}
	if got.Stop != want.Stop {
		t.Errorf("stop reason is %q, want %q", got.Stop, want.Stop)
	}
}

func reasoningOf(r model.Response) string {
	var all strings.Builder
	for _, p := range r.Parts {
		if p.Reasoning != nil {
			all.WriteString(p.Reasoning.Text)
		}
	}
	return all.String()
}

// shapes leaves out ids, which some services do not have, and the
// formatting of arguments, which some services send as values.
func shapes(t *testing.T, calls []model.RawCall) [][2]any {
	t.Helper()
	all := make([][2]any, len(calls))
	for i, c := range calls {
		var args any
		if err := json.Unmarshal([]byte(c.Args), &args); err != nil {
			t.Errorf("the arguments of call %d are not complete JSON: %q", i+1, c.Args)
		}
		all[i] = [2]any{c.Name, args}
	}
	return all
}

func (p played) checkFailure(t *testing.T, want model.Error) {
	t.Helper()
	p.checkPort(t)
	if len(p.errs) != 1 {
		t.Fatalf("got the errors %v, want exactly one", p.errs)
	}
	var got *model.Error
	if !errors.As(p.errs[0], &got) {
		t.Fatalf("got an error of type %T, want *model.Error: %v", p.errs[0], p.errs[0])
	}
	if got.Message == "" {
		t.Error("the error has no message")
	}
	want.Message = got.Message
	if *got != want {
		t.Errorf("the error is %+v, want %+v", *got, want)
	}
}

// checkEnded demands that the end of the context is reported as what it is, so
// that nobody takes it for a failure of the service and tries again.
func (p played) checkEnded(t *testing.T, want error) {
	t.Helper()
	p.checkPort(t)
	if len(p.errs) != 1 || !errors.Is(p.errs[0], want) {
		t.Errorf("got the errors %v, want exactly %v", p.errs, want)
	}
}
