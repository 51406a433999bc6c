package catalog

import (
	"bytes"
	"flag"
	"fmt"
	"go/format"
	"maps"
	"os"
	"reflect"
	"slices"
	"testing"
)

var update = flag.Bool("update", false, "write builtin.go from models.yaml")

// What is built in is what models.yaml says.
func TestBuiltinIsTheFile(t *testing.T) {
	data, err := os.ReadFile("models.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c, err := parse("models.yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	want := written(t, c)
	if *update {
		if err := os.WriteFile("builtin.go", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, err := os.ReadFile("builtin.go"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("builtin.go is not what models.yaml says: run make docs (%v)", err)
	}
	if !reflect.DeepEqual(Builtin(), c) {
		t.Error("the built-in catalogue is another than that of models.yaml")
	}
}

// written is a catalogue as Go.
func written(t *testing.T, c *Catalog) []byte {
	t.Helper()
	var b bytes.Buffer
	fmt.Fprintf(&b, "// Code generated from models.yaml by \"make docs\". DO NOT EDIT.\n\npackage catalog\n\nconst builtinDate = %q\n", c.date)
	b.WriteString("\nvar builtinAlso = []alias{\n")
	for _, name := range slices.Sorted(maps.Keys(c.also)) {
		fmt.Fprintf(&b, "{%q, %q},\n", name, c.also[name])
	}
	b.WriteString("}\n\nvar builtinModels = []Info{\n")
	for _, provider := range slices.Sorted(maps.Keys(c.models)) {
		for _, name := range slices.Sorted(maps.Keys(c.models[provider])) {
			b.WriteString(infoText(c.models[provider][name]) + ",\n")
		}
	}
	b.WriteString("}\n")
	text, err := format.Source(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// infoText leaves out what is not known.
func infoText(i Info) string {
	var b bytes.Buffer
	prices := func(p Prices) string {
		return fmt.Sprintf("Prices{Input: %d, Output: %d, CacheRead: %d, CacheWrite: %d}", p.Input, p.Output, p.CacheRead, p.CacheWrite)
	}
	fmt.Fprintf(&b, "{Provider: %q, Model: %q, Prices: %s", i.Provider, i.Model, prices(i.Prices))
	if i.LongOver > 0 {
		fmt.Fprintf(&b, ", LongOver: %d, Long: %s", i.LongOver, prices(i.Long))
	}
	fmt.Fprintf(&b, ", Context: %d, MaxOutput: %d", i.Context, i.MaxOutput)
	for _, can := range []struct {
		name string
		can  bool
	}{{"Images", i.Images}, {"Tools", i.Tools}, {"Structured", i.Structured}, {"Reasoning", i.Reasoning}} {
		if can.can {
			fmt.Fprintf(&b, ", %s: true", can.name)
		}
	}
	return b.String() + "}"
}
