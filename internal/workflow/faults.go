package workflow

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

const (
	maxFound = 1000    // faults counted
	maxAsked = 100_000 // times the library is asked
	noCosts  = 50      // so many for a no, after which more is asked
	perShelf = 32      // schemas that stand together
	perRow   = 64      // items shown together, as most are right
)

// faults are what is wrong with a payload that is valid JSON; none if the library
// takes it.
func (t *tree) faults(payload []byte) []Fault {
	decoded, err := decodeNumbers(payload)
	if err != nil {
		return []Fault{{Text: shorten("it is not JSON: " + err.Error())}}
	}
	v, wrong := valueOf(decoded, "")
	if len(wrong) > 0 {
		return firstFaults(wrong, true)
	}
	no := t.library.Validate(v)
	if no == nil {
		return nil
	}
	f := &finder{
		tree: t, left: maxAsked, seen: map[Fault]bool{},
		alone: map[single]*jsonschema.Resolved{}, regex: map[string]*regexp.Regexp{},
	}
	if err := f.open(); err != nil {
		return []Fault{{Text: innermost(no)}}
	}
	f.walk(t.root, v, "", no)
	return firstFaults(f.found, f.left > 0 && len(f.found) < maxFound)
}

// finder looks for all that is wrong with a value. The library tells one thing
// only, and not where; so each part is shown to it again, with the schema for that
// part. It alone says what is wrong, the finder only where and in which words.
type finder struct {
	tree  *tree
	parts *jsonschema.Resolved
	shelf map[*jsonschema.Schema][2]string // where a schema stands in parts
	alone map[single]*jsonschema.Resolved
	regex map[string]*regexp.Regexp
	left  int
	told  int // faults, also those that are found twice
	found []Fault
	seen  map[Fault]bool
}

// open makes every schema of the tree one that the library can be asked about: a
// property of its own. They stand on shelves because all properties of an object
// are gone through for each question.
func (f *finder) open() error {
	whole := *f.tree.root
	whole.ID = schemaURL
	parts := &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{}, Defs: map[string]*jsonschema.Schema{"whole": &whole}}
	f.shelf = make(map[*jsonschema.Schema][2]string, len(f.tree.all))
	for i, s := range f.tree.all {
		at := [2]string{strconv.Itoa(i / perShelf), strconv.Itoa(i)}
		f.shelf[s] = at
		if parts.Properties[at[0]] == nil {
			parts.Properties[at[0]] = &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{}}
		}
		stands := parts.Properties[at[0]].Properties
		stands[at[1]] = f.tree.refTo(s)
		if s.Items != nil {
			stands[at[1]+rowOf] = &jsonschema.Schema{Items: f.tree.refTo(s.Items)}
		}
	}
	var err error
	f.parts, err = parts.Resolve(&jsonschema.ResolveOptions{BaseURI: partsURL})
	return err
}

// rowOf marks the items of a schema instead of itself.
const rowOf = "items"

func (t *tree) refTo(s *jsonschema.Schema) *jsonschema.Schema {
	ref := []byte("#/$defs/whole")
	for _, c := range []byte(t.places[s]) {
		if c <= ' ' || c == '%' || c >= 0x7f { // what a URL cannot hold
			ref = fmt.Appendf(ref, "%%%02X", c)
		} else {
			ref = append(ref, c)
		}
	}
	return &jsonschema.Schema{Ref: string(ref)}
}

// ask is the library's answer for one part, and whether there was one.
func (f *finder) ask(s *jsonschema.Schema, v any) (no error, asked bool) { return f.askAbout(s, "", v) }

func (f *finder) askAbout(s *jsonschema.Schema, what string, v any) (no error, asked bool) {
	if f.left <= 0 || len(f.found) >= maxFound {
		return nil, false
	}
	f.left--
	at := f.shelf[s]
	if no = f.parts.Validate(jsonObject{at[0]: jsonObject{at[1] + what: v}}); no != nil {
		f.left -= noCosts
	}
	return no, true
}

func (f *finder) fits(s *jsonschema.Schema, v any) bool {
	no, asked := f.ask(s, v)
	return asked && no == nil
}

// look walks on where the library says no.
func (f *finder) look(s *jsonschema.Schema, v any, at string) {
	if s == nil {
		return
	}
	if no, _ := f.ask(s, v); no != nil {
		f.walk(s, v, at, no)
	}
}

func (f *finder) add(at, text string) {
	one := Fault{at, shorten(text)}
	if !f.seen[one] {
		f.found = append(f.found, one)
	}
	f.seen[one] = true
	f.told++
}

// walk finds the faults of a value that its schema does not take: at least one.
func (f *finder) walk(s *jsonschema.Schema, v any, at string, no error) {
	before := f.told
	if text := f.wrongType(s, v); text != "" {
		f.add(at, text)
		return // what else the schema says is about values of its type
	}
	for _, text := range f.wrongHere(s, v) {
		f.add(at, text)
	}
	switch v := v.(type) {
	case jsonObject:
		f.members(s, v, at)
	case jsonArray:
		f.items(s, v, at)
	}
	f.inPlace(s, v, at)
	f.alternatives(s, v, at)
	if object, ok := v.(jsonObject); ok && f.told == before {
		f.leftOver(s, object, at)
	}
	if f.told == before {
		f.add(at, innermost(no))
	}
}

