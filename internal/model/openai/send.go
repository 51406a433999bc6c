package openai

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"

	"github.com/openai/openai-go/v3/option"

	"stave/internal/model"
)

// send makes one request through the SDK and returns an answer that is a
// stream, or an error of ours. The answer is taken on its way in: of a refusal
// the SDK would read a body of any length.
func (s *service) send(ctx context.Context, request func(opts ...option.RequestOption) error) (*http.Response, error) {
	var answer *http.Response
	sent := false
	err := request(option.WithMiddleware(func(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
		sent = true
		res, err := next(req)
		if err != nil {
			return nil, s.unreachable(err)
		}
		if refused := s.check(res); refused != nil {
			_ = res.Body.Close()
			return nil, refused
		}
		answer = res
		return res, nil
	}))
	var known *model.Error
	switch {
	case err == nil && answer != nil:
		return answer, nil
	case errors.As(err, &known):
		return nil, known
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err == nil || sent:
		return nil, &model.Error{Kind: model.ErrInternal, Message: s.clean("the request to " + s.Name + " ended without an answer")}
	}
	return nil, &model.Error{Kind: model.ErrBadRequest, Message: s.clean("the request to " + s.Name + " cannot be written: " + err.Error())}
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
