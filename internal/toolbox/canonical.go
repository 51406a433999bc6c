package toolbox

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// MaxArgsBytes is the largest argument text that is looked at.
	MaxArgsBytes = 8 << 20
	// MaxArgsDepth is how deep objects and arrays may nest.
	MaxArgsDepth = 64

	maxSafeInteger = 1<<53 - 1
	// RFC 8785 writes whole numbers below this without an exponent, so a float
	// in between would come out as an integer that we refuse to read.
	firstExponent = 1e21

	digestDomain     = "stave/args/v2"
	definitionDomain = "stave/tool/v1"
)

// Canonical parses arguments as a model wrote them and returns their RFC 8785
// bytes. Everything two readers could understand differently is refused. An
// empty text stands for no arguments.
func Canonical(raw string) (json.RawMessage, error) {
	if strings.TrimSpace(raw) == "" {
		return json.RawMessage("{}"), nil
	}
	if len(raw) > MaxArgsBytes {
		return nil, fmt.Errorf("arguments are %d bytes long, at most %d are allowed", len(raw), MaxArgsBytes)
	}
	if err := checkStrict([]byte(raw)); err != nil {
		return nil, err
	}
	value := jsontext.Value(raw)
	if err := value.Canonicalize(); err != nil {
		return nil, syntaxProblem(err)
	}
	return json.RawMessage(value), nil
}

// Digest names one call: the tool, what the tool was at that time, and its
// canonical arguments.
func Digest(tool, definition string, args json.RawMessage) string {
	h := sha256.New()
	io.WriteString(h, digestDomain+"\x00"+tool+"\x00"+definition+"\x00") // a hash never fails
	h.Write(args)
	return hex.EncodeToString(h.Sum(nil))
}

// Definition names what a tool says of itself: who approved a call approved it of
// this tool and no other.
func (t Tool) Definition() string {
	h := sha256.New()
	io.WriteString(h, definitionDomain)
	for _, part := range []string{t.Name, t.Description, string(t.Schema), string(t.Safety)} {
		fmt.Fprintf(h, "\x00%d\x00%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// checkStrict reads every token once: the decoder finds bad syntax, doubled
// names and bad text, we find what it lets pass.
func checkStrict(raw []byte) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(raw))
	if d.PeekKind() != jsontext.KindBeginObject {
		if _, err := d.ReadToken(); err != nil {
			return syntaxProblem(err)
		}
		return errors.New(`arguments must be one JSON object such as {"name": "value"}`)
	}
	for {
		token, err := d.ReadToken()
		if err != nil {
			return syntaxProblem(err)
		}
		if d.StackDepth() > MaxArgsDepth {
			return fmt.Errorf("arguments nest deeper than %d levels", MaxArgsDepth)
		}
		if token.Kind() == jsontext.KindNumber {
			if err := checkNumber(token.String()); err != nil {
				return fmt.Errorf("%s: %w", fieldName(d.StackPointer()), err)
			}
		}
		if d.StackDepth() == 0 {
			break
		}
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return errors.New("arguments must be one JSON object with nothing after it")
	}
	return nil
}

// checkNumber refuses numbers that change their value on the way through a
// float64, because then two different texts would be the same call.
func checkNumber(literal string) error {
	f, err := strconv.ParseFloat(literal, 64)
	if err != nil {
		return fmt.Errorf("the number %s is out of range", shorten(literal))
	}
	written := !strings.ContainsAny(literal, ".eE")
	if math.Abs(f) > maxSafeInteger && (written || math.Abs(f) < firstExponent) {
		return fmt.Errorf("the integer %s is beyond ±%d; write it as a string", shorten(literal), int64(maxSafeInteger))
	}
	return nil
}

// syntaxProblem rewrites a parser's error as a sentence a model can act on.
func syntaxProblem(err error) error {
	var s *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("arguments are not complete JSON: the text ends too early")
	case errors.Is(err, jsontext.ErrDuplicateName) && errors.As(err, &s):
		return fmt.Errorf("field %s is given twice", fieldName(s.JSONPointer))
	case errors.As(err, &s):
		return fmt.Errorf("arguments are not valid JSON: %w at byte %d%s", s.Err, s.ByteOffset, inField(s.JSONPointer))
	}
	return fmt.Errorf("arguments are not valid JSON: %w", err)
}

func inField(p jsontext.Pointer) string {
	if p == "" {
		return ""
	}
	return ", in " + fieldName(p)
}

// fieldName writes a JSON pointer the way people name fields: a.b[2].
func fieldName(p jsontext.Pointer) string {
	var b strings.Builder
	for token := range p.Tokens() {
		switch _, err := strconv.Atoi(token); {
		case err == nil && b.Len() > 0:
			b.WriteString("[" + token + "]")
		case b.Len() > 0:
			b.WriteString("." + token)
		default:
			b.WriteString(token)
		}
	}
	return strconv.Quote(shorten(b.String()))
}

const maxQuoted = 80

// shorten keeps what is echoed back to a model small and valid.
func shorten(s string) string {
	if len(s) <= maxQuoted {
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	cut := maxQuoted
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return strings.ToValidUTF8(s[:cut], "\uFFFD") + "…"
}
