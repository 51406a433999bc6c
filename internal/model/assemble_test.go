package model

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func text(s string) Event      { return Event{Text: s} }
func think(s string) Event     { return Event{Reasoning: &Reasoning{Text: s}} }
func seal(s string) Event      { return Event{Reasoning: &Reasoning{Opaque: s}} }
func done(s StopReason) Event  { return Event{Done: s} }
func calls(id, n string) Event { return Event{Call: &RawCall{ID: id, Name: n, Args: "{}"}} }
func itemDone() Event          { return Event{ItemDone: true} }
func used(in, out int64) Event { return Event{Usage: &Usage{InputTokens: in, OutputTokens: out}} }

func assemble(l Limits, events ...Event) (Response, []Delta, error) {
	a := NewAssembler(l)
	var deltas []Delta
	for _, ev := range events {
		d, err := a.Add(ev)
		if d != (Delta{}) {
			deltas = append(deltas, d)
		}
		if err != nil {
			break
		}
	}
	r, err := a.Result()
	return r, deltas, err
}

// The table shows what becomes of every kind of stream that ends with Done.
func TestAssembleComplete(t *testing.T) {
	read := RawCall{ID: "a", Name: "read", Args: "{}"}
	for _, tc := range []struct {
		name   string
		events []Event
		want   Response
	}{
		{"nothing said", []Event{done(StopEnd)}, Response{Stop: StopEnd}},
		{"text", []Event{text("Hel"), text(""), text("lo"), done(StopEnd)}, Response{
			Parts: []Part{{Text: "Hello"}}, Text: "Hello", Stop: StopEnd,
		}},
		{
			"thought, text, call and usage",
			[]Event{think("hm"), think("m"), seal("si"), seal("g"), itemDone(), text("Look."), itemDone(), calls("a", "read"), used(7, 3), done(StopToolCalls)},
			Response{
				Parts: []Part{{Reasoning: &Reasoning{Text: "hmm", Opaque: "sig"}}, {Text: "Look."}},
				Text:  "Look.", Calls: []RawCall{read}, Usage: Usage{InputTokens: 7, OutputTokens: 3}, UsageReported: true, Stop: StopToolCalls,
			},
		},
		{"an opaque end closes its thought", []Event{think("a"), seal("1"), think("b"), seal("2"), done(StopEnd)}, Response{
			Parts: []Part{{Reasoning: &Reasoning{Text: "a", Opaque: "1"}}, {Reasoning: &Reasoning{Text: "b", Opaque: "2"}}}, Stop: StopEnd,
		}},
		{"an item without content leaves no part", []Event{think(""), itemDone(), text("a"), itemDone(), itemDone(), text("b"), done(StopEnd)}, Response{
			Parts: []Part{{Text: "a"}, {Text: "b"}}, Text: "ab", Stop: StopEnd,
		}},
		{"doubled and empty ids are left to the caller", []Event{calls("a", "read"), calls("a", "read"), calls("", "read"), done(StopToolCalls)}, Response{
			Calls: []RawCall{read, read, {Name: "read", Args: "{}"}}, Stop: StopToolCalls,
		}},
		{"calls decide over the stop reason", []Event{calls("a", "read"), done(StopEnd)}, Response{Calls: []RawCall{read}, Stop: StopToolCalls}},
		{"cut short by length, a call is withheld", []Event{calls("a", "read"), done(StopLength)}, Response{WithheldCalls: 1, Stop: StopLength}},
		{"refused, a call is withheld", []Event{calls("a", "read"), done(StopRefusal)}, Response{WithheldCalls: 1, Stop: StopRefusal}},
		{"events after Done are ignored", []Event{text("a"), done(StopEnd), text("b"), calls("a", "read"), used(1, 1), done(StopLength)}, Response{
			Parts: []Part{{Text: "a"}}, Text: "a", Stop: StopEnd,
		}},
		{"the last usage wins", []Event{used(1, 1), used(5, 6), done(StopEnd)}, Response{
			Usage: Usage{InputTokens: 5, OutputTokens: 6}, UsageReported: true, Stop: StopEnd,
		}},
		{"an impossible usage is clamped", []Event{used(-1, 1<<62), done(StopEnd)}, Response{
			Usage: Usage{OutputTokens: MaxUsageTokens}, UsageReported: true, UsageClamped: true, Stop: StopEnd,
		}},
		{"NUL and stray bytes become U+FFFD", []Event{text("a\x00b\xffc"), done(StopEnd)}, Response{
			Parts: []Part{{Text: "a\uFFFDb\uFFFDc"}}, Text: "a\uFFFDb\uFFFDc", Repaired: 2, Stop: StopEnd,
		}},
		{"an item boundary inside a rune ends it", []Event{text("\xe2\x98"), itemDone(), text("\x83"), done(StopEnd)}, Response{
			Parts: []Part{{Text: "\uFFFD\uFFFD"}, {Text: "\uFFFD"}}, Text: "\uFFFD\uFFFD\uFFFD", Repaired: 3, Stop: StopEnd,
		}},
		{"usage does not split a rune", []Event{text("\xe2\x98"), used(0, 0), text("\x83"), done(StopEnd)}, Response{
			Parts: []Part{{Text: "☃"}}, Text: "☃", UsageReported: true, Stop: StopEnd,
		}},
		{"names are repaired, arguments are not", []Event{{Call: &RawCall{ID: "\xff", Name: "r\x00", Args: "\xff\x00"}}, done(StopToolCalls)}, Response{
			Calls: []RawCall{{ID: "\uFFFD", Name: "r\uFFFD", Args: "\xff\x00"}}, Repaired: 2, Stop: StopToolCalls,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, deltas, err := assemble(Limits{}, tc.events...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("response (-want +got):\n%s", diff)
			}
			checkDeltas(t, deltas, got)
		})
	}
}

