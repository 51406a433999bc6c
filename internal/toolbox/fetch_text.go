package toolbox

import (
	"bytes"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"
)

// webPage is what a host answered, as text.
type webPage struct {
	url    *url.URL
	status int
	kind   string // its media type
	title  string
	text   string
	notes  []string
	cut    bool // the answer was longer than what is read
}

// convert turns an answer into text, or refuses it.
func (p *webPage) convert(contentType string, body []byte) error {
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil || kind == "" {
		kind, params, _ = mime.ParseMediaType(http.DetectContentType(body))
		params["charset"] = "" // a guess of the sniffer, which knows only UTF-8
	}
	p.kind = shorten(kind)
	if !isText(kind) {
		return fmt.Errorf("%s is %s of %d bytes, which is not text", where(p.url), p.kind, len(body))
	}
	if bytes.IndexByte(body[:min(len(body), sniffBytes)], 0) >= 0 {
		return fmt.Errorf("%s says it is %s but is binary", where(p.url), p.kind)
	}
	text := p.decode(params["charset"], body)
	if isHTML(kind) {
		h := newPageText(p.url)
		h.read(text)
		text, p.title, p.cut = h.String(), h.title(), p.cut || h.cut
	}
	clean, dropped := visible(text)
	if p.title, _ = visible(p.title); dropped > 0 {
		p.notes = append(p.notes, fmt.Sprintf("%d invisible characters were left out", dropped))
	}
	p.text = clean
	return nil
}

func isHTML(kind string) bool { return kind == "text/html" || kind == "application/xhtml+xml" }

// isText knows the media types that are text although they are not called so.
func isText(kind string) bool {
	switch kind {
	case "application/json", "application/xml", "application/xhtml+xml", "application/javascript", "application/x-javascript",
		"application/yaml", "application/x-yaml", "application/toml", "application/x-ndjson", "application/x-sh", "application/sql",
		"application/graphql":
		return true
	}
	return strings.HasPrefix(kind, "text/") || strings.HasPrefix(kind, "application/") &&
		(strings.HasSuffix(kind, "+json") || strings.HasSuffix(kind, "+xml") || strings.HasSuffix(kind, "+yaml"))
}

// decode makes UTF-8 of the body. Text that is valid UTF-8 hardly ever is
// anything else, whatever its label says; the rest is mostly Windows-1252.
func (p *webPage) decode(charset string, body []byte) string {
	body = bytes.TrimPrefix(body, []byte("\uFEFF"))
	if p.cut {
		body = trimPartial(body)
	}
	if utf8.Valid(body) {
		return string(body)
	}
	switch strings.ToLower(charset) {
	case "", "iso-8859-1", "latin1", "windows-1252", "cp1252":
		return fromWindows1252(body)
	}
	p.notes = append(p.notes, fmt.Sprintf("text in %q is not converted: bytes that are not UTF-8 are shown as \uFFFD", shorten(charset)))
	return strings.ToValidUTF8(string(body), "\uFFFD")
}

// windows1252 are the characters of the bytes 0x80 to 0x9f; elsewhere it is
// Latin-1, where bytes are the first Unicode characters.
const windows1252 = "€\u0081‚ƒ„…†‡ˆ‰Š‹Œ\u008dŽ\u008f\u0090‘’“”•–—˜™š›œ\u009džŸ"

func fromWindows1252(body []byte) string {
	high := []rune(windows1252)
	var b strings.Builder
	b.Grow(len(body))
	for _, c := range body {
		if 0x80 <= c && c <= 0x9f {
			b.WriteRune(high[c-0x80])
		} else {
			b.WriteRune(rune(c))
		}
	}
	return b.String()
}

// visible drops characters that nobody sees: they hide instructions from people
// and move the cursor of a terminal.
func visible(text string) (clean string, dropped int) {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	clean = strings.Map(func(r rune) rune {
		if hidden(r) {
			dropped++
			return -1
		}
		return r
	}, text)
	return clean, dropped
}

func hidden(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < ' ', 0x7f <= r && r <= 0x9f: // control characters, escape sequences among them
		return true
	case r == 0xad, r == 0x180e, r == 0x200b, r == 0x200e, r == 0x200f, r == 0x61c, r == 0xfeff, r == 0x3164:
		return true // no width
	case 0x2028 <= r && r <= 0x202e, 0x2060 <= r && r <= 0x206f: // separators, direction of writing, invisible operators
		return true
	case 0xfff0 <= r && r <= 0xfffb, 0xe0000 <= r && r <= 0xe0fff: // annotations, tags
		return true
	}
	return false
}
