package anthropic

import "stave/internal/model/codec"

// quickDelta reads the event that comes by the thousand: a fragment of text or
// of arguments. What is anything else, or written in another way, is not ok and
// for the thorough reader.
func quickDelta(data []byte) (ev event, ok bool) {
	var index int64
	var d delta
	is, hasIndex, deltas := false, false, 0
	s := codec.Scan(data)
	s.Object(func(name []byte) {
		switch string(name) {
		case "type":
			if is = s.Is("content_block_delta"); !is {
				s.Fail()
			}
		case "index":
			index, hasIndex = s.Int(), true
		case "delta":
			deltas++
			s.Object(func(name []byte) {
				switch string(name) {
				case "type":
					d.Type = s.Text()
				case "text":
					d.Text = text(s.Text())
				case "partial_json":
					d.Partial = text(s.Text())
				default:
					s.Fail()
				}
			})
		default:
			s.Fail()
		}
	})
	if !s.Ok() || !is || !hasIndex || deltas != 1 {
		return event{}, false
	}
	return event{Type: "content_block_delta", Index: &index, Delta: &d}, true
}
