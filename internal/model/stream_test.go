package model

import (
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func streamOf(err error, events ...Event) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for _, ev := range events {
			if !yield(ev, nil) {
				return
			}
		}
		if err != nil {
			yield(Event{}, err)
		}
	}
}

// Assemble emits every delta in order and stops reading at Done.
func TestAssembleStream(t *testing.T) {
	var got []Delta
	r, err := Assemble(streamOf(errors.New("never read"), text("a\xc3"), used(1, 1), text("\xbc"), itemDone(), calls("x", "read"), done(StopToolCalls)),
		Limits{}, func(d Delta) error { got = append(got, d); return nil })
	if err != nil {
		t.Fatal(err)
	}
	want := []Delta{{Text: "a"}, {Text: "ü"}, {ItemDone: true}, {ItemDone: true}, {ItemDone: true}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("deltas (-want +got):\n%s", diff)
	}
	if r.Text != "aü" || len(r.Calls) != 1 {
		t.Errorf("got the text %q and %d calls", r.Text, len(r.Calls))
	}
}

// An error of the stream or of emit is returned as it is, with what had come.
func TestAssembleStreamErrors(t *testing.T) {
	lost, enough := &Error{Kind: ErrOverloaded, Message: "busy"}, errors.New("enough")
	ignore := func(Delta) error { return nil }
	for _, tc := range []struct {
		name   string
		stream iter.Seq2[Event, error]
		emit   func(Delta) error
		want   error
	}{
		{"stream", streamOf(lost, text("a"), calls("x", "read")), ignore, lost},
		{"emit", streamOf(nil, text("a"), done(StopEnd)), func(Delta) error { return enough }, enough},
		{"emit at the end", streamOf(nil, text("a"), calls("x", "read"), done(StopToolCalls)), func() func(Delta) error {
			n := 0
			return func(Delta) error {
				if n++; n == 3 {
					return enough
				}
				return nil
			}
		}(), enough},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := Assemble(tc.stream, Limits{}, tc.emit)
			if err != tc.want { //nolint:errorlint // the very same error is the point
				t.Errorf("got %v, want %v", err, tc.want)
			}
			if r.Text != "a" || len(r.Calls) > 0 {
				t.Errorf("got the text %q and the calls %v, want a and none", r.Text, r.Calls)
			}
		})
	}
}

func TestTransient(t *testing.T) {
	for kind, want := range map[ErrorKind]bool{
		ErrStream: true, ErrRateLimited: true, ErrOverloaded: true, ErrTimeout: true,
		ErrAuth: false, ErrBadRequest: false, ErrLimit: false, ErrInternal: false, "": false,
	} {
		if got := kind.Transient(); got != want {
			t.Errorf("%q transient is %v, want %v", kind, got, want)
		}
	}
}

func BenchmarkAssemble10000Deltas(b *testing.B) {
	for name, delta := range map[string]string{"clean": "a few words ", "split runes": "\x83 words and half a snowman \xe2\x98"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var a Assembler
				for range 10_000 {
					if _, err := a.Add(Event{Text: delta}); err != nil {
						b.Fatal(err)
					}
				}
				if _, err := a.Add(Event{Done: StopEnd}); err != nil {
					b.Fatal(err)
				}
				if r, err := a.Result(); err != nil || !strings.Contains(r.Text, "words") {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/10_000, "ns/delta")
		})
	}
}
