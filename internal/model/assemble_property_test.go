package model

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// clean is the obvious repair of a whole text, to compare with.
func clean(s string) string {
	return strings.ReplaceAll(string([]rune(s)), "\x00", "\uFFFD")
}

// However a text is split into deltas, and wherever usage reports come between
// them, the same text is assembled and every delta is valid UTF-8.
func TestSplitDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := strings.Join(rapid.SliceOf(rapid.OneOf(
			rapid.String(),
			rapid.SampledFrom([]string{"ü", "☃", "🪵", "\x00", "\xff", "\xe2\x98", "\xf0\x9f", "\xed\xa0\x80", "\xc0\x80", "\uFFFD"}),
		)).Draw(t, "pieces"), "")
		var events []Event
		for rest := whole; rest != ""; {
			n := rapid.IntRange(1, min(len(rest), 7)).Draw(t, "length")
			events = append(events, text(rest[:n]))
			rest = rest[n:]
			if rapid.Bool().Draw(t, "usage between") {
				events = append(events, used(1, 1))
			}
		}
		events = append(events, done(StopEnd))
		r, deltas, err := assemble(Limits{}, events...)
		if err != nil {
			t.Fatal(err)
		}
		if want := clean(whole); r.Text != want {
			t.Fatalf("assembled %q, want %q", r.Text, want)
		}
		for _, d := range deltas {
			if !utf8.ValidString(d.Text) {
				t.Fatalf("the delta %q is not UTF-8", d.Text)
			}
		}
	})
}

// Whatever the bytes say, the assembler keeps its promises.
func FuzzAssembler(f *testing.F) {
	f.Add([]byte("\x00Hel\x00lo\x01\x05end"))
	f.Add([]byte("\x02thought\x03sig\x01\x04call\x05tool_calls"))
	f.Add([]byte("\x00\xe2\x98\x01\x00\x83\x06\x05length\x00more"))
	f.Fuzz(func(t *testing.T, data []byte) {
		limits := Limits{Bytes: 200, Events: 50, Items: 5, Calls: 3}
		r, deltas, err := assemble(limits, eventsOf(data)...)
		if (err == nil) != (r.Stop != "") {
			t.Errorf("the error is %v and the stop reason %q", err, r.Stop)
		}
		if len(r.Calls) > limits.Calls || len(r.Parts) > limits.Items || len(r.Text) > limits.Bytes+3*utf8.UTFMax*limits.Items {
			t.Errorf("over the limits: %d calls, %d parts, %d bytes", len(r.Calls), len(r.Parts), len(r.Text))
		}
		if len(r.Calls) > 0 && r.Stop != StopToolCalls {
			t.Errorf("a response that stopped for %q gave calls", r.Stop)
		}
		checkDeltas(t, deltas, r)
		for _, d := range deltas {
			if !utf8.ValidString(d.Text+d.Reasoning) || strings.Contains(d.Text+d.Reasoning, "\x00") {
				t.Errorf("the delta %q %q is not clean", d.Text, d.Reasoning)
			}
		}
		if err != nil && err.Error() != clean(err.Error()) {
			t.Errorf("the error %q is not clean", err)
		}
	})
}

// eventsOf reads a byte below 8 as the kind of an event and what follows as its content.
func eventsOf(data []byte) []Event {
	var events []Event
	for len(data) > 0 {
		kind := data[0] % 8
		data = data[1:]
		end := 0
		for end < len(data) && (data[end] == 0 || data[end] >= 8) {
			end++
		}
		content := string(data[:end])
		data = data[end:]
		events = append(events, []Event{
			text(content), itemDone(), think(content), seal(content), calls(content, content),
			done(StopReason(content)), used(int64(end)-5, 1<<60),
			{Text: content, Reasoning: &Reasoning{Text: content}},
		}[kind])
	}
	return events
}
