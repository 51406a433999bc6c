package openai

import "stave/internal/model/codec"

// quickChunk is quickEvent for the Chat dialect.
func quickChunk(data []byte) (c chatChunk, ok bool) {
	s := codec.Scan(data)
	s.Object(func(name []byte) {
		switch string(name) {
		case "choices":
			c.Choices = once(&s, c.Choices)
			s.List(func() {
				var choice chatChoice
				quickChoice(&s, &choice)
				c.Choices = append(c.Choices, choice)
			})
		case "usage":
			c.Usage = s.Value()
		case "error":
			s.Fail()
		case "object":
			c.Object = quickString(&s)
		default:
			s.Other(name)
		}
	})
	return c, s.Ok()
}

func quickChoice(s *codec.Scanner, c *chatChoice) {
	s.Object(func(name []byte) {
		switch string(name) {
		case "index":
			c.Index = s.Int()
		case "delta":
			quickChatDelta(s, &c.Delta)
		case "finish_reason":
			c.FinishReason = quickString(s)
		default:
			s.Other(name)
		}
	})
}

func quickChatDelta(s *codec.Scanner, d *chatDelta) {
	s.Object(func(name []byte) {
		switch string(name) {
		case "content":
			d.Content = content(quickString(s))
		case "refusal":
			d.Refusal = quickString(s)
		case "reasoning_content":
			d.ReasoningContent = quickString(s)
		case "reasoning":
			d.Reasoning = quickString(s)
		case "tool_calls":
			d.ToolCalls = once(s, d.ToolCalls)
			s.List(func() {
				var call chatCallDelta
				quickCall(s, &call)
				d.ToolCalls = append(d.ToolCalls, call)
			})
		default:
			s.Other(name)
		}
	})
}

func quickCall(s *codec.Scanner, c *chatCallDelta) {
	s.Object(func(name []byte) {
		switch string(name) {
		case "index":
			index := s.Int()
			c.Index = &index
		case "id":
			c.ID = s.Text()
		case "function":
			s.Object(func(name []byte) {
				switch string(name) {
				case "name":
					c.Function.Name = s.Text()
				case "arguments":
					c.Function.Arguments = quickArguments(s)
				default:
					s.Other(name)
				}
			})
		default:
			s.Other(name)
		}
	})
}