func (f *finder) members(s *jsonschema.Schema, v jsonObject, at string) {
	var unknown []string
	for _, name := range slices.Sorted(maps.Keys(v)) {
		below := at + pointerTo(name)
		property := s.Properties[name]
		f.look(property, v[name], below)
		known := property != nil
		for _, pattern := range slices.Sorted(maps.Keys(s.PatternProperties)) {
			if f.matches(pattern, name) {
				known = true
				f.look(s.PatternProperties[pattern], v[name], below)
			}
		}
		if more := s.AdditionalProperties; !known && more != nil {
			if nothing(more) {
				unknown = append(unknown, name)
			} else {
				f.look(more, v[name], below)
			}
		}
	}
	if len(unknown) > 0 {
		f.add(at, "additional properties "+quotedAll(unknown)+" not allowed")
	}
	if s.PropertyNames == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if no, _ := f.ask(s.PropertyNames, name); no != nil {
			f.add(at, "the name "+quoted(name)+" is not allowed: "+strings.Join(f.apart(s.PropertyNames, name, "", no), ", "))
		}
	}
}

func (f *finder) items(s *jsonschema.Schema, v jsonArray, at string) {
	first := min(len(s.PrefixItems), len(v))
	for i, item := range v[:first] {
		f.look(s.PrefixItems[i], item, at+"/"+strconv.Itoa(i))
	}
	if s.Items == nil {
		return
	}
	for row := range slices.Chunk(v[first:], perRow) {
		if no, _ := f.askAbout(s, rowOf, row); no != nil {
			for i, item := range row {
				f.look(s.Items, item, at+"/"+strconv.Itoa(first+i))
			}
		}
		first += len(row)
	}
}

// inPlace looks at the schemas that the same value has to fit too.
func (f *finder) inPlace(s *jsonschema.Schema, v any, at string) {
	f.look(f.tree.targets[s], v, at)
	for _, one := range s.AllOf {
		f.look(one, v, at)
	}
	if s.If != nil {
		if no, asked := f.ask(s.If, v); asked && no == nil {
			f.look(s.Then, v, at)
		} else if asked {
			f.look(s.Else, v, at)
		}
	}
	object, _ := v.(jsonObject)
	for _, name := range slices.Sorted(maps.Keys(s.DependentSchemas)) {
		if _, ok := object[name]; ok {
			f.look(s.DependentSchemas[name], v, at)
		}
	}
	if s.Not != nil && f.fits(s.Not, v) {
		if nothing(s) {
			f.add(at, "no value is allowed here; leave it out")
		} else {
			f.add(at, "it is what the schema's not forbids")
		}
	}
}

// alternatives stay one fault: none of them alone has to be met.
func (f *finder) alternatives(s *jsonschema.Schema, v any, at string) {
	for _, choice := range []struct {
		ways []*jsonschema.Schema
		most int
	}{{s.AnyOf, len(s.AnyOf)}, {s.OneOf, 1}} {
		var all []string
		fitting, asked := 0, len(choice.ways) > 0
		for _, way := range choice.ways {
			no, answered := f.ask(way, v)
			asked = asked && answered
			switch {
			case no != nil && fitting == 0:
				all = append(all, f.apart(way, v, at, no)...)
			case no == nil && answered:
				fitting++
			}
		}
		switch {
		case !asked:
		case fitting == 0:
			f.add(at, "one of these has to be put right: "+strings.Join(all, " | "))
		case fitting > choice.most:
			f.add(at, "it fits more than one of the alternatives")
		}
	}
}

// apart are the faults of one way to fit, which are no faults of their own.
func (f *finder) apart(s *jsonschema.Schema, v any, at string, no error) []string {
	found, seen, told := f.found, f.seen, f.told
	f.found, f.seen = nil, map[Fault]bool{}
	f.walk(s, v, at, no)
	var all []string
	for _, one := range f.found {
		all = append(all, strings.TrimPrefix(one.Pointer+": "+one.Text, at+": "))
	}
	f.found, f.seen, f.told = found, seen, told
	return all
}

func (f *finder) matches(pattern, name string) bool {
	re := f.regex[pattern]
	if re == nil {
		var err error
		if re, err = regexp.Compile(pattern); err != nil {
			return false // told when the schema was read
		}
		f.regex[pattern] = re
	}
	return re.MatchString(name)
}

// leftOver looks at the names that no schema for the object speaks of.
func (f *finder) leftOver(s *jsonschema.Schema, v jsonObject, at string) {
	if s.UnevaluatedProperties == nil {
		return
	}
	names := f.unknown(s, v)
	if nothing(s.UnevaluatedProperties) && len(names) > 0 {
		f.add(at, "additional properties "+quotedAll(names)+" not allowed")
		return
	}
	for _, name := range names {
		f.look(s.UnevaluatedProperties, v[name], at+pointerTo(name))
	}
}

// unknown are the names of an object that no schema for it speaks of.
func (f *finder) unknown(s *jsonschema.Schema, v jsonObject) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if !f.knows(s, name) {
			names = append(names, name)
		}
	}
	return names
}

func (f *finder) knows(s *jsonschema.Schema, name string) bool {
	if s == nil {
		return false
	}
	if s.Properties[name] != nil || s.AdditionalProperties != nil {
		return true
	}
	for pattern := range s.PatternProperties {
		if f.matches(pattern, name) {
			return true
		}
	}
	return slices.ContainsFunc(f.tree.inPlace(s), func(same *jsonschema.Schema) bool { return f.knows(same, name) })
}
