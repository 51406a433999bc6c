package anthropic

import "stave/internal/model/codec"

// quickEvent reads the events of an answer in the way they are mostly written,
// but for errors. What is not ok is for the thorough reader.
func quickEvent(data []byte) (ev event, ok bool) {
	s := codec.Scan(data)
	s.Object(func(name []byte) {
		switch string(name) {
		case "type":
			ev.Type = s.Text()
		case "index":
			index := s.Int()
			ev.Index = &index
		case "message":
			ev.Message = once(&s, ev.Message)
			s.Object(func(name []byte) {
				if string(name) == "usage" {
					ev.Message.Usage = quickUsage(&s, ev.Message.Usage)
				} else {
					s.Other(name)
				}
			})
		case "content_block":
			ev.Block = once(&s, ev.Block)
			quickBlock(&s, ev.Block)
		case "delta":
			ev.Delta = once(&s, ev.Delta)
			quickMessageDelta(&s, ev.Delta)
		case "usage":
			ev.Usage = quickUsage(&s, ev.Usage)
		case "error":
			s.Fail()
		default:
			s.Other(name)
		}
	})
	return ev, s.Ok()
}

// once makes what is read next. Coming twice it would have to be joined.
func once[T any](s *codec.Scanner, before *T) *T {
	if before != nil {
		s.Fail()
	}
	return new(T)
}

func quickBlock(s *codec.Scanner, c *content) {
	s.Object(func(name []byte) {
		switch string(name) {
		case "type":
			c.Type = s.Text()
		case "text":
			c.Text = text(s.Text())
		case "thinking":
			c.Thinking = text(s.Text())
		case "signature":
			c.Signature = text(s.Text())
		case "data":
			c.Data = text(s.Text())
		case "id":
			c.ID = text(s.Text())
		case "name":
			c.Name = text(s.Text())
		case "input":
			c.Input = s.Value()
		default:
			s.Other(name)
		}
	})
}

// quickMessageDelta reads the delta of a message, or of a thought; quickDelta has
// those of text and arguments.
func quickMessageDelta(s *codec.Scanner, d *delta) {
	s.Object(func(name []byte) {
		switch string(name) {
		case "type":
			d.Type = s.Text()
		case "thinking":
			d.Thinking = text(s.Text())
		case "signature":
			d.Signature = text(s.Text())
		case "stop_reason":
			if !s.TakeNull() {
				d.StopReason = s.Text()
			}
		case "text", "partial_json":
			s.Fail()
		default:
			s.Other(name)
		}
	})
}

func quickUsage(s *codec.Scanner, before *usage) *usage {
	u := once(s, before)
	s.Object(func(name []byte) {
		switch string(name) {
		case "input_tokens":
			u.Input = quickCount(s)
		case "output_tokens":
			u.Output = quickCount(s)
		case "cache_read_input_tokens":
			u.CacheRead = quickCount(s)
		case "cache_creation_input_tokens":
			u.CacheWrite = quickCount(s)
		case "output_tokens_details":
			quickDetails(s, u)
		default:
			s.Other(name)
		}
	})
	return u
}

func quickDetails(s *codec.Scanner, u *usage) {
	u.Details = once(s, u.Details)
	s.Object(func(name []byte) {
		if string(name) == "thinking_tokens" {
			u.Details.Thinking = quickCount(s)
		} else {
			s.Other(name)
		}
	})
}

func quickCount(s *codec.Scanner) *count {
	if s.TakeNull() {
		return nil
	}
	var c count
	if c.UnmarshalJSON(s.Value()) != nil {
		s.Fail()
	}
	return &c
}