// checkDeltas demands that whoever watched saw exactly what was assembled.
func checkDeltas(t *testing.T, deltas []Delta, r Response) {
	t.Helper()
	var said, thought, want strings.Builder
	for _, d := range deltas {
		said.WriteString(d.Text)
		thought.WriteString(d.Reasoning)
	}
	for _, p := range r.Parts {
		if p.Reasoning != nil {
			want.WriteString(p.Reasoning.Text)
		}
	}
	if said.String() != r.Text || thought.String() != want.String() {
		t.Errorf("deltas say %q and think %q; the response says %q and thinks %q", said.String(), thought.String(), r.Text, want.String())
	}
}

// The table shows the error of every stream that gives no response, and that
// what had come is kept while calls are not.
func TestAssembleIncomplete(t *testing.T) {
	for _, tc := range []struct {
		name   string
		limits Limits
		events []Event
		want   Error
		text   string
	}{
		{"no event", Limits{}, nil, Error{Kind: ErrStream, Retryable: true}, ""},
		{"cut in the text", Limits{}, []Event{text("Hel")}, Error{Kind: ErrStream, Retryable: true}, "Hel"},
		{"cut in a rune", Limits{}, []Event{text("Gr\xc3")}, Error{Kind: ErrStream, Retryable: true}, "Gr"},
		{"cut after a call", Limits{}, []Event{text("a"), calls("a", "read")}, Error{Kind: ErrStream, Retryable: true}, "a"},
		{"tool calls promised", Limits{}, []Event{text("a"), done(StopToolCalls)}, Error{Kind: ErrStream, Retryable: true}, "a"},
		{"opaque end not UTF-8", Limits{}, []Event{seal("\xff"), done(StopEnd)}, Error{Kind: ErrStream, Retryable: true}, ""},
		{"unknown stop reason", Limits{}, []Event{text("a"), done("tired\xff")}, Error{Kind: ErrInternal}, "a"},
		{"too many bytes", Limits{Bytes: 5}, []Event{text("abc"), text("def"), done(StopEnd)}, Error{Kind: ErrLimit}, "abc"},
		{"too many bytes after the repair", Limits{Bytes: 5}, []Event{text("\xff\xff"), done(StopEnd)}, Error{Kind: ErrLimit}, ""},
		{"too many bytes of thought", Limits{Bytes: 5}, []Event{think("abc"), seal("def"), done(StopEnd)}, Error{Kind: ErrLimit}, ""},
		{"too many bytes of arguments", Limits{Bytes: 8}, []Event{text("a"), calls("id", "read"), done(StopEnd)}, Error{Kind: ErrLimit}, "a"},
		{"too many events", Limits{Events: 2}, []Event{text("a"), text("b"), text("c"), done(StopEnd)}, Error{Kind: ErrLimit}, "ab"},
		{"too many empty events", Limits{Events: 2}, []Event{{}, {}, {}, done(StopEnd)}, Error{Kind: ErrLimit}, ""},
		{"too many items", Limits{Items: 2}, []Event{text("a"), itemDone(), text("b"), itemDone(), text("c"), done(StopEnd)}, Error{Kind: ErrLimit}, "ab"},
		{"too many calls", Limits{Calls: 1}, []Event{text("a\xc3"), calls("a", "read"), calls("b", "read"), done(StopEnd)}, Error{Kind: ErrLimit}, "a\uFFFD"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, deltas, err := assemble(tc.limits, tc.events...)
			var typed *Error
			if !errors.As(err, &typed) {
				t.Fatalf("got the error %v, want a *Error", err)
			}
			if diff := cmp.Diff(tc.want, *typed, cmpopts.IgnoreFields(Error{}, "Message")); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if got.Text != tc.text || len(got.Calls) > 0 {
				t.Errorf("kept the text %q and the calls %v, want %q and none", got.Text, got.Calls, tc.text)
			}
			checkDeltas(t, deltas, got)
		})
	}
}

func TestAssemblerStaysWithItsError(t *testing.T) {
	a := NewAssembler(Limits{Bytes: 1})
	_, first := a.Add(text("ab"))
	_, second := a.Add(done(StopEnd))
	if first == nil || !errors.Is(second, first) {
		t.Errorf("got %v and then %v, want the same error twice", first, second)
	}
}

// The defaults hold against streams that never end, at a bounded cost.
func TestDefaultLimits(t *testing.T) {
	for name, ev := range map[string]Event{
		"text": text(strings.Repeat("x", 4096)), "empty": {}, "calls": calls("", "read"),
		"items": {Text: "a", ItemDone: true}, "opaque": seal("s"), "huge": text(strings.Repeat("x", MaxResponseBytes+1)),
	} {
		t.Run(name, func(t *testing.T) {
			var (
				a   Assembler
				err error
			)
			for range MaxResponseEvents + 1 {
				if _, err = a.Add(ev); err != nil {
					break
				}
			}
			var typed *Error
			if !errors.As(err, &typed) || typed.Kind != ErrLimit || typed.Retryable {
				t.Errorf("got %v, want a limit that is not retryable", err)
			}
		})
	}
}
