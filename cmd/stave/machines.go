package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"stave/internal/machine"
	"stave/internal/world"
)

func (a *app) machinesCmd() *cobra.Command {
	var mermaid bool
	cmd := &cobra.Command{
		Use:     "machines [NAME]",
		Short:   "The tables everything follows",
		Example: "  stave machines\n  stave machines session --mermaid\n  stave machines --json",
		Args:    atMost(1),
		RunE: func(_ *cobra.Command, args []string) error {
			specs := world.Specs()
			if len(args) == 1 {
				s, err := specOf(specs, args[0])
				if err != nil {
					return err
				}
				specs = []machine.Spec{s}
			}
			switch {
			case a.json:
				return a.printJSON(specs)
			case mermaid:
				for _, s := range specs {
					a.printf("%s", s.Mermaid())
				}
				return nil
			}
			return a.printSpecs(specs)
		},
	}
	cmd.Flags().BoolVar(&mermaid, "mermaid", false, "as Mermaid state diagrams")
	return cmd
}

func specOf(specs []machine.Spec, name string) (machine.Spec, error) {
	var names []string
	for _, s := range specs {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return machine.Spec{}, badInput("there is no machine %q; there are %s", name, strings.Join(names, ", "))
}

func (a *app) printSpecs(specs []machine.Spec) error {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	for i, s := range specs {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s\n", s.Name)
		for _, st := range s.States {
			fmt.Fprintf(w, "  %s\t%s\t%s\n", st.Name, st.Mode, st.Note)
		}
		fmt.Fprintf(w, "\n  FROM\tCOMMAND\tTO\tRUNE\tWHO\n")
		for _, t := range s.Transitions {
			who := ""
			if t.Person {
				who = "a person may"
			}
			fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\n", or(string(t.From), "·"), or(t.Command, "·"), t.To, or(t.Rune, "·"), who)
		}
	}
	return w.Flush()
}
