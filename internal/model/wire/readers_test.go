package wire_test

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"stave/internal/model"
)

// errTold is an error that came as an event of the stream.
var errTold = errors.New("told in the stream")

// event is one server-sent event; its data is JSON, or "[DONE]".
type event struct {
	name string
	data string
}

func (e event) into(v any) { _ = json.Unmarshal([]byte(e.data), v) }

// events reads a stream and checks its form.
func events(t *testing.T, body io.Reader) []event {
	t.Helper()
	data, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	var all []event
	for text := range strings.SplitSeq(strings.TrimSuffix(string(data), "\n\n"), "\n\n") {
		if text == "" {
			continue
		}
		var e event
		for line := range strings.SplitSeq(text, "\n") {
			if name, ok := strings.CutPrefix(line, "event: "); ok {
				e.name = name
			} else if data, ok := strings.CutPrefix(line, "data: "); ok {
				e.data = data
			} else {
				t.Fatalf("the line %q is none of an event", line)
			}
		}
		var typed struct{ Type string }
		if e.data != "[DONE]" && !json.Valid([]byte(e.data)) {
			t.Fatalf("not JSON: %s", e.data)
		}
		if e.into(&typed); e.name != "" && e.name != typed.Type {
			t.Fatalf("the event %q says it is a %q", e.name, typed.Type)
		}
		all = append(all, e)
	}
	return all
}

// addThought keeps thoughts as one part.
func addThought(r *model.Response, text, opaque string) {
	if text+opaque == "" {
		return
	}
	if len(r.Parts) == 0 {
		r.Parts = []model.Part{{Reasoning: &model.Reasoning{}}}
	}
	r.Parts[0].Reasoning.Text += text
	r.Parts[0].Reasoning.Opaque += opaque
}

func readAnthropic(all []event) (model.Response, error) {
	var r model.Response
	open, calls := -1, map[int]int{}
	for _, e := range all {
		var d struct {
			Index int
			Block struct{ Type, ID, Name string } `json:"content_block"`
			Delta struct {
				Type, Text, Thinking, Signature string
				JSON                            string `json:"partial_json"`
				Stop                            string `json:"stop_reason"`
			}
			Usage struct {
				In   int64 `json:"input_tokens"`
				Out  int64 `json:"output_tokens"`
				Read int64 `json:"cache_read_input_tokens"`
			}
		}
		e.into(&d)
		switch e.name {
		case "error":
			return r, errTold
		case "content_block_start":
			if open >= 0 {
				return r, errors.New("a block begins in another")
			}
			open = d.Index
			if d.Block.Type == "tool_use" {
				calls[d.Index] = len(r.Calls)
				r.Calls = append(r.Calls, model.RawCall{ID: d.Block.ID, Name: d.Block.Name})
			}
		case "content_block_delta":
			if open != d.Index {
				return r, errors.New("a delta of no open block")
			}
			r.Text += d.Delta.Text
			addThought(&r, d.Delta.Thinking, d.Delta.Signature)
			if d.Delta.Type == "input_json_delta" {
				r.Calls[calls[d.Index]].Args += d.Delta.JSON
			}
		case "content_block_stop":
			open = -1
		case "message_delta":
			r.Usage = model.Usage{InputTokens: d.Usage.In + d.Usage.Read, OutputTokens: d.Usage.Out, CachedTokens: d.Usage.Read}
			r.Stop = map[string]model.StopReason{
				"end_turn": model.StopEnd, "tool_use": model.StopToolCalls, "max_tokens": model.StopLength, "refusal": model.StopRefusal,
			}[d.Delta.Stop]
		}
	}
	if r.Stop != "" && all[len(all)-1].name != "message_stop" {
		return r, errors.New("no message_stop")
	}
	return r, nil
}

