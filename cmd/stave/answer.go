package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"stave/internal/engine"
	"stave/internal/machine/tool"
	"stave/internal/world"
)

// questionJSON is a question as programs read it.
type questionJSON struct {
	ID        string         `json:"id"`
	Log       string         `json:"log"`
	Path      world.Path     `json:"path"`
	Kind      string         `json:"kind"` // may_run, grant_stage_tool, what_happened, what_to_say, may_go_on
	Tool      string         `json:"tool"`
	Arguments jsontext.Value `json:"arguments"`
	Digest    string         `json:"args_digest"`
	Reason    string         `json:"reason"`
	Choices   []string       `json:"choices"`
	Since     string         `json:"since"`
	Deadline  string         `json:"deadline,omitzero"`

	Grant *grantJSON `json:"grant,omitzero"` // of a grant_stage_tool
}

// grantJSON is what a stage asks a person to let it do once.
type grantJSON struct {
	ExecutionID string `json:"stage_execution_id"`
	Stage       string `json:"stage"`
	Attempt     int    `json:"attempt"`
	ProposalID  string `json:"proposal_id"`
	Tool        string `json:"tool"`
	Digest      string `json:"args_digest"`
	Summary     string `json:"args_summary"` // for people; nothing is decided by it
}

func questionFor(q world.Question) questionJSON {
	call, why := asked(q)
	j := questionJSON{
		ID: q.ID, Log: q.Log, Path: q.Path, Kind: q.Kind, Tool: call.Tool, Arguments: jsontext.Value(call.Arguments),
		Digest: call.Digest, Reason: why, Choices: q.Choices, Since: rfc3339(q.SinceMs),
	}
	if ask, ok := q.Ask.(tool.GrantStageTool); ok {
		j.Grant = &grantJSON{ask.ExecutionID, ask.Stage, ask.Attempt, call.CallID, call.Tool, call.Digest, brief(call.Arguments)}
	}
	if q.DeadlineMs != 0 {
		j.Deadline = rfc3339(q.DeadlineMs)
	}
	return j
}

func (a *app) inboxCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "inbox [QUESTION]",
		Short: "Every open question of every conversation, or all of one",
		Long: `Lists the open questions of all conversations. With a QUESTION it shows all of that one: what would run or
change, as it is now, where, and the digest of the arguments that would run.`,
		Example: "  stave inbox\n  stave inbox call_0198c5\n  stave inbox --json",
		Args:    atMost(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.hosted(func(h *host) error {
				ctx := context.Background()
				if len(args) > 0 {
					return a.inboxOne(ctx, h, args[0])
				}
				open, err := h.engine.Inbox(ctx)
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

// inboxOne shows all of one question.
func (a *app) inboxOne(ctx context.Context, h *host, id string) error {
	q, open, err := h.question(ctx, id)
	switch {
	case err != nil:
		return err
	case !open:
		return badInput("%q is no open question; `%s` lists them", id, a.command("inbox"))
	case a.json:
		return a.printJSON(questionFor(q))
	}
	v, err := h.engine.Look(ctx, q.Log)
	if err != nil {
		return err
	}
	a.printf("%s\n", headline(q))
	if call, _ := asked(q); call.Tool != "" {
		for _, l := range a.preview(call, v.Dir).lines(&a.console, "") {
			a.printf("%s\n", l)
		}
	}
	a.printf("  %-7s %s\n", "answer", a.answerLine(q))
	return nil
}

func (a *app) answerCmd() *cobra.Command {
	var text, remember string
	cmd := &cobra.Command{
		Use:   "answer QUESTION CHOICE",
		Short: "Answer an open question and run its conversation on",
		Long: `Answers an open question; the first answer wins. May a call run: approve or deny (--text says why);
with --remember call the same call is not asked about again in this conversation, with --remember tool no call of that tool,
where such a promise can be made. May a stage make a call that is not among its tools: approve, deny or defer, for this one call.
May a workflow whose definition was changed go on by the one it began with: go_on or cancel. What an agent asks you: reply (--text is what you say) or deny.
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
	if !a.json { // what was decided about stands beside the decision
		a.note("%s", headline(q))
		if call, _ := asked(q); call.Tool != "" {
			a.showPreview(a.preview(call, v.Dir), "the log has all")
		}
	}
	c.Question = q.Log + "/" + q.ID
	if _, err := h.engine.Answer(ctx, c); err != nil {
		return err
	}
	return a.finish(h, v)
}
