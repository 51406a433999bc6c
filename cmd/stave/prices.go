package main

import (
	"path/filepath"
	"strings"

	"stave/internal/config"
	"stave/internal/engine"
	"stave/internal/model/catalog"
	"stave/internal/world"
)

// loadPrices reads what a person knows of models beside what is built in. Nil is
// the latter alone, which is read when it is asked for.
func loadPrices(data string) (*catalog.Catalog, error) {
	file := filepath.Join(data, pricesName)
	b, err := readIfThere(file)
	switch {
	case err != nil:
		return nil, badInput("%w", err)
	case b == nil:
		return nil, nil
	}
	c, err := catalog.Load(file, b)
	if err != nil {
		return nil, badInput("%w", err)
	}
	return c, nil
}

// lookup finds a model: as the person's own service has it, else as the kind of
// service it is.
func (m *models) lookup(of, id string) (catalog.Info, bool) {
	known := m.prices()
	if info, ok := known.Lookup(of, id); ok {
		return info, true
	}
	return known.Lookup(m.family(of), id)
}

func (m *models) prices() *catalog.Catalog {
	if m.catalog == nil {
		return catalog.Builtin()
	}
	return m.catalog
}

// info says what is known of a model, for budgets and windows.
func (m *models) info(name string) engine.ModelInfo {
	of, id, ok := strings.Cut(name, "/")
	if !ok || strings.HasPrefix(name, scriptPrefix) {
		return engine.ModelInfo{}
	}
	known, ok := m.lookup(of, id)
	if !ok {
		return engine.ModelInfo{}
	}
	return engine.ModelInfo{
		Window: known.Context, MaxOutput: known.MaxOutput, Cost: known.Cost, Worst: known.WorstCase,
		NoImages: !known.Images, NoTools: !known.Tools,
	}
}

// family is the name the catalogue has a service's models under.
func (m *models) family(of string) string {
	if s, ok := m.settings.Services[of]; ok {
		of = s.Kind
	}
	if of == "openai-chat" {
		return "openai"
	}
	return of
}

// priced reports whether anybody knows what calls of a model cost.
func (m *models) priced(name string) bool { return m.info(name).Cost != nil }

// priceUnknown is said where a sum would be taken for the truth.
const priceUnknown = "price unknown"

// cost is what a conversation has cost, in dollars, and in words.
func (a *app) cost(v world.View) (usd float64, words string) {
	const micro = 1_000_000
	var spent int64
	if len(v.Accounts) > 0 {
		spent = v.Accounts[0].Spent.MicroUSD
	}
	switch {
	case a.models.priced(v.Model):
		words = config.USD(spent)
	case spent > 0: // of a model it had before
		words = config.USD(spent) + " and more, " + priceUnknown
	default:
		words = priceUnknown
	}
	return float64(spent) / micro, words
}

// learnKeys makes every key secret that could be used here, also where another
// provider is: a tool can come upon it.
func (m *models) learnKeys() {
	for _, s := range builtIn {
		m.learnKey(s)
	}
	for name, s := range m.settings.Services {
		m.learnKey(service{Service: s, name: name})
	}
}

func (m *models) learnKey(s service) {
	if key, err := m.key(s); err == nil { // else there is none to be kept secret
		m.secrets.Add(key)
	}
}
