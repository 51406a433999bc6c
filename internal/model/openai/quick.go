package openai

import "stave/internal/model/codec"

// quickText reads the event of the Responses dialect that comes by the thousand:
// a fragment of text or of arguments. What is anything else, or written in another
// way, is not ok and for the thorough reader.
func quickText(data []byte) (kind string, ev responsesEvent, ok bool) {
	deltas := 0
	s := codec.Scan(data)
	s.Object(func(name []byte) {
		switch string(name) {
		case "type":
			switch kind = s.Text(); kind {
			case "response.output_text.delta", "response.function_call_arguments.delta":
			default:
				s.Fail()
			}
		case "output_index":
			ev.OutputIndex = s.Int()
		case "delta":
			ev.Delta = text(s.Text())
			deltas++
		case "sequence_number", "item_id", "content_index", "logprobs", "obfuscation":
			s.Value()
		default:
			s.Fail()
		}
	})
	return kind, ev, s.Ok() && kind != "" && deltas == 1
}

// quickContent is quickText for the Chat dialect, where it knows only text.
func quickContent(data []byte) (fragment string, ok bool) {
	choices, deltas := 0, 0
	s := codec.Scan(data)
	delta := func(name []byte) {
		switch string(name) {
		case "content":
			fragment = s.Text()
			deltas++
		case "role":
			s.Value()
		default:
			s.Null()
		}
	}
	choice := func(name []byte) {
		switch string(name) {
		case "index":
			if s.Int() != 0 {
				s.Fail()
			}
		case "delta":
			s.Object(delta)
		case "logprobs":
			s.Value()
		default:
			s.Null()
		}
	}
	s.Object(func(name []byte) {
		switch string(name) {
		case "choices":
			s.List(func() {
				choices++
				s.Object(choice)
			})
		case "object":
			if !s.Is("chat.completion.chunk") {
				s.Fail()
			}
		case "id", "created", "model", "system_fingerprint", "service_tier", "obfuscation":
			s.Value()
		default:
			s.Null()
		}
	})
	return fragment, s.Ok() && choices == 1 && deltas == 1
}
