package main

import (
	"context"

	"github.com/spf13/cobra"

	"stave/internal/world"
)

func (a *app) modelCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "model LOG [PROVIDER/NAME]",
		Short: "Which model a conversation talks to; switch to another",
		Long: `Shows the model of a conversation, or lets another one go on with it from the next request on.
A model that cannot take what was said so far, as images, is refused.`,
		Example: "  stave model last\n  stave model last anthropic/claude-sonnet-4-5",
		Args:    between(1, "LOG", "PROVIDER/NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.onLog(args[0], func(ctx context.Context, h *host, v world.View) error {
				if len(args) == 1 {
					if a.json {
						return a.printJSON(map[string]string{"log": v.Log, "model": v.Model})
					}
					a.printf("%s\n", v.Model)
					return nil
				}
				name, err := a.models.modelName(args[1])
				if err != nil {
					return err
				}
				if err := h.engine.SwitchModel(ctx, v.Log, name, a.by()); err != nil {
					return badInput("%w", err)
				}
				if !a.json {
					a.note("%s goes on with %s", v.Log, name)
				}
				return nil
			})
		},
	}
}
