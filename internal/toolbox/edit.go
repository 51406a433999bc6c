package toolbox

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxEditBytes is the largest file that is edited or that an edit may make.
const maxEditBytes = 16 << 20

//go:embed edit.md
var editDoc string

type editArgs struct {
	Path       string `json:"path" min:"1" jsonschema:"the file to change"`
	OldString  string `json:"old_string" min:"1" jsonschema:"the exact text to replace"`
	NewString  string `json:"new_string" jsonschema:"the text to put in its place"`
	ReplaceAll bool   `json:"replace_all,omitempty" jsonschema:"replace every occurrence (default: exactly one must exist)"`
}

// Edit returns the tool that replaces a text in a file.
func Edit() Tool { return New("Edit", editDoc, Idempotent, false, runEdit).with(private).onFiles() }

func runEdit(ctx context.Context, env Env, args editArgs) (Output, error) {
	if args.OldString == args.NewString {
		return Output{}, errSameText
	}
	t, err := openTarget(ctx, env, args.Path)
	if err != nil {
		return Output{}, err
	}
	defer t.Close()
	settled, was, err := t.recovered(env)
	if err != nil {
		return Output{}, err
	}
	if settled != nil {
		return *settled, nil
	}
	old, err := t.content()
	if err != nil {
		return Output{}, err
	}
	edited, count, err := replaceText(old, args)
	if err != nil {
		return Output{}, fmt.Errorf("%s: %w", t.path, err)
	}
	meta, err := t.apply(ctx, env, was, []byte(edited))
	if err != nil {
		return Output{}, err
	}
	line := lineOf(old, strings.Index(old, args.OldString))
	meta["replacements"], meta["line"] = count, line
	if count == 1 {
		return Output{Text: fmt.Sprintf("edited %s at line %d", t.path, line), Meta: meta}, nil
	}
	return Output{Text: fmt.Sprintf("edited %s in %d places, the first at line %d", t.path, count, line), Meta: meta}, nil
}

var errSameText = errors.New("old_string and new_string are the same, so there is nothing to change")

// content reads the file and makes sure that it is the one that was hashed.
func (t *target) content() (string, error) {
	if t.info == nil {
		return "", fmt.Errorf("%s does not exist; create it with Write", t.path)
	}
	if t.info.Size() > maxEditBytes {
		return "", fmt.Errorf("%s has %d bytes, more than the %d that can be edited", t.path, t.info.Size(), maxEditBytes)
	}
	f, _, err := openRegular(t.parent, t.name)
	if err != nil {
		return "", pathProblem(t.path, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxEditBytes+1))
	if err != nil {
		return "", pathProblem(t.path, err)
	}
	if sum(data) != t.before {
		return "", fmt.Errorf("%s changed while it was being read; try again", t.path)
	}
	return string(data), nil
}

func replaceText(old string, args editArgs) (edited string, count int, err error) {
	count = strings.Count(old, args.OldString)
	switch {
	case count == 0:
		return "", 0, fmt.Errorf("old_string does not occur in the file%s", hint(old, args.OldString))
	case !args.ReplaceAll:
		if places := occurrences(old, args.OldString); len(places) > 1 {
			return "", 0, fmt.Errorf("old_string occurs %s; add surrounding text to make it unique or set replace_all", at(old, places))
		}
	}
	if size := len(old) + count*(len(args.NewString)-len(args.OldString)); size > maxEditBytes {
		return "", 0, fmt.Errorf("the file would grow to %d bytes, more than the %d that can be edited", size, maxEditBytes)
	}
	return strings.ReplaceAll(old, args.OldString, args.NewString), count, nil
}

const maxPlaces = 20

// occurrences finds where text stands in s, overlapping ones too: they are just
// as ambiguous.
func occurrences(s, text string) []int {
	var places []int
	for from := 0; len(places) <= maxPlaces; {
		i := strings.Index(s[from:], text)
		if i < 0 {
			break
		}
		places = append(places, from+i)
		from += i + 1
	}
	return places
}

func at(s string, places []int) string {
	count := fmt.Sprint(len(places))
	if len(places) > maxPlaces {
		count, places = fmt.Sprintf("more than %d", maxPlaces), places[:maxPlaces]
	}
	lines := make([]string, len(places))
	for i, place := range places {
		lines[i] = fmt.Sprint(lineOf(s, place))
	}
	return fmt.Sprintf("%s times, at lines %s", count, strings.Join(lines, ", "))
}

// lineOf is the number of the line that holds byte i.
func lineOf(s string, i int) int { return strings.Count(s[:i], "\n") + 1 }
