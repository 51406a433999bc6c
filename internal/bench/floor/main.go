// Command floor is the least a durable agent can cost: it "calls the model" (a
// constant, or a server), spawns the tool's process, and syncs one line to a file for each event it would have to
// remember. How many that are in a round is its caller's choice; without any it is not durable. It decides, checks
// and chains nothing. A server gets what a good bare client sends: the whole conversation, which grows by a call and
// its result each round, encoded anew with package encoding/json for each request, over one connection. What the
// server answers is read to its end and not looked at.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// eventBytes is the size of a line, about that of a rune.
const eventBytes = 400

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 4 && len(os.Args) != 6 {
		return fmt.Errorf("usage: floor FILE ROUNDS EVENTS [URL DIALECT]")
	}
	ask := func(int) error { return nil } // the model is a constant
	if len(os.Args) == 6 {
		talk, ok := dialects[os.Args[5]]
		if !ok {
			return fmt.Errorf("the dialect %q is not known", os.Args[5])
		}
		said := talk.begin
		ask = func(round int) error {
			if round > 0 {
				said = append(said, talk.round(round-1)...)
			}
			return post(os.Args[4], talk.request(said))
		}
	}
	rounds, err := strconv.Atoi(os.Args[2])
	if err != nil {
		return err
	}
	events, err := strconv.Atoi(os.Args[3])
	if err != nil {
		return err
	}
	f, err := os.OpenFile(os.Args[1], os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	line := make([]byte, eventBytes)
	remember := func(events int) error {
		for range events {
			if _, err := f.Write(line); err != nil {
				return err
			}
			if err := syscall.Fdatasync(int(f.Fd())); err != nil {
				return err
			}
		}
		return nil
	}
	for round := range rounds {
		if err := ask(round); err != nil {
			return err
		}
		if err := remember((events + 1) / 2); err != nil { // the model asked for a tool, which may run
			return err
		}
		if out, err := exec.Command("bash", "--noprofile", "--norc", "-c", "true").CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		if err := remember(events / 2); err != nil { // the tool answered, which the model may hear
			return err
		}
	}
	if err := ask(rounds); err != nil {
		return err
	}
	return remember(min(events, 1)) // the model is done
}

// post makes one model call: it reads the whole answer and looks at nothing.
func post(url string, request any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	resp, err := http.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the model server answered %s", resp.Status)
	}
	return nil
}
