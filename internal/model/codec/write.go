// Package codec writes the JSON of requests and reads that of streams without
// reflection, and keeps what was written of a conversation, so that a request
// costs what is new in it.
package codec

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// String appends a JSON string. Bytes that are not UTF-8 become U+FFFD, as
// package json has it. HTML is not escaped: it would only be longer.
func String(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= 0x20 && c != '"' && c != '\\' {
				i++
				continue
			}
			b = appendEscaped(append(b, s[from:i]...), c)
			i++
			from = i
			continue
		}
		r, width := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && width == 1 {
			b = append(append(b, s[from:i]...), "\uFFFD"...)
			from = i + width
		}
		i += width
	}
	return append(append(b, s[from:]...), '"')
}

func appendEscaped(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\n':
		return append(b, '\\', 'n')
	case '\r':
		return append(b, '\\', 'r')
	case '\t':
		return append(b, '\\', 't')
	}
	return append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

// Field appends a name, which must need no escapes, and a string.
func Field(b []byte, name, value string) []byte { return String(Name(b, name), value) }

// IntField appends a name and a number.
func IntField(b []byte, name string, n int64) []byte { return strconv.AppendInt(Name(b, name), n, 10) }

// BoolField appends a name and true or false.
func BoolField(b []byte, name string, v bool) []byte { return strconv.AppendBool(Name(b, name), v) }

// Name appends a name, which must need no escapes, after a comma where
// something of the same object stands before it.
func Name(b []byte, name string) []byte {
	b = append(Comma(b), '"')
	return append(append(b, name...), '"', ':')
}

// Comma appends a comma unless an object or a list has just begun.
func Comma(b []byte) []byte {
	if n := len(b); n > 0 && b[n-1] != '{' && b[n-1] != '[' {
		return append(b, ',')
	}
	return b
}

// Base64 appends data as the inside of a JSON string.
func Base64(b, data []byte) []byte { return base64.StdEncoding.AppendEncode(b, data) }

// Raw appends a JSON text without its spaces, and says where it is none.
func Raw(b []byte, raw json.RawMessage) ([]byte, error) {
	out := bytes.NewBuffer(b)
	if err := json.Compact(out, raw); err != nil {
		return b, err
	}
	return out.Bytes(), nil
}
