package openai

import (
	"encoding/json"

	"stave/internal/model"
)

// chatReader makes sense of a Chat Completions stream, of which every server
// has its own idea.
type chatReader struct {
	service *service
	out     *sink
	calls   chatCalls
	usage   *model.Usage
	finish  string // the finish_reason, once it came
	refused bool
}

func newChatReader(s *service, out *sink) *chatReader { return &chatReader{service: s, out: out} }

type chatChunk struct {
	Choices []chatChoice    `json:"choices"`
	Usage   json.RawMessage `json:"usage"`
	Error   json.RawMessage `json:"error"`
	Object  text            `json:"object"`
}

type chatChoice struct {
	Index        int64     `json:"index"`
	Delta        chatDelta `json:"delta"`
	FinishReason text      `json:"finish_reason"`
}

type chatDelta struct {
	Content          content         `json:"content"`
	Refusal          text            `json:"refusal"`
	ReasoningContent text            `json:"reasoning_content"`
	Reasoning        text            `json:"reasoning"`
	ToolCalls        []chatCallDelta `json:"tool_calls"`
}

func (r *chatReader) event(_ string, data []byte) (bool, error) {
	if isDone(data) {
		return true, r.end()
	}
	if fragment, ok := quickContent(data); ok {
		return false, r.out.text(fragment)
	}
	chunk, ok := quickChunk(data)
	if !ok {
		chunk = chatChunk{}
		if json.Unmarshal(data, &chunk) != nil {
			return false, notJSON(data)
		}
	}
	if present(chunk.Error) || chunk.Object == "error" {
		return false, r.service.streamFault(parseFault(data))
	}
	if u := usageOf(chunk.Usage); u != nil {
		r.usage = u
	}
	for i := range chunk.Choices {
		c := &chunk.Choices[i]
		if c.Index != 0 {
			continue // one answer was asked for
		}
		if err := r.delta(&c.Delta); err != nil {
			return false, err
		}
		if c.FinishReason != "" && r.finish == "" {
			r.finish = string(c.FinishReason)
		}
	}
	return false, nil
}

func (r *chatReader) delta(d *chatDelta) error {
	// Servers in the middle of renaming the field send both.
	thought := d.ReasoningContent
	if thought == "" {
		thought = d.Reasoning
	}
	if err := r.out.thought(string(thought)); err != nil {
		return err
	}
	r.refused = r.refused || d.Refusal != ""
	if err := r.out.text(string(d.Content) + string(d.Refusal)); err != nil {
		return err
	}
	if len(d.ToolCalls) == 0 {
		return nil
	}
	if err := r.out.endItem(); err != nil {
		return err
	}
	return r.calls.addAll(d.ToolCalls)
}

// end takes [DONE] or the orderly end of the body.
func (r *chatReader) end() error {
	if r.finish == "" {
		return broken("the stream of " + r.service.Name + " ended before the response was complete: no finish_reason came")
	}
	calls := r.calls.list()
	stop, err := r.stop(len(calls))
	if err != nil {
		return err
	}
	return r.out.finish(calls, r.usage, stop)
}

func (r *chatReader) stop(calls int) (model.StopReason, error) {
	switch r.finish {
	case "length", "max_tokens":
		return model.StopLength, nil
	case "content_filter", "refusal", "safety":
		return model.StopRefusal, nil
	case "error", "abort", "cancelled", "insufficient_system_resource":
		return "", broken(r.service.clean(r.service.Name + " gave up on the response: " + r.finish))
	case "tool_calls", "function_call":
		if calls == 0 {
			return "", broken("the response of " + r.service.Name + " ended for tool calls and has none")
		}
	}
	switch {
	case r.refused:
		return model.StopRefusal, nil
	case calls > 0:
		return model.StopToolCalls, nil
	}
	return model.StopEnd, nil
}
