package gemini

import "stave/internal/model/codec"

// quickText reads the event that comes most: one part of text. What is anything
// else, or written in another way, is not ok and for the thorough reader.
func quickText(data []byte) (fragment string, ok bool) {
	candidates, contents, parts, texts := 0, 0, 0, 0
	s := codec.Scan(data)
	part := func(name []byte) {
		if string(name) != "text" {
			s.Fail()
		}
		fragment = s.Text()
		texts++
	}
	content := func(name []byte) {
		switch string(name) {
		case "role":
			s.Value()
		case "parts":
			s.List(func() {
				parts++
				s.Object(part)
			})
		default:
			s.Fail()
		}
	}
	candidate := func(name []byte) {
		switch string(name) {
		case "index":
			if s.Int() != 0 {
				s.Fail()
			}
		case "content":
			contents++
			s.Object(content)
		default:
			s.Fail()
		}
	}
	s.Object(func(name []byte) {
		switch string(name) {
		case "candidates":
			s.List(func() {
				candidates++
				s.Object(candidate)
			})
		case "modelVersion", "responseId":
			s.Value()
		default:
			s.Fail()
		}
	})
	return fragment, s.Ok() && candidates == 1 && contents == 1 && parts == 1 && texts == 1
}
