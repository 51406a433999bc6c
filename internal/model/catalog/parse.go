package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Limits of a catalogue file.
const (
	MaxBytes  = 1 << 20
	MaxModels = 10_000
)

const (
	maxPrice  = 1_000_000_000_000 // a million dollars for a million tokens
	maxTokens = 1_000_000_000
)

// file is a catalogue as it is written.
type file struct {
	Date      string                  `yaml:"date"`
	Providers map[string]fileProvider `yaml:"providers"`
}

type fileProvider struct {
	Also   []string             `yaml:"also"`
	Models map[string]fileModel `yaml:"models"`
}

type fileModel struct {
	Prices    filePrices `yaml:"prices"`
	Long      *fileLong  `yaml:"long"`
	Context   int64      `yaml:"context"`
	MaxOutput int64      `yaml:"max_output"`
	Can       []string   `yaml:"can"`
}

type filePrices struct {
	Input      *price `yaml:"input"`
	Output     *price `yaml:"output"`
	CacheRead  *price `yaml:"cache_read"`
	CacheWrite *price `yaml:"cache_write"`
}

type fileLong struct {
	Over   int64      `yaml:"over"`
	Prices filePrices `yaml:"prices"`
}

// price is dollars for a million tokens, read digit by digit: a float could
// not hold 0.1.
type price int64

func (p *price) UnmarshalYAML(n *yaml.Node) error {
	whole, cents, dotted := strings.Cut(n.Value, ".")
	digits := whole + cents
	if n.Kind != yaml.ScalarNode || digits == "" || len(whole) > 9 || len(cents) > 6 || dotted && (cents == "" || whole == "") ||
		strings.ContainsFunc(digits, func(r rune) bool { return r < '0' || r > '9' }) {
		return fmt.Errorf("line %d: %.40q is no price; write dollars for a million tokens with at most six digits after the point, like 0.25", n.Line, n.Value)
	}
	var v int64
	for _, d := range digits + strings.Repeat("0", 6-len(cents)) {
		v = v*10 + int64(d-'0')
	}
	if v > maxPrice {
		return fmt.Errorf("line %d: the price %s is too high to be true", n.Line, n.Value)
	}
	*p = price(v)
	return nil
}

func parse(name string, data []byte) (*Catalog, error) {
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("catalogue %s: it has %d bytes and may have %d", name, len(data), MaxBytes)
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	var f file
	if err := d.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("catalogue %s: %w", name, err)
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("catalogue %s: it has more than one document", name)
	}
	c, err := f.catalog()
	if err != nil {
		return nil, fmt.Errorf("catalogue %s: %w", name, err)
	}
	return c, nil
}

func (f file) catalog() (*Catalog, error) {
	if _, err := time.Parse(time.DateOnly, f.Date); err != nil {
		return nil, errors.New("`date` is missing or not like 2006-01-02; write the day the prices were checked")
	}
	c := &Catalog{date: f.Date, also: map[string]string{}, models: map[string]map[string]Info{}}
	n := 0
	for provider, p := range f.Providers {
		for _, other := range p.Also {
			c.also[other] = provider
		}
		c.models[provider] = make(map[string]Info, len(p.Models))
		for model, m := range p.Models {
			if n++; n > MaxModels {
				return nil, fmt.Errorf("it has more than %d models", MaxModels)
			}
			info, err := m.info()
			if err != nil {
				return nil, fmt.Errorf("%s/%s: %w", provider, model, err)
			}
			info.Provider, info.Model = provider, model
			c.models[provider][strings.ToLower(model)] = info
		}
	}
	return c, nil
}

var abilities = []string{"images", "tools", "structured", "reasoning"}

func (m fileModel) info() (Info, error) {
	var i Info
	var err error
	if i.Prices, err = m.Prices.prices(); err != nil {
		return Info{}, err
	}
	if m.Long != nil {
		i.LongOver = m.Long.Over
		if i.Long, err = m.Long.Prices.prices(); err != nil {
			return Info{}, fmt.Errorf("long: %w", err)
		}
		if i.LongOver < 1 || i.LongOver > maxTokens {
			return Info{}, errors.New("long: `over` is not a number of tokens")
		}
	}
	i.Context, i.MaxOutput = m.Context, m.MaxOutput
	if min(i.Context, i.MaxOutput) < 0 || max(i.Context, i.MaxOutput) > maxTokens {
		return Info{}, errors.New("`context` or `max_output` is not a number of tokens")
	}
	for _, can := range m.Can {
		if !slices.Contains(abilities, can) {
			return Info{}, fmt.Errorf("`can` has %.40q; it may have %s", can, strings.Join(abilities, ", "))
		}
	}
	i.Images, i.Tools = slices.Contains(m.Can, "images"), slices.Contains(m.Can, "tools")
	i.Structured, i.Reasoning = slices.Contains(m.Can, "structured"), slices.Contains(m.Can, "reasoning")
	return i, nil
}

// prices fills in what is not written: a cache that costs nothing extra costs
// what input costs.
func (f filePrices) prices() (Prices, error) {
	if f.Input == nil || f.Output == nil {
		return Prices{}, errors.New("`prices` needs `input` and `output`, in dollars for a million tokens")
	}
	p := Prices{Input: int64(*f.Input), Output: int64(*f.Output), CacheRead: int64(*f.Input), CacheWrite: int64(*f.Input)}
	if f.CacheRead != nil {
		p.CacheRead = int64(*f.CacheRead)
	}
	if f.CacheWrite != nil {
		p.CacheWrite = int64(*f.CacheWrite)
	}
	return p, nil
}
