package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"stave/internal/machine"
	"stave/internal/machine/session"
	"stave/internal/policy"
	"stave/internal/runelog"
	"stave/internal/world"
)

func (a *app) sendCmd() *cobra.Command {
	var steer, headless bool
	cmd := &cobra.Command{
		Use:     "send LOG TEXT",
		Short:   "Say something: after the running turn, or at its next safe boundary",
		Example: "  stave send last \"And the tests?\"\n  stave send conv_0198 --steer \"Stop, look at go.mod first\"",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return badInput("send: LOG is missing; see `stave send --help`")
			}
			text, err := a.prompt(args[1:])
			if err != nil {
				return err
			}
			if err := checkSlash(text); err != nil {
				return err
			}
			if _, _, ok := slash(text); ok {
				return a.do(&askFlags{resume: args[0], headless: headless, mode: policy.ModeAsk, sandbox: autoLevel, maxTurns: defaultMaxTurns, given: noFlag}, text)
			}
			say := session.Say{Text: text, Mode: session.Queue, Headless: headless}
			if steer {
				say.Mode = session.Steer
			}
			return a.onLog(args[0], func(ctx context.Context, h *host, v world.View) error {
				if err := h.engine.Say(ctx, v.Log, say, a.by()); err != nil {
					return err
				}
				return a.finish(h, v)
			})
		},
	}
	cmd.Flags().BoolVar(&steer, "steer", false, "end the running turn at its next safe boundary; this text becomes the next one")
	cmd.Flags().BoolVar(&headless, "headless", false, "nobody will answer: calls that need permission are denied")
	return cmd
}

// noFlag is given for a conversation that keeps what it has.
func noFlag(string) bool { return false }

func (a *app) resumeCmd() *cobra.Command {
	var headless bool
	cmd := &cobra.Command{
		Use:   "resume [LOG]",
		Short: "Go on: after a crash, a pause or a suspension",
		Long: `Goes on with a conversation that was cut off by a crash, paused or suspended, and runs it to its next rest.
Without LOG: with every conversation that was cut off, one after the other.`,
		Example: "  stave resume last\n  stave resume --headless",
		Args:    atMost(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.hosted(func(h *host) error { return a.resumeAll(context.Background(), h, headless) })
			}
			return a.onLog(args[0], func(ctx context.Context, h *host, v world.View) error {
				return a.resume(ctx, h, v, headless)
			})
		},
	}
	cmd.Flags().BoolVar(&headless, "headless", false, "nobody will answer: open questions are denied")
	return cmd
}

func (a *app) resume(ctx context.Context, h *host, v world.View, headless bool) error {
	var err error
	switch {
	case slices.Contains(v.Possible, machine.Verb(session.Resume{})):
		err = a.tell(ctx, h, v.Log, session.Resume{Headless: headless})
	case slices.Contains(v.Possible, machine.Verb(session.Unsuspend{})):
		err = a.tell(ctx, h, v.Log, session.Unsuspend{Headless: headless})
	case v.State == "closed" || v.State == "archived":
		return badInput("%s is %s; `%s` begins a new conversation from it", v.Log, v.State, a.command("fork %s", v.Log))
	case len(v.Jobs) == 0 && len(v.Questions) == 0:
		if !a.json {
			a.note("%s rests: nothing was cut off; `%s` goes on with it", v.Log, a.command("send %s TEXT", v.Log))
		}
		return nil
	default:
		err = h.engine.Resume(ctx, v.Log, headless)
	}
	if err != nil {
		return err
	}
	return a.finish(h, v)
}

// resumeAll goes on with whatever was cut off. One that fails does not keep the
// others from going on; Ctrl-C does.
func (a *app) resumeAll(ctx context.Context, h *host, headless bool) error {
	var logs []string
	for m, err := range h.log.List(ctx) {
		if err != nil {
			return err
		}
		if m.WaitsFor != "" && !m.Archived {
			logs = append(logs, m.Log)
		}
	}
	if len(logs) == 0 && !a.json {
		a.note("nothing was cut off")
	}
	var all error
	for _, log := range logs {
		if !a.json {
			a.note("%s", a.paint(bold, log))
		}
		v, err := a.look(ctx, h, log)
		if err == nil {
			err = a.resume(ctx, h, v, headless)
		}
		if errors.Is(err, errInterrupted) {
			return err
		}
		all = errors.Join(all, err)
	}
	return all
}

