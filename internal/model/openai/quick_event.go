package openai

import "stave/internal/model/codec"

// quickEvent reads the events of the Responses dialect in the way they are mostly
// written, but for errors. What is not ok is for the thorough reader.
func quickEvent(data []byte) (kind string, ev responsesEvent, ok bool) {
	s := codec.Scan(data)
	s.Object(func(name []byte) {
		switch string(name) {
		case "type":
			kind = s.Text()
		case "output_index":
			ev.OutputIndex = s.Int()
		case "summary_index":
			ev.SummaryIndex = s.Int()
		case "delta":
			ev.Delta = quickString(&s)
		case "arguments":
			ev.Arguments = quickArguments(&s)
		case "item":
			quickItem(&s, &ev.Item)
		case "response":
			quickResponse(&s, &ev.Response)
		case "error":
			s.Fail()
		default:
			s.Other(name)
		}
	})
	return kind, ev, s.Ok() && kind != "" && kind != "error"
}

func quickItem(s *codec.Scanner, w *wireItem) {
	s.Object(func(name []byte) {
		switch string(name) {
		case "id":
			w.ID = s.Text()
		case "type":
			w.Type = s.Text()
		case "call_id":
			w.CallID = s.Text()
		case "name":
			w.Name = s.Text()
		case "arguments":
			w.Arguments = quickArguments(s)
		case "encrypted_content":
			w.EncryptedContent = quickString(s)
		case "summary":
			w.Summary = quickParts(s, w.Summary)
		case "content":
			w.Content = quickParts(s, w.Content)
		default:
			s.Other(name)
		}
	})
}

func quickParts(s *codec.Scanner, before []wirePart) []wirePart {
	parts := once(s, before)
	s.List(func() {
		var p wirePart
		s.Object(func(name []byte) {
			switch string(name) {
			case "text":
				p.Text = quickString(s)
			case "refusal":
				p.Refusal = quickString(s)
			default:
				s.Other(name)
			}
		})
		parts = append(parts, p)
	})
	return parts
}

func quickResponse(s *codec.Scanner, w *wireResponse) {
	s.Object(func(name []byte) {
		switch string(name) {
		case "status":
			w.Status = s.Text()
		case "error":
			w.Error = s.Value()
		case "output":
			w.Output = once(s, w.Output)
			s.List(func() {
				var item wireItem
				quickItem(s, &item)
				w.Output = append(w.Output, item)
			})
		case "usage":
			w.Usage = s.Value()
		case "incomplete_details":
			if s.TakeNull() {
				return
			}
			s.Object(func(name []byte) {
				if string(name) == "reason" {
					w.Incomplete.Reason = s.Text()
				} else {
					s.Other(name)
				}
			})
		default:
			s.Other(name)
		}
	})
}

// once begins a list. Coming twice it would have to be joined.
func once[T any](s *codec.Scanner, before []T) []T {
	if before != nil {
		s.Fail()
	}
	return []T{}
}

func quickString(s *codec.Scanner) text {
	if s.TakeNull() {
		return ""
	}
	return text(s.Text())
}

func quickArguments(s *codec.Scanner) arguments { return arguments(quickString(s)) }

// quickUsage reads a usage as both dialects mostly write it.
func quickUsage(data []byte) (w wireUsage, ok bool) {
	s := codec.Scan(data)
	s.Object(func(name []byte) {
		switch string(name) {
		case "input_tokens", "prompt_tokens":
			n := s.Int()
			if name[0] == 'i' {
				w.InputTokens = &n
			} else {
				w.PromptTokens = &n
			}
		case "output_tokens":
			w.OutputTokens = s.Int()
		case "completion_tokens":
			w.CompletionTokens = s.Int()
		case "input_tokens_details":
			w.InputDetail = quickInput(&s, w.InputDetail)
		case "prompt_tokens_details":
			w.PromptDetail = quickInput(&s, w.PromptDetail)
		case "output_tokens_details":
			w.OutputDetail = quickOutput(&s, w.OutputDetail)
		case "completion_tokens_details":
			w.CompletionDetail = quickOutput(&s, w.CompletionDetail)
		default:
			s.Other(name)
		}
	})
	return w, s.Ok()
}

func quickInput(s *codec.Scanner, before *inDetail) *inDetail {
	if before != nil {
		s.Fail()
	}
	d := &inDetail{}
	s.Object(func(name []byte) {
		switch string(name) {
		case "cached_tokens":
			d.Cached = s.Int()
		case "cache_write_tokens":
			d.CacheWrite = s.Int()
		default:
			s.Other(name)
		}
	})
	return d
}

func quickOutput(s *codec.Scanner, before *outDetail) *outDetail {
	if before != nil {
		s.Fail()
	}
	d := &outDetail{}
	s.Object(func(name []byte) {
		if string(name) == "reasoning_tokens" {
			d.Reasoning = s.Int()
		} else {
			s.Other(name)
		}
	})
	return d
}
