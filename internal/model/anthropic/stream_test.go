package anthropic

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stave/internal/model"
)

// A stream with everything the API sends becomes the events of the port: calls
// by index and only at the end, foreign blocks left out, usage added up.
func TestEverything(t *testing.T) {
	got, err := collect(t, streamOf(t, fixture(t, "everything")).provider(), question())
	if err != nil {
		t.Fatal(err)
	}
	thought := func(r model.Reasoning) model.Event { r.Origin = Origin; return model.Event{Reasoning: &r} }
	done := model.Event{ItemDone: true}
	want := []model.Event{
		{Usage: &model.Usage{InputTokens: 4321, OutputTokens: 2, CachedTokens: 4000, CacheWriteTokens: 300}},
		thought(model.Reasoning{Text: "Two files, "}),
		thought(model.Reasoning{Text: "so two calls."}),
		thought(model.Reasoning{Opaque: "Sm9pbmVy+/=="}),
		done,
		thought(model.Reasoning{Opaque: "RGFyaw==", Redacted: true}),
		done,
		{Text: "I'll look – "},
		{Text: "beide 🪵."},
		done,
		done,
		done,
		{Usage: &model.Usage{InputTokens: 4321, OutputTokens: 77, CachedTokens: 4000, CacheWriteTokens: 300, ReasoningTokens: 40}},
		{Call: &model.RawCall{ID: "toolu_A", Name: "read", Args: `{"path": "a.txt"}`, Opaque: "toolu_A", Origin: Origin}},
		{Call: &model.RawCall{ID: "toolu_B", Name: "list", Args: `{}`, Opaque: "toolu_B", Origin: Origin}},
		{Done: model.StopToolCalls},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// Wherever a complete stream is cut, the attempt fails as a stream error that
// is worth a retry, and no call is given out.
func TestCutAnywhere(t *testing.T) {
	whole := fixture(t, "everything")
	end := strings.LastIndex(whole, "\n\n") + 1 // before the line that ends message_stop
	for at := range end {
		if at > 400 && at%7 != 0 && at < end-300 {
			continue
		}
		p := New(Options{APIKey: testKey})
		var calls int
		err := p.read(strings.NewReader(whole[:at]), nil, func(ev model.Event) error {
			if ev.Call != nil || ev.Done != "" {
				calls++
			}
			return nil
		})
		if calls > 0 {
			t.Fatalf("cut at byte %d, the stream gave out a call or its end", at)
		}
		wantError(t, err, model.ErrStream, true)
	}
}

const (
	hello = `{"type":"message_start","message":{"usage":{"input_tokens":1,"output_tokens":1}}}`
	text0 = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
	call0 = `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_0","name":"read","input":{}}}`
	stop0 = `{"type":"content_block_stop","index":0}`
	text1 = `{"type":"content_block_start","index":1,"content_block":{"type":"text","text":"b"}}`
	stop1 = `{"type":"content_block_stop","index":1}`
	ended = `{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`
	tools = `{"type":"message_delta","delta":{"stop_reason":"tool_use"}}`
	bye   = `{"type":"message_stop"}`
)

func TestMalformedStreams(t *testing.T) {
	for _, c := range []struct {
		name   string
		stream string
	}{
		{"nothing", ""},
		{"not JSON", events(hello) + "data: {\"type\": oops}\n\n"},
		{"not an object", "data: [1]\n\n"},
		{"index reused", events(hello, call0, stop0, call0)},
		{"name changes by reuse of an index", events(hello, call0, strings.Replace(call0, "read", "write", 1))},
		{"no index", events(hello, `{"type":"content_block_start","content_block":{"type":"text"}}`)},
		{"no content", events(hello, `{"type":"content_block_start","index":0}`)},
		{"arguments for an unknown index", events(hello, call0, `{"type":"content_block_delta","index":7,"delta":{"type":"input_json_delta","partial_json":"{"}}`)},
		{"arguments after the end of the block", events(hello, call0, stop0, `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{"}}`)},
		{"text in a call", events(hello, call0, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}`)},
		{"arguments in a text", events(hello, text0, `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{"}}`)},
		{"two texts at once", events(hello, text0, text1)},
		{"end with an open block", events(hello, text0, ended, bye)},
		{"block ends twice", events(hello, text0, stop0, stop0)},
		{"end without a reason", events(hello, text0, stop0, bye)},
		{"an index that is no number", events(hello, strings.Replace(text0, "0", `"zero"`, 1))},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := assemble(t, streamOf(t, c.stream).provider(), question())
			wantError(t, err, model.ErrStream, true)
			if len(r.Calls) > 0 {
				t.Errorf("got the calls %v", r.Calls)
			}
		})
	}
}

func TestStopReasons(t *testing.T) {
	for reason, want := range map[string]model.StopReason{
		"end_turn": model.StopEnd, "stop_sequence": model.StopEnd, "max_tokens": model.StopLength, "refusal": model.StopRefusal,
		"model_context_window_exceeded": model.StopLength, "pause_turn": model.StopLength,
	} {
		r, err := assemble(t, streamOf(t, events(hello, text0, stop0, strings.Replace(ended, "end_turn", reason, 1), bye)).provider(), question())
		if err != nil || r.Stop != want {
			t.Errorf("%s: got %q and the error %v, want %q", reason, r.Stop, err, want)
		}
	}
	_, err := assemble(t, streamOf(t, events(hello, strings.Replace(ended, "end_turn", "bored", 1), bye)).provider(), question())
	if e := wantError(t, err, model.ErrInternal, false); !strings.Contains(e.Message, "bored") {
		t.Errorf("the error does not say why: %s", e.Message)
	}
}

// Bytes that are no text reach the assembler as they came, which repairs and
// counts them; arguments keep them.
func TestBytesThatAreNoText(t *testing.T) {
	delta := func(s string) string {
		return "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"" + s + "\"}}\n\n"
	}
	stream := events(hello, text0) + delta("a\xffb\\u0000c\\n\xc3") + delta("\xbcd\u2028\u202e\\u001b[31m") + events(stop0) +
		"data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"id\":\"\xfe\",\"name\":\"read\",\"input\":{}}}\n\n" +
		"data: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"p\\\":\\\"\xff\\\"}\"}}\n\n" +
		events(stop1, tools, bye)
	r, err := assemble(t, streamOf(t, stream).provider(), question())
	if err != nil {
		t.Fatal(err)
	}
	if want := "a\uFFFDb\uFFFDc\nüd\u2028\u202e\x1b[31m"; r.Text != want || r.Repaired != 3 {
		t.Errorf("the text is %q with %d repairs, want %q with 3", r.Text, r.Repaired, want)
	}
	if c := r.Calls[0]; c.Args != "{\"p\":\"\xff\"}" || c.ID != "\uFFFD" || c.Opaque != "" {
		t.Errorf("the call is %+q", c)
	}
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		usage   string
		want    model.Usage
		clamped bool
	}{
		{`{"input_tokens":5,"output_tokens":6}`, model.Usage{InputTokens: 5, OutputTokens: 6}, false},
		{`{"input_tokens":null,"output_tokens":6}`, model.Usage{InputTokens: 1, OutputTokens: 6}, false},
		{`{"output_tokens":-6}`, model.Usage{InputTokens: 1}, true},
		{`{"input_tokens":-5,"cache_read_input_tokens":9,"output_tokens":1}`, model.Usage{CachedTokens: 9, OutputTokens: 1}, true},
		{`{"output_tokens":9223372036854775807}`, model.Usage{InputTokens: 1, OutputTokens: model.MaxUsageTokens}, true},
		{`{"output_tokens":1e400}`, model.Usage{InputTokens: 1, OutputTokens: model.MaxUsageTokens}, true},
		{`{"output_tokens":"many"}`, model.Usage{InputTokens: 1}, true},
		{`{"input_tokens":9e18,"cache_read_input_tokens":9e18,"output_tokens":1}`, model.Usage{InputTokens: model.MaxUsageTokens, CachedTokens: model.MaxUsageTokens, OutputTokens: 1}, true},
	} {
		stream := events(hello, text0, stop0, `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":`+c.usage+`}`, bye)
		r, err := assemble(t, streamOf(t, stream).provider(), question())
		if err != nil || r.Usage != c.want || r.UsageClamped != c.clamped || !r.UsageReported {
			t.Errorf("%s: got %+v, clamped %v, error %v; want %+v", c.usage, r.Usage, r.UsageClamped, err, c.want)
		}
	}
	r, err := assemble(t, streamOf(t, events(text0, stop0, ended, bye)).provider(), question())
	if err != nil || r.UsageReported {
		t.Errorf("without usage: reported %v, error %v", r.UsageReported, err)
	}
}

// Ids are passed on as they come, doubled or missing: they are only aliases.
func TestOddCalls(t *testing.T) {
	start := func(index, fields string) string {
		return `{"type":"content_block_start","index":` + index + `,"content_block":{"type":"tool_use",` + fields + `}}`
	}
	stop := func(index string) string { return `{"type":"content_block_stop","index":` + index + `}` }
	r, err := assemble(t, streamOf(t, events(hello,
		start("9", `"id":"toolu_x","name":"late","input":{"whole":1}`), stop("9"),
		start("2", `"id":"toolu_x","name":"twin"`), stop("2"),
		start("5", `"name":"nameless id","input":null`), stop("5"),
		tools, bye)).provider(), question())
	if err != nil {
		t.Fatal(err)
	}
	want := []model.RawCall{
		{ID: "toolu_x", Name: "twin", Args: "{}", Opaque: "toolu_x", Origin: Origin},
		{Name: "nameless id", Args: "{}"},
		{ID: "toolu_x", Name: "late", Args: `{"whole":1}`, Opaque: "toolu_x", Origin: Origin},
	}
	if diff := cmp.Diff(want, r.Calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// Text that looks like the protocol is text.
func TestTextThatLooksLikeTheProtocol(t *testing.T) {
	fake := "\n\n" + events(call0, stop0, tools, bye) + "data: [DONE]\n\n"
	r, err := assemble(t, streamOf(t, events(hello, text0,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":`+quoted(fake)+`}}`, stop0, ended, bye)).provider(), question())
	if err != nil || r.Text != fake || len(r.Calls) > 0 || r.Stop != model.StopEnd {
		t.Errorf("got the text %q, the calls %v, stop %q and the error %v", r.Text, r.Calls, r.Stop, err)
	}
}
