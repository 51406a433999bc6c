package openai

import (
	"bytes"
	"context"
	"io"
	"mime"
	"net/http"
	"net/url"
)

// post sends a request and returns an answer that is a stream, or an error of ours.
func (s *service) post(ctx context.Context, path string, body []byte) (*http.Response, error) {
	// A query of the base URL belongs to the base.
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.base.ResolveReference(&url.URL{Path: path}).String(), bytes.NewReader(body))
	if err != nil {
		return nil, badRequest("%s", s.clean("the request to "+s.Name+" cannot be written: "+err.Error()))
	}
	s.setHeaders(req.Header)
	res, err := s.client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, s.unreachable(err)
	}
	if refused := s.check(res); refused != nil {
		_ = res.Body.Close()
		return nil, refused
	}
	return res, nil
}

func (s *service) setHeaders(h http.Header) {
	h.Set("Content-Type", "application/json")
	h.Set("User-Agent", "stave")
	h.Set("Accept", "text/event-stream")
	// A compressed stream would be unpacked before our limits see it.
	h.Set("Accept-Encoding", "identity")
	for name, value := range map[string]string{"OpenAI-Organization": s.Organization, "OpenAI-Project": s.Project} {
		if value != "" {
			h.Set(name, value)
		}
	}
	if s.APIKey != "" {
		h.Set("Authorization", "Bearer "+s.APIKey)
	}
	for name, value := range s.Headers {
		h.Set(name, value)
	}
}

// check tells a stream from everything else that may come. Servers name their
// streams in many ways, so only what certainly is none is refused.
func (s *service) check(res *http.Response) error {
	if res.StatusCode != http.StatusOK {
		return s.refusal(res)
	}
	if enc := res.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return broken(s.clean(s.Name + " compressed the stream as " + enc + ", which was not asked for"))
	}
	media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	switch media {
	case "text/html":
		return broken(s.Name + " answered with an HTML page where a stream should be; check the base URL, which usually ends in /v1")
	case "application/json":
		body, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBytes))
		if bytes.Contains(body, []byte(`"error"`)) {
			if f := parseFault(body); f.message != "" {
				return s.streamFault(f)
			}
		}
		return broken(s.Name + " answered with one JSON text where a stream should be; it does not stream, or something between us holds the stream back")
	}
	return nil
}
