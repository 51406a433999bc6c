package world

import (
	"strconv"
	"strings"
)

// Path names an instance inside its log: agent:root/turn:1/tool:call_7.
type Path string

// The fixed paths of a conversation.
const (
	SessionPath Path = "session"
	RootPath    Path = "agent:root"
)

func (p Path) turn(n int) Path       { return p + "/turn:" + Path(strconv.Itoa(n)) }
func (p Path) tool(call string) Path { return p + "/tool:" + Path(call) }

// Parent is the path of the instance it lives under, "" for none.
func (p Path) Parent() Path { return p.parent() }

func (p Path) parent() Path           { return p[:max(0, strings.LastIndexByte(string(p), '/'))] }
func (p Path) under(parent Path) bool { return strings.HasPrefix(string(p), string(parent)+"/") }

// machine is the name of the machine that lives at the path.
func (p Path) machine() string {
	last := string(p[strings.LastIndexByte(string(p), '/')+1:])
	name, _, _ := strings.Cut(last, ":")
	return name
}

// Name is the last part of the path without its machine: the call id of a tool.
func (p Path) Name() string {
	return string(p[strings.LastIndexAny(string(p), "/:")+1:])
}

// ChildPath is where the agent lives that a call started.
func ChildPath(call string) Path { return Path("agent:" + ChildID(call)) }

// ChildID names the agent that a call started: the same however often the call
// has to be taken up again.
func ChildID(call string) string { return "agt_" + strings.TrimPrefix(call, "call_") }

// RunPath is where a run of a workflow lives.
func RunPath(run string) Path { return Path("workflow:" + run) }

// stagePath is where a stage execution lives: under its run.
func stagePath(run, execution string) Path {
	return RunPath(run) + "/stage:" + Path(strings.TrimPrefix(execution, run+"."))
}

// AgentOf returns the agent a turn or call belongs to.
func AgentOf(p Path) Path {
	for p != "" && p.machine() != "agent" {
		p = p.parent()
	}
	return p
}
