package config

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxQuoted is how much of a file one message repeats.
const maxQuoted = 80

// parts are what a file consists of: what a person calls it, and its fields.
var parts = map[string]struct {
	name   string
	fields reflect.Type
}{
	"Config":   {"the file", reflect.TypeFor[Config]()},
	"Service":  {"a provider", reflect.TypeFor[Service]()},
	"Hook":     {"a hook", reflect.TypeFor[Hook]()},
	"Limits":   {"limits", reflect.TypeFor[Limits]()},
	"LaneSize": {"a queue", reflect.TypeFor[LaneSize]()},
}

// kinds say what to write where a value of a Go type is read.
var kinds = []struct{ prefix, write string }{
	{"bool", "true or false"},
	{"int", "a whole number"},
	{"float", "a number"},
	{"string", "a text"},
	{"time.Duration", "a time such as 10m"},
	{"[]", "a list"},
	{"", "a mapping of fields"},
}

var (
	unknownField = regexp.MustCompile(`(?s)^line (\d+): field (.*) not found in type config\.(\w+)$`)
	wrongKind    = regexp.MustCompile(`(?s)^line (\d+): cannot unmarshal (?:!!\w+ )?(.*) into (\S+)$`)
)

// shapes are the words for values that a message does not quote.
var shapes = strings.NewReplacer("!!seq", "a list", "!!map", "a mapping")

// readable says in words of the file what the YAML reader says in those of Go.
func readable(err error) string {
	var wrong *yaml.TypeError
	if !errors.As(err, &wrong) {
		return strings.TrimPrefix(err.Error(), "yaml: ")
	}
	list := make([]string, len(wrong.Errors))
	for i, text := range wrong.Errors {
		list[i] = inWords(text)
	}
	return strings.Join(list, "; ")
}

func inWords(text string) string {
	if m := unknownField.FindStringSubmatch(text); m != nil {
		if part, ok := parts[m[3]]; ok {
			return unknown(m[1], part.name, m[2], fieldsOf(part.fields))
		}
	}
	if m := wrongKind.FindStringSubmatch(text); m != nil {
		i := slices.IndexFunc(kinds, func(k struct{ prefix, write string }) bool { return strings.HasPrefix(m[3], k.prefix) })
		return fmt.Sprintf("line %s: %s does not fit here; write %s", m[1], shorten(shapes.Replace(m[2])), kinds[i].write)
	}
	return text
}

func unknown(line, where, name string, known []string) string {
	return fmt.Sprintf("line %s: %s has no field %q; write some of: %s", line, where, shorten(name), strings.Join(known, ", "))
}

// fieldsOf lists the names a struct's fields have in a file.
func fieldsOf(t reflect.Type) []string {
	var names []string
	for f := range t.Fields() {
		names = append(names, f.Tag.Get("yaml"))
	}
	slices.Sort(names)
	return names
}

func shorten(s string) string {
	if len(s) > maxQuoted {
		s = s[:maxQuoted] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
