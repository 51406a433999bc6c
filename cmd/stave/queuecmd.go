package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"stave/internal/model/queue"
)

// The process that works on a data directory answers questions about its queue
// on a socket there, for the person it belongs to only.
const (
	socketName     = "control.sock"
	socketPatience = 2 * time.Second
	maxQuestion    = 4 << 10
)

// queueQuestion is what is asked on the socket, queueAnswer what comes back.
type (
	queueQuestion struct {
		Cancel string `json:"cancel,omitempty"` // the call to take out; empty lists
	}
	queueAnswer struct {
		Calls     []queueCall `json:"calls"`
		Cancelled bool        `json:"cancelled,omitempty"`
	}
	queueCall struct {
		ID       string    `json:"id"`
		State    string    `json:"state"`
		Provider string    `json:"provider"`
		Model    string    `json:"model"`
		Log      string    `json:"log"`
		Priority int       `json:"priority"`
		Since    time.Time `json:"since"`
	}
)

// answerQueue serves the socket until ctx ends. It is a convenience: where it
// cannot be made, the work goes on without.
func answerQueue(ctx context.Context, dir string, q *queue.Queue) {
	path := filepath.Join(dir, socketName)
	_ = os.Remove(path) // of a process that was killed; we hold the lock
	l, err := net.Listen("unix", path)
	if err != nil {
		return
	}
	const private = 0o600
	if err := os.Chmod(path, private); err != nil {
		l.Close()
		return
	}
	context.AfterFunc(ctx, func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go answerOne(c, q)
		}
	}()
}

func answerOne(c net.Conn, q *queue.Queue) {
	defer c.Close()
	if c.SetDeadline(time.Now().Add(socketPatience)) != nil {
		return
	}
	buf := make([]byte, maxQuestion)
	n, err := c.Read(buf)
	var question queueQuestion
	if err != nil || json.Unmarshal(buf[:n], &question) != nil {
		return
	}
	answer := queueAnswer{Calls: []queueCall{}}
	if question.Cancel != "" {
		answer.Cancelled = q.Cancel(question.Cancel)
	}
	for _, e := range q.List() {
		log, _, _ := strings.Cut(e.Conversation, "/") // the agent follows
		answer.Calls = append(answer.Calls, queueCall{e.ID, string(e.State), e.Provider, e.Model, log, e.Priority, e.Since})
	}
	_ = json.NewEncoder(c).Encode(answer) // whoever asked has gone
}

func (a *app) queueCmd() *cobra.Command {
	var cancel string
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "The model calls under way and waiting, in the order they go",
		Long: `Shows the model calls of the process that works on this data directory: which are under way, which wait,
for what provider, and since when. With --cancel it takes one out: the call fails and its turn says so.`,
		Example: "  stave queue\n  stave queue --cancel q7",
		Args:    atMost(0),
		RunE: func(*cobra.Command, []string) error {
			dir, err := a.dataDir()
			if err != nil {
				return err
			}
			answer, err := askQueue(dir, queueQuestion{Cancel: cancel})
			if err != nil {
				return err
			}
			if cancel != "" && !answer.Cancelled {
				return badInput("no call %q is under way or waiting", cancel)
			}
			return a.showQueue(answer)
		},
	}
	cmd.Flags().StringVar(&cancel, "cancel", "", "take this call out")
	return cmd
}

// askQueue asks the process at work; nobody at work is an empty queue.
func askQueue(dir string, question queueQuestion) (queueAnswer, error) {
	var answer queueAnswer
	c, err := net.DialTimeout("unix", filepath.Join(dir, socketName), socketPatience)
	if err != nil {
		return answer, nil
	}
	defer c.Close()
	err = errors.Join(c.SetDeadline(time.Now().Add(socketPatience)), json.NewEncoder(c).Encode(question))
	if err == nil {
		err = json.NewDecoder(c).Decode(&answer)
	}
	if err != nil {
		return answer, fmt.Errorf("asking the process that works on %s: %w", dir, err)
	}
	return answer, nil
}

func (a *app) showQueue(q queueAnswer) error {
	if a.json {
		for _, c := range q.Calls {
			if err := a.printJSON(c); err != nil {
				return err
			}
		}
		return nil
	}
	if len(q.Calls) == 0 {
		a.note("no model call is under way or waiting")
		return nil
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CALL\tSTATE\tPRIORITY\tMODEL\tLOG\tSINCE")
	for _, c := range q.Calls {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s/%s\t%s\t%s\n", c.ID, c.State, c.Priority, c.Provider, c.Model, c.Log, a.age(c.Since.UnixMilli()))
	}
	return w.Flush()
}
