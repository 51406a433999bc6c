package main

import (
	"strings"
	"testing"
)

// TestReply shows that a person answers what an agent asks in words, and that a
// letter without words is not taken for an answer.
func TestReply(t *testing.T) {
	t.Parallel()
	s := atTerminal(t, `
replies:
  - calls: [{tool: AskUser, args: {question: "Red or blue?"}}]
  - when: deep blue
    text: Deep blue it is.
`, "ask", "--model", "script:script.yaml", "paint it")
	s.expect("? AskUser: the agent wants to know")
	s.expect("Red or blue?")
	s.expect("r = reply, with your words behind it, n = no answer, ? = whole arguments > ")
	s.types("r\n")
	s.expect("? = whole arguments > ")
	s.types("blue\n")
	s.expect("? = whole arguments > ")
	s.types("r deep blue\n")
	s.expect("Deep blue it is.")
	s.ends(0)
}

const helpers = `
scenes:
  - opening: wait for it
    replies:
      - calls: [{tool: Bash, args: {command: "echo waiting; sleep 30"}}]
replies:
  - calls: [{tool: SpawnAgent, args: {task: wait for it}}]
  - text: never
`

// TestInterruptHelpers shows that Ctrl-C ends the turn a person waits for, with
// the agents that work for it, and not just one of theirs.
func TestInterruptHelpers(t *testing.T) {
	t.Parallel()
	s := atTerminal(t, helpers, "ask", "--mode", "yolo", "--model", "script:script.yaml", "--sandbox", "off", "go")
	s.expect("waiting")
	s.types(ctrlC)
	s.expect("stave: interrupted: what was said so far is kept")
	s.ends(130)
	if log := s.stave("log", "last"); !strings.Contains(log, "agent:root/turn:1                   turn.interrupted") {
		t.Errorf("the first agent's turn was not interrupted:\n%s", log)
	}
	if list := s.stave("ls", "--json"); strings.Contains(list, `"waits_for"`) {
		t.Errorf("something still runs: %s", list)
	}
}

const background = `
scenes:
  - opening: wait for it
    replies:
      - calls: [{tool: Bash, args: {command: "echo waiting; exec sleep 30"}}]
replies:
  - calls: [{tool: SpawnAgent, args: {task: wait for it, background: true}}]
  - text: It is on its way.
`

// TestInterruptBackground shows that one Ctrl-C also ends an agent that works on
// after the turn that started it.
func TestInterruptBackground(t *testing.T) {
	t.Parallel()
	s := atTerminal(t, background, "ask", "--mode", "yolo", "--model", "script:script.yaml", "--sandbox", "off", "go")
	s.expect("It is on its way.")
	for !strings.Contains(s.seen(), "waiting") {
		s.expect("\n")
	}
	s.types(ctrlC)
	s.expect("stave: interrupted: what was said so far is kept")
	s.ends(130)
	log := s.stave("log", "last")
	if strings.Count(log, "turn.completed") != 1 || strings.Count(log, "turn.interrupted") != 1 {
		t.Errorf("not just the second agent's turn was interrupted:\n%s", log)
	}
	if list := s.stave("ls", "--json"); strings.Contains(list, `"waits_for"`) {
		t.Errorf("something still runs: %s", list)
	}
}
