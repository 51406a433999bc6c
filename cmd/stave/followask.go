package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"stave/internal/engine"
	"stave/internal/machine/tool"
	"stave/internal/world"
)

// askPerson puts a question to the person at the terminal and reports whether it
// is settled; left open, it can be answered later from anywhere.
func (f *follower) askPerson(ctx context.Context, q world.Question) (bool, error) {
	listening(false) // in the background a question stops us until somebody comes
	defer listening(true)
	f.app.forget()
	d := f.app.newDialog(q, f.ending.view.Dir)
	d.prompt()
	for {
		select {
		case typed := <-f.app.readLine():
			f.app.reading = false
			if typed.end {
				f.app.note("")
				return false, nil
			}
			choice, text := d.read(typed.line)
			if choice == "" {
				d.prompt()
				continue
			}
			_, err := f.host.engine.Answer(ctx, engine.Choice{Question: q.Log + "/" + q.ID, Choice: choice, Text: text, By: f.app.by()})
			var late *engine.Answered
			if errors.As(err, &late) {
				err = nil // somebody else was faster
			}
			return err == nil, err
		case s, ok := <-f.hold():
			if !ok {
				f.runes = nil
				continue
			}
			f.held = append(f.held, s)
			if s.err != nil || s.r.Path == string(q.Path) && s.r.From != s.r.To {
				f.app.note("\n  this is no longer asked")
				return true, nil
			}
		case s := <-f.app.signals:
			f.app.note("")
			if err := f.heed(ctx, s); err != nil {
				return false, err
			}
			return true, nil
		}
	}
}

// maxHeld bounds what is held back; the rest waits in the log.
const maxHeld = 4096

// hold is where runes come from while a person reads: none of them is shown before
// the answer, and there is room for so many.
func (f *follower) hold() <-chan seen {
	if len(f.held) >= maxHeld {
		return nil
	}
	return f.runes
}

// howToAnswer says what to type to settle the open questions.
func (a *app) howToAnswer(questions []world.Question) string {
	ways := make([]string, len(questions))
	for i, q := range questions {
		ways[i] = fmt.Sprintf("%s waits for an answer: %s", summary(q), a.answerLine(q))
	}
	return strings.Join(ways, "\n")
}

// answerLine is what to type to settle a question. The choice is left to be
// written: a line that names them all could be pasted, and a shell would take one.
func (a *app) answerLine(q world.Question) string {
	line := a.command("answer %s CHOICE", q.ID)
	if _, words := q.Ask.(tool.WhatToSay); words {
		line += " --text TEXT"
	}
	return fmt.Sprintf("`%s`, where CHOICE is %s", line, orList(q.Choices))
}

func orList(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
