package anthropic

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"unicode/utf8"

	"stave/internal/model"
)

// event is what we read of a stream event; the rest is ignored.
type event struct {
	Type    string   `json:"type"`
	Index   *int64   `json:"index"`
	Message *message `json:"message"`       // message_start
	Block   *content `json:"content_block"` // content_block_start
	Delta   *delta   `json:"delta"`         // content_block_delta, message_delta
	Usage   *usage   `json:"usage"`         // message_delta
	Error   *failure `json:"error"`         // error
}

type message struct {
	Usage *usage `json:"usage"`
}

type content struct {
	Type      string          `json:"type"`
	Text      text            `json:"text"`
	Thinking  text            `json:"thinking"`
	Signature text            `json:"signature"`
	Data      text            `json:"data"`
	ID        text            `json:"id"`
	Name      text            `json:"name"`
	Input     json.RawMessage `json:"input"`
}

type delta struct {
	Type       string `json:"type"`
	Text       text   `json:"text"`
	Thinking   text   `json:"thinking"`
	Signature  text   `json:"signature"`
	Partial    text   `json:"partial_json"`
	StopReason string `json:"stop_reason"`
}

type failure struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	Details struct {
		Code string `json:"error_code"`
	} `json:"details"`
}

// usage has counts as the service reports them; one that is not reported is nil.
type usage struct {
	Input      *count `json:"input_tokens"`
	Output     *count `json:"output_tokens"`
	CacheRead  *count `json:"cache_read_input_tokens"`
	CacheWrite *count `json:"cache_creation_input_tokens"`
	Details    *struct {
		Thinking *count `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}

// text is a string whose bytes stay as they came, even where they are not
// UTF-8. Package json would replace those without a word.
type text string

func (t *text) UnmarshalJSON(data []byte) error {
	var s string
	if string(data) == "null" {
		return nil
	}
	if utf8.Valid(data) {
		err := json.Unmarshal(data, &s)
		*t = text(s)
		return err
	}
	if len(data) < 2 || data[0] != '"' {
		return errors.New("not a string")
	}
	var out []byte
	for rest := data[1 : len(data)-1]; len(rest) > 0; {
		n := validPrefix(rest)
		if err := json.Unmarshal(append(append([]byte{'"'}, rest[:n]...), '"'), &s); err != nil {
			return err
		}
		out = append(out, s...)
		if rest = rest[n:]; len(rest) > 0 {
			out = append(out, rest[0])
			rest = rest[1:]
		}
	}
	*t = text(out)
	return nil
}

func validPrefix(b []byte) int {
	n := 0
	for n < len(b) {
		r, width := utf8.DecodeRune(b[n:])
		if r == utf8.RuneError && width == 1 {
			break
		}
		n += width
	}
	return n
}

// count is a number of tokens. What cannot be one becomes a number that is
// known to be impossible, so that it is noticed and clamped further on.
type count int64

const impossible = model.MaxUsageTokens + 1

func (c *count) UnmarshalJSON(data []byte) error {
	n, err := strconv.ParseInt(string(bytes.TrimSpace(data)), 10, 64)
	switch {
	case err == nil && n >= 0:
		*c = count(min(n, impossible))
	case len(data) > 0 && (data[0] == '-' || data[0] == '"'):
		*c = -1
	default:
		*c = impossible
	}
	return nil
}

// tally is the usage as far as it has been reported.
type tally struct {
	input, output, cacheRead, cacheWrite, thinking int64
}

func (t *tally) add(u *usage) {
	for _, f := range []struct {
		to   *int64
		from *count
	}{{&t.input, u.Input}, {&t.output, u.Output}, {&t.cacheRead, u.CacheRead}, {&t.cacheWrite, u.CacheWrite}} {
		if f.from != nil {
			*f.to = int64(*f.from)
		}
	}
	if u.Details != nil && u.Details.Thinking != nil {
		t.thinking = int64(*u.Details.Thinking)
	}
}

// usage counts what came from a cache to the input, as the port does and the API does not.
func (t *tally) usage() *model.Usage {
	u := &model.Usage{
		InputTokens: t.input + t.cacheRead + t.cacheWrite, OutputTokens: t.output,
		CachedTokens: t.cacheRead, CacheWriteTokens: t.cacheWrite, ReasoningTokens: t.thinking,
	}
	if min(t.input, t.cacheRead, t.cacheWrite) < 0 {
		u.InputTokens = -1
	}
	return u
}
