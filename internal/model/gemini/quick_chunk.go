package gemini

import "stave/internal/model/codec"

// quickChunk reads an event in the way it is mostly written. What is not ok is
// for the thorough reader: errors, blocked prompts and every name not known here.
func quickChunk(data []byte) (c chunk, ok bool) {
	s := codec.Scan(data)
	s.Object(func(name []byte) {
		switch string(name) {
		case "candidates":
			if c.Candidates != nil {
				s.Fail() // coming twice they would have to be joined
			}
			c.Candidates = []candidate{}
			s.List(func() {
				var one candidate
				quickCandidate(&s, &one)
				c.Candidates = append(c.Candidates, one)
			})
		case "usageMetadata":
			if c.Usage != nil {
				s.Fail()
			}
			c.Usage = quickUsage(&s)
		case "modelVersion", "responseId":
			s.Value()
		default:
			s.Fail()
		}
	})
	return c, s.Ok()
}

func quickCandidate(s *codec.Scanner, c *candidate) {
	s.Object(func(name []byte) {
		switch string(name) {
		case "index":
			c.Index = int(s.Int())
		case "content":
			s.Object(func(name []byte) {
				switch string(name) {
				case "role":
					s.Value()
				case "parts":
					if c.Content.Parts != nil {
						s.Fail()
					}
					c.Content.Parts = quickParts(s)
				default:
					s.Fail()
				}
			})
		case "finishReason":
			c.Finish = s.Text()
		case "safetyRatings":
			s.Value()
		default:
			s.Fail()
		}
	})
}

func quickParts(s *codec.Scanner) []heard {
	parts := []heard{}
	s.List(func() {
		var h heard
		s.Object(func(name []byte) {
			switch string(name) {
			case "text":
				text := s.Text()
				h.Text = &text
			case "thoughtSignature":
				h.Signature = s.Text()
			case "functionCall":
				if h.Call != nil {
					s.Fail()
				}
				h.Call = quickCall(s)
			default:
				s.Fail()
			}
		})
		parts = append(parts, h)
	})
	return parts
}

func quickCall(s *codec.Scanner) *call {
	c := &call{}
	s.Object(func(name []byte) {
		switch string(name) {
		case "id":
			c.ID = s.Text()
		case "name":
			c.Name = s.Text()
		case "args":
			c.Args = s.Value()
		default:
			s.Fail()
		}
	})
	return c
}

func quickUsage(s *codec.Scanner) *usage {
	u := &usage{}
	count := func(t *tokens) {
		if t.UnmarshalJSON(s.Value()) != nil {
			s.Fail()
		}
	}
	s.Object(func(name []byte) {
		switch string(name) {
		case "promptTokenCount":
			count(&u.Prompt)
		case "toolUsePromptTokenCount":
			count(&u.Tools)
		case "candidatesTokenCount":
			count(&u.Answer)
		case "thoughtsTokenCount":
			count(&u.Thoughts)
		case "cachedContentTokenCount":
			count(&u.Cached)
		case "totalTokenCount", "promptTokensDetails", "candidatesTokensDetails", "cacheTokensDetails":
			s.Value()
		default:
			s.Fail()
		}
	})
	return u
}
