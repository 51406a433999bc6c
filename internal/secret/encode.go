package secret

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// encodings lists the forms in which a value is looked for.
func encodings(value string) []string {
	lower := hex.EncodeToString([]byte(value))
	list := []string{value, lower, strings.ToUpper(lower)}
	list = append(list, base64Forms(value)...)
	list = append(list, percentForms(value)...)
	return append(list, jsonForms(value)...)
}

// base64Forms lists what a value looks like in base64: alone, with and without
// padding, and in the middle of something longer, where it may begin at any of
// three places of a group. There only those letters count that nothing else has
// a part in.
func base64Forms(value string) []string {
	var list []string
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		list = append(list, enc.EncodeToString([]byte(value)), enc.WithPadding(base64.NoPadding).EncodeToString([]byte(value)))
		for before, shared := range []int{0, 2, 3} {
			text := enc.EncodeToString(append(make([]byte, before), value...))
			if end := (before + len(value)) * 8 / 6; end > shared { // of nothing, nothing is sure
				list = append(list, text[shared:end])
			}
		}
	}
	return list
}

var escape = regexp.MustCompile("%[0-9A-F]{2}")

// percentForms lists how the usual libraries write a value into a URL, with hex
// in either case. They differ in which characters they leave alone.
func percentForms(value string) []string {
	var list []string
	for _, plain := range []string{"", "-_.~", "-_.~/", "-_.!~*'()"} { // the last is a browser's
		list = append(list, percent(value, func(c byte) bool { return alnum(c) || strings.IndexByte(plain, c) >= 0 }))
	}
	list = append(list, percent(value, func(byte) bool { return false }), url.PathEscape(value))
	for _, upper := range list {
		lower := escape.ReplaceAllStringFunc(upper, strings.ToLower)
		list = append(list, lower)
	}
	for _, form := range list {
		list = append(list, strings.ReplaceAll(form, "%20", "+")) // as forms do
	}
	return list
}

func percent(value string, plain func(byte) bool) string {
	var b strings.Builder
	for i := range len(value) {
		if plain(value[i]) {
			b.WriteByte(value[i])
		} else {
			fmt.Fprintf(&b, "%%%02X", value[i])
		}
	}
	return b.String()
}

func alnum(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// jsonForms lists a value inside a JSON string, and inside one inside another, as
// arguments of tools are.
func jsonForms(value string) []string {
	if !utf8.ValidString(value) {
		return nil // JSON cannot carry it, and what it puts instead is no secret
	}
	var list []string
	for _, form := range []func(string) string{
		func(v string) string { return quoted(v, true) },
		func(v string) string { return quoted(v, false) },
		func(v string) string { return strings.ReplaceAll(quoted(v, false), "/", `\/`) },
		func(v string) string { return ascii(quoted(v, false), `\u%04x`) },
		func(v string) string { return ascii(quoted(v, false), `\u%04X`) },
	} {
		once := form(value)
		list = append(list, once, quoted(once, false))
	}
	return list
}

func quoted(value string, html bool) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(html)
	if err := enc.Encode(value); err != nil {
		return value // a string can always be encoded
	}
	text := strings.TrimSuffix(b.String(), "\n")
	return text[1 : len(text)-1]
}

// ascii writes what is not ASCII as \u escapes.
func ascii(text, format string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r < utf8.RuneSelf:
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, format+format, high, low)
		default:
			fmt.Fprintf(&b, format, r)
		}
	}
	return b.String()
}