func (a *app) interruptCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "interrupt LOG",
		Short:   "End the turn now; what was said is kept, open calls are cancelled",
		Example: "  stave interrupt last",
		Args:    exactly("LOG"),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.onLog(args[0], func(ctx context.Context, h *host, v world.View) error {
				done, err := h.interrupt(ctx, v.Log, a.by())
				if err != nil {
					return err
				}
				if !done {
					return badInput("%s is %s and no turn is running; there is nothing to interrupt", v.Log, v.State)
				}
				return a.settleControl(h, v)
			})
		},
	}
}

func (a *app) pauseCmd() *cobra.Command {
	return a.controlCmd(&cobra.Command{
		Use:   "pause LOG",
		Short: "Stop at the next safe boundary and take no new turn",
	}, session.Pause{})
}

func (a *app) closeCmd() *cobra.Command {
	return a.controlCmd(&cobra.Command{
		Use:   "close LOG",
		Short: "End the conversation after its present turn and seal its log",
	}, session.Close{})
}

func (a *app) stopCmd() *cobra.Command {
	return a.controlCmd(&cobra.Command{
		Use:   "stop LOG",
		Short: "End the conversation and every agent in it, now",
	}, session.Stop{})
}

// controlCmd is a command that tells the session one thing and returns once what
// that set off has come to rest.
func (a *app) controlCmd(cmd *cobra.Command, c machine.Command) *cobra.Command {
	name, _, _ := strings.Cut(cmd.Use, " ")
	cmd.Example = "  stave " + name + " last"
	cmd.Args = exactly("LOG")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		return a.onLog(args[0], func(ctx context.Context, h *host, v world.View) error {
			if err := a.tell(ctx, h, v.Log, c); err != nil {
				return err
			}
			return a.settleControl(h, v)
		})
	}
	return cmd
}

// settleControl waits until what a control command set off has come to rest. How
// the turn ended is no failure of the command, but a question left open is.
func (a *app) settleControl(h *host, v world.View) error {
	end, err := a.follow(h, v)
	if err != nil {
		return err
	}
	if end.view.State == "closing" && len(end.view.Questions) > 0 {
		return fmt.Errorf("%w (`%s` ends it now)", end.err(a), a.command("stop %s", v.Log))
	}
	if !a.json {
		a.printf("%s %s\n", v.Log, end.view.State)
	}
	return nil
}

func (a *app) tell(ctx context.Context, h *host, log string, c machine.Command) error {
	_, err := h.engine.Tell(ctx, world.Message{Log: log, Path: world.SessionPath, By: a.by(), Command: c})
	return err
}

// look looks at a conversation that may be about to run.
func (a *app) look(ctx context.Context, h *host, log string) (world.View, error) {
	v, err := h.engine.Look(ctx, log)
	if err == nil {
		err = a.enter(h, v.Dir)
	}
	return v, err
}

// onLog runs f on the log a person means.
func (a *app) onLog(name string, f func(ctx context.Context, h *host, v world.View) error) error {
	return a.onMeta(name, func(ctx context.Context, h *host, m runelog.Meta) error {
		v, err := a.look(ctx, h, m.Log)
		if err != nil {
			return err
		}
		return f(ctx, h, v)
	})
}

// onMeta does the same without reading the log.
func (a *app) onMeta(name string, f func(ctx context.Context, h *host, m runelog.Meta) error) error {
	return a.hosted(func(h *host) error {
		ctx := context.Background()
		m, err := h.find(ctx, name)
		if err != nil {
			return err
		}
		return f(ctx, h, m)
	})
}
