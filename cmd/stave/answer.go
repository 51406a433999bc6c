package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"stave/internal/engine"
	"stave/internal/world"
)

// questionJSON is a question as programs read it.
type questionJSON struct {
	ID        string         `json:"id"`
	Log       string         `json:"log"`
	Path      world.Path     `json:"path"`
	Kind      string         `json:"kind"` // may_run, what_happened, what_to_say
	Tool      string         `json:"tool"`
	Arguments jsontext.Value `json:"arguments"`
	Digest    string         `json:"args_digest"`
	Reason    string         `json:"reason"`
	Choices   []string       `json:"choices"`
	Since     string         `json:"since"`
	Deadline  string         `json:"deadline,omitzero"`
}

func questionFor(q world.Question) questionJSON {
	call, why := asked(q)
	j := questionJSON{
		ID: q.ID, Log: q.Log, Path: q.Path, Kind: q.Kind, Tool: call.Tool, Arguments: jsontext.Value(call.Arguments),
		Digest: call.Digest, Reason: why, Choices: q.Choices, Since: rfc3339(q.SinceMs),
	}
	if q.DeadlineMs != 0 {
		j.Deadline = rfc3339(q.DeadlineMs)
	}
	return j
}

func (a *app) inboxCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "inbox",
		Short:   "Every open question of every conversation",
		Example: "  stave inbox\n  stave inbox --json",
		Args:    atMost(0),
		RunE: func(*cobra.Command, []string) error {
			return a.hosted(func(h *host) error {
				open, err := h.engine.Inbox(context.Background())
				if err != nil {
					return err
				}
				return a.printInbox(open)
			})
		},
	}
}

func (a *app) printInbox(open []world.Question) error {
	if a.json {
		for _, q := range open {
			if err := a.printJSON(questionFor(q)); err != nil {
				return err
			}
		}
		return nil
	}
	if len(open) == 0 {
		a.note("nobody is waiting for an answer")
		return nil
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "QUESTION\tSINCE\tCHOICES\tABOUT")
	for _, q := range open {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", q.ID, a.age(q.SinceMs), strings.Join(q.Choices, "|"), summary(q))
	}
	return w.Flush()
}

func (a *app) answerCmd() *cobra.Command {
	var text, remember string
	cmd := &cobra.Command{
		Use:   "answer QUESTION CHOICE",
		Short: "Answer an open question and run its conversation on",
		Long: `Answers an open question; the first answer wins. May a call run: approve or deny (--text says why);
with --remember call the same call is not asked about again in this conversation, with --remember tool no call of that tool,
where such a promise can be made. What an agent asks you: reply (--text is what you say) or deny.
What became of a call whose process died: happened (--text gives its output), not_happened or retry.`,
		Example: "  stave answer call_0198c5 approve\n  stave answer call_0198c5 deny --text \"not on a Friday\"",
		Args:    exactly("QUESTION", "CHOICE"),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.hosted(func(h *host) error {
				return a.answer(context.Background(), h, engine.Choice{Question: args[0], Choice: args[1], Text: text, Remember: remember, By: a.by()})
			})
		},
	}
	cmd.Flags().StringVar(&text, "text", "", "words that go with the answer")
	cmd.Flags().StringVar(&remember, "remember", "", "how far an approval reaches: once, call or tool (default once)")
	return cmd
}

func (a *app) answer(ctx context.Context, h *host, c engine.Choice) error {
	q, open, err := h.question(ctx, c.Question)
	if err != nil {
		return err
	}
	if !open {
		_, err := h.engine.Answer(ctx, c)
		return err
	}
	v, err := a.look(ctx, h, q.Log)
	if err != nil {
		return err
	}
	c.Question = q.Log + "/" + q.ID
	if _, err := h.engine.Answer(ctx, c); err != nil {
		return err
	}
	return a.finish(h, v)
}
