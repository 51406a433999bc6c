package anthropic

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"

	"stave/internal/conformance"
	"stave/internal/model"
)

func TestConformance(t *testing.T) {
	conformance.Provider(t, func(t *testing.T, s conformance.ProviderScenario) model.Provider {
		return serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
			play(w, r, s.Tries[min(n, len(s.Tries)-1)])
		}).provider()
	})
}

// play answers as the API would.
func play(w http.ResponseWriter, r *http.Request, try conformance.Try) {
	if e := try.Refusal; e != nil {
		refuse(w, e)
		return
	}
	startStream(w)
	say := func(format string, args ...any) {
		_, _ = io.WriteString(w, frame(fmt.Sprintf(format, args...)))
		_ = http.NewResponseController(w).Flush()
	}
	playBlocks(try, say)
	switch try.Ending {
	case conformance.Complete:
		say(`{"type":"message_delta","delta":{"stop_reason":%q},"usage":{"input_tokens":%d,"output_tokens":%d}}`,
			wireStops[try.Stop], try.Usage.InputTokens, try.Usage.OutputTokens)
		say(`{"type":"message_stop"}`)
	case conformance.Cut:
		hangUp(w)
	case conformance.Stall:
		<-r.Context().Done()
	case conformance.Endless:
		say(`{"type":"content_block_start","index":90,"content_block":{"type":"text","text":""}}`)
		for r.Context().Err() == nil {
			say(`{"type":"content_block_delta","index":90,"delta":{"type":"text_delta","text":"and on "}}`)
		}
	}
}

var wireStops = map[model.StopReason]string{
	model.StopEnd: "end_turn", model.StopToolCalls: "tool_use", model.StopLength: "max_tokens", model.StopRefusal: "refusal",
}

func refuse(w http.ResponseWriter, e *model.Error) {
	status := map[model.ErrorKind]int{
		model.ErrRateLimited: 429, model.ErrOverloaded: 529, model.ErrAuth: 401, model.ErrBadRequest: 400,
	}[e.Kind]
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(int(e.RetryAfter.Seconds())))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, `{"type":"error","error":{"type":"some_error","message":"not today"}}`)
}

func playBlocks(try conformance.Try, say func(string, ...any)) {
	say(`{"type":"message_start","message":{"id":"msg_1","role":"assistant","content":[]}}`)
	index := 0
	blockOf := func(start string, deltas ...string) {
		say(`{"type":"content_block_start","index":%d,"content_block":%s}`, index, start)
		say(`{"type":"ping"}`)
		for _, d := range deltas {
			say(`{"type":"content_block_delta","index":%d,"delta":%s}`, index, d)
		}
		say(`{"type":"content_block_stop","index":%d}`, index)
		index++
	}
	if try.Reasoning != "" {
		blockOf(`{"type":"thinking","thinking":"","signature":""}`,
			`{"type":"thinking_delta","thinking":`+quoted(try.Reasoning)+`}`, `{"type":"signature_delta","signature":"c2ln"}`)
	}
	var deltas []string
	for _, piece := range try.Text {
		deltas = append(deltas, `{"type":"text_delta","text":`+quoted(piece)+`}`)
	}
	switch {
	case try.Ending == conformance.Stall || try.Ending == conformance.Endless:
		say(`{"type":"content_block_start","index":%d,"content_block":{"type":"text","text":""}}`, index)
		for _, d := range deltas {
			say(`{"type":"content_block_delta","index":%d,"delta":%s}`, index, d)
		}
		if try.Ending == conformance.Endless {
			say(`{"type":"content_block_stop","index":%d}`, index)
		}
	case deltas != nil:
		blockOf(`{"type":"text","text":""}`, deltas...)
	}
	for _, c := range try.Calls {
		half := len(c.Args) / 2
		blockOf(`{"type":"tool_use","id":`+quoted("toolu_"+c.ID)+`,"name":`+quoted(c.Name)+`,"input":{}}`,
			`{"type":"input_json_delta","partial_json":""}`,
			`{"type":"input_json_delta","partial_json":`+quoted(c.Args[:half])+`}`,
			`{"type":"input_json_delta","partial_json":`+quoted(c.Args[half:])+`}`)
	}
}

func quoted(s string) string {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(data)
}
