// Package catalog knows models: what they cost, how much they can read and
// write, and what they can do. Its data is a dated file, models.yaml, that is
// built in; a person can add to it and correct it with a file of their own.
package catalog

import (
	"maps"
	"regexp"
	"strings"
	"sync"
)

// Prices are in micro-dollars for a million tokens: 3_000_000 is $3.
type Prices struct {
	Input      int64
	Output     int64
	CacheRead  int64 // of input that comes from a cache
	CacheWrite int64 // of input that is written to one
}

// Info is what is known about one model.
type Info struct {
	Provider string
	Model    string
	Prices   Prices
	LongOver int64  // a prompt of more tokens than this costs Long; 0 if there is no such limit
	Long     Prices // of all tokens of such a call

	Context   int64 // tokens of prompt and answer together; 0 is not known
	MaxOutput int64 // tokens of the answer; 0 is not known

	Images     bool // it can look at pictures
	Tools      bool
	Structured bool // it can be held to a JSON schema
	Reasoning  bool // it can think before it answers
}

// Catalog is a list of models. It never changes and may be used concurrently.
type Catalog struct {
	date   string
	also   map[string]string          // other names of providers
	models map[string]map[string]Info // by provider and name
}

// builtin is models.yaml as "make docs" has written it in Go: to read the file
// itself would cost every start some milliseconds.
var builtin = sync.OnceValue(func() *Catalog {
	c := &Catalog{date: builtinDate, also: map[string]string{}, models: map[string]map[string]Info{}}
	for _, a := range builtinAlso {
		c.also[a.name] = a.provider
	}
	for _, i := range builtinModels {
		if c.models[i.Provider] == nil {
			c.models[i.Provider] = map[string]Info{}
		}
		c.models[i.Provider][strings.ToLower(i.Model)] = i
	}
	return c
})

// alias is another name of a provider.
type alias struct{ name, provider string }

// Builtin returns the catalogue that is built in.
func Builtin() *Catalog { return builtin() }

// Load returns the built-in catalogue with a file laid over it: a model that
// the file names replaces the built-in one of the same name.
func Load(file string, data []byte) (*Catalog, error) {
	over, err := parse(file, data)
	if err != nil {
		return nil, err
	}
	base := builtin()
	c := &Catalog{date: max(base.date, over.date), also: maps.Clone(base.also), models: map[string]map[string]Info{}}
	maps.Copy(c.also, over.also)
	for _, layer := range []*Catalog{base, over} {
		for provider, models := range layer.models {
			if c.models[provider] == nil {
				c.models[provider] = map[string]Info{}
			}
			maps.Copy(c.models[provider], models)
		}
	}
	return c, nil
}

// Lookup finds a model in the built-in catalogue.
func Lookup(provider, model string) (Info, bool) { return builtin().Lookup(provider, model) }

// Date is the day the built-in catalogue was last checked, as 2006-01-02.
func Date() string { return builtin().Date() }

// Date is the day of the newest file the catalogue was made from.
func (c *Catalog) Date() string { return c.date }

// version is what services add to a model's name to say which build of it is meant.
var version = regexp.MustCompile(`^(.+?)(?:-latest|[-@]\d{8}|-\d{4}-\d{2}-\d{2}|-\d{3}|-preview-\d{2}-\d{2,4})$`)

// Lookup finds a model by its name, with or without a date or build at its end.
// Names that only begin alike are other models.
func (c *Catalog) Lookup(provider, model string) (Info, bool) {
	if name, ok := c.also[provider]; ok {
		provider = name
	}
	models := c.models[provider]
	if info, ok := models[model]; ok {
		return info, true
	}
	model = strings.ToLower(model)
	if strings.ContainsAny(model, "-@") { // every version has one
		if m := version.FindStringSubmatch(model); m != nil {
			model = m[1]
		}
	}
	info, ok := models[model]
	return info, ok
}