// readResponses reads the deltas and demands that the end repeats them.
func readResponses(all []event) (model.Response, error) {
	var r model.Response
	var thought string
	for i, e := range all {
		var d struct {
			Sequence int `json:"sequence_number"`
			Delta    string
			Item     struct {
				Type, Name, Arguments string
				CallID                string `json:"call_id"`
				Encrypted             string `json:"encrypted_content"`
			}
			Response struct {
				Status string
				Output []struct {
					Type    string
					Content []struct{ Text string }
				}
				Usage struct {
					In  int64 `json:"input_tokens"`
					Out int64 `json:"output_tokens"`
				}
				Why struct{ Reason string } `json:"incomplete_details"`
			}
		}
		e.into(&d)
		if d.Sequence != i {
			return r, errors.New("the numbers of the events have a gap")
		}
		switch e.name {
		case "response.failed":
			return r, errTold
		case "response.output_text.delta":
			r.Text += d.Delta
		case "response.reasoning_summary_text.delta":
			thought += d.Delta
		case "response.output_item.done":
			if d.Item.Type == "function_call" {
				r.Calls = append(r.Calls, model.RawCall{ID: d.Item.CallID, Name: d.Item.Name, Args: d.Item.Arguments})
			}
			if d.Item.Type == "reasoning" {
				addThought(&r, thought, d.Item.Encrypted)
			}
		case "response.completed", "response.incomplete":
			repeated := ""
			for _, o := range d.Response.Output {
				for _, c := range o.Content {
					repeated += c.Text
				}
			}
			if repeated != r.Text {
				return r, errors.New("the end does not repeat the text")
			}
			r.Usage = model.Usage{InputTokens: d.Response.Usage.In, OutputTokens: d.Response.Usage.Out}
			r.Stop = map[string]model.StopReason{
				"": model.StopEnd, "max_output_tokens": model.StopLength, "content_filter": model.StopRefusal,
			}[d.Response.Why.Reason]
			if len(r.Calls) > 0 {
				r.Stop = model.StopToolCalls
			}
		}
	}
	return r, nil
}

func readChat(all []event) (model.Response, error) {
	var r model.Response
	for _, e := range all {
		var d struct {
			Error   any
			Choices []struct {
				Delta struct {
					Content   string
					Reasoning string `json:"reasoning_content"`
					Calls     []struct {
						Index    int
						ID       string
						Function struct{ Name, Arguments string }
					} `json:"tool_calls"`
				}
				Finish string `json:"finish_reason"`
			}
			Usage struct {
				In  int64 `json:"prompt_tokens"`
				Out int64 `json:"completion_tokens"`
			}
		}
		e.into(&d)
		if d.Error != nil {
			return r, errTold
		}
		if d.Usage.In > 0 {
			r.Usage = model.Usage{InputTokens: d.Usage.In, OutputTokens: d.Usage.Out}
		}
		for _, c := range d.Choices {
			r.Text += c.Delta.Content
			addThought(&r, c.Delta.Reasoning, "")
			for _, made := range c.Delta.Calls {
				if made.Index == len(r.Calls) {
					r.Calls = append(r.Calls, model.RawCall{ID: made.ID, Name: made.Function.Name})
				}
				r.Calls[made.Index].Args += made.Function.Arguments
			}
			if c.Finish != "" {
				r.Stop = map[string]model.StopReason{
					"stop": model.StopEnd, "tool_calls": model.StopToolCalls, "length": model.StopLength, "content_filter": model.StopRefusal,
				}[c.Finish]
			}
		}
	}
	if r.Stop != "" && all[len(all)-1].data != "[DONE]" {
		return r, errors.New("no [DONE]")
	}
	return r, nil
}

func readGemini(all []event) (model.Response, error) {
	var r model.Response
	for _, e := range all {
		var d struct {
			Error      any
			Candidates []struct {
				Content struct {
					Parts []struct {
						Text      string
						Thought   bool
						Signature string `json:"thoughtSignature"`
						Call      *struct {
							ID, Name string
							Args     json.RawMessage
						} `json:"functionCall"`
					}
				}
				Finish string `json:"finishReason"`
			}
			Usage struct {
				In  int64 `json:"promptTokenCount"`
				Out int64 `json:"candidatesTokenCount"`
			} `json:"usageMetadata"`
		}
		e.into(&d)
		if d.Error != nil {
			return r, errTold
		}
		r.Usage = model.Usage{InputTokens: d.Usage.In, OutputTokens: d.Usage.Out}
		for _, p := range d.Candidates[0].Content.Parts {
			switch {
			case p.Thought:
				addThought(&r, p.Text, p.Signature)
			case p.Call != nil:
				r.Calls = append(r.Calls, model.RawCall{ID: p.Call.ID, Name: p.Call.Name, Args: string(p.Call.Args)})
			default:
				r.Text += p.Text
			}
		}
		r.Stop = map[string]model.StopReason{
			"STOP": model.StopEnd, "MAX_TOKENS": model.StopLength, "SAFETY": model.StopRefusal,
		}[d.Candidates[0].Finish]
		if r.Stop == model.StopEnd && len(r.Calls) > 0 {
			r.Stop = model.StopToolCalls
		}
	}
	return r, nil
}
