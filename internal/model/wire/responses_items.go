package wire

import "stave/internal/model"

// start makes sure that an item of this type is open.
func (s *responsesSpeaker) start(kind string) {
	if s.open == kind {
		return
	}
	s.stop()
	s.open = kind
	prefix := "msg"
	if kind == "reasoning" {
		prefix = "rs"
	}
	s.itemID = s.number(prefix)
	added := s.event("response.output_item.added").raw(`"output_index":`).integer(s.index).raw(`,"item":{"id":"`).raw(s.itemID)
	if kind == "reasoning" {
		added.raw(`","type":"reasoning","summary":[]}}`).end()
		s.inItem("response.reasoning_summary_part.added").raw(`"summary_index":0,"part":{"type":"summary_text","text":""}}`).end()
		return
	}
	added.raw(`","type":"message","status":"in_progress","role":"assistant","content":[]}}`).end()
	s.inItem("response.content_part.added").raw(`"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}}`).end()
}

func (s *responsesSpeaker) add(text string) { s.said = append(s.said, text...) }

// stop closes the open item.
func (s *responsesSpeaker) stop() {
	text := string(s.said)
	switch s.open {
	case "message":
		part := string(appendQuoted([]byte(`{"type":"output_text","annotations":[],"text":`), text)) + `}`
		s.inItem("response.output_text.done").raw(`"content_index":0,"text":`).text(text).raw(`}`).end()
		s.inItem("response.content_part.done").raw(`"content_index":0,"part":`).raw(part).raw(`}`).end()
		s.done(`{"id":"` + s.itemID + `","type":"message","status":"completed","role":"assistant","content":[` + part + `]}`)
	case "reasoning":
		part := string(appendQuoted([]byte(`{"type":"summary_text","text":`), text)) + `}`
		s.inItem("response.reasoning_summary_text.done").raw(`"summary_index":0,"text":`).text(text).raw(`}`).end()
		s.inItem("response.reasoning_summary_part.done").raw(`"summary_index":0,"part":`).raw(part).raw(`}`).end()
		s.done(`{"id":"` + s.itemID + `","type":"reasoning","summary":[` + part + `]` + s.encrypted() + `}`)
	}
}

func (s *responsesSpeaker) encrypted() string {
	if s.opaque == "" {
		return ""
	}
	return `,"encrypted_content":` + string(appendQuoted(nil, s.opaque))
}

// done tells of a finished item and keeps it for the end.
func (s *responsesSpeaker) done(item string) {
	s.event("response.output_item.done").raw(`"output_index":`).integer(s.index).raw(`,"item":`).raw(item).raw(`}`).end()
	if len(s.output) > 0 {
		s.output = append(s.output, ',')
	}
	s.output = append(s.output, item...)
	s.open, s.said, s.opaque = "", s.said[:0], ""
	s.index++
}

// whole writes the response that a stream would end with.
func (responses) whole(out *stream, c call, r model.Response) {
	s := &responsesSpeaker{stream: out, call: c, id: out.number("resp")}
	for _, p := range r.Parts {
		switch {
		case p.Reasoning != nil:
			s.say(model.Event{Reasoning: p.Reasoning})
		case p.Text != "":
			s.say(model.Event{Text: p.Text})
		}
		s.stop()
	}
	for i := range r.Calls {
		s.makeCall(r.Calls[i])
	}
	out.buf = out.buf[:0] // the events nobody asked for
	if r.UsageReported {
		s.usage = &r.Usage
	}
	status, more := ended(r.Stop)
	s.response(status, more)
}
