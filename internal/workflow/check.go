package workflow

import (
	"fmt"
	"slices"
	"strings"
)

// checker gathers the problems of one definition.
type checker struct {
	d        Definition
	flow     flow
	earlier  [][]bool // by stage: can the other have run before it
	unsure   bool     // the order is not what was meant, so nothing is said about it
	tools    []string // nil if not known
	problems Problems
}

// Check reports everything wrong with a definition that shows before it runs.
// tools are the tools of a session; nil leaves their names unchecked.
func Check(d Definition, tools []string) error {
	return check(d, tools, false).orNil()
}

// check is Check for a definition of which parts may not have been read.
func check(d Definition, tools []string, unsure bool) Problems {
	c := &checker{d: d, tools: tools, unsure: unsure}
	if len(d.Stages) > MaxStages {
		c.fail("stages", "there are %d, at most %d are allowed; split the workflow", len(d.Stages), MaxStages)
		return c.problems
	}
	c.head()
	c.flow = flowOf(d)
	c.earlier = c.flow.earlier()
	for i, s := range d.Stages { // first, because much else hangs on the order
		c.choices(i, s)
	}
	for i := range d.Stages {
		c.stage(i)
	}
	if !c.unsure {
		c.order()
	}
	return c.problems
}

func (c *checker) failAt(line int, where, format string, args ...any) {
	c.problems = append(c.problems, Problem{File: c.d.File, Line: line, Where: where, Text: fmt.Sprintf(format, args...)})
}

// fail reports a field of the workflow.
func (c *checker) fail(field, format string, args ...any) {
	c.failAt(max(c.d.lines[field], min(1, len(c.d.lines))), field, format, args...)
	c.markAbsent(field)
}

// failIn reports a field of a stage, at the stage where the field is missing.
func (c *checker) failIn(i int, field, format string, args ...any) {
	c.failAt(c.lineOf(i, field), c.where(i, field), format, args...)
	c.markAbsent(place(i, field))
}

// markAbsent says of the last problem whether its field was written at all.
func (c *checker) markAbsent(place string) {
	_, written := c.d.lines[place]
	c.problems[len(c.problems)-1].absent = !written
}

func (c *checker) lineOf(i int, field string) int {
	if line, ok := c.d.lines[place(i, field)]; ok {
		return line
	}
	return c.d.lines[place(i, "")]
}

func (c *checker) where(i int, field string) string {
	name := "stage " + c.d.Stages[i].ID
	if c.d.Stages[i].ID == "" {
		name = fmt.Sprintf("stage %d", i+1)
	}
	if field != "" {
		name += ", " + field
	}
	return name
}

func (c *checker) ids() []string {
	ids := make([]string, len(c.d.Stages))
	for i, s := range c.d.Stages {
		ids[i] = s.ID
	}
	return ids
}

// head checks what names the workflow and its stages.
func (c *checker) head() {
	if err := CheckID(c.d.ID); err != nil {
		c.fail("id", "%v", err)
	}
	if strings.ContainsAny(c.d.Name, "\n\r") {
		c.fail("name", "it has more than one line; write one")
	}
	if len(c.d.Stages) == 0 {
		c.fail("stages", "there are none; write at least one")
		c.unsure = true
		return
	}
	before := len(c.problems)
	for i, s := range c.d.Stages {
		if err := CheckID(s.ID); err != nil {
			c.failIn(i, "id", "%v", err)
		} else if first := c.d.index(s.ID); first != i {
			c.failIn(i, "id", "stage %d has this id too; write another", first+1)
		}
	}
	if c.d.index(c.d.First) < 0 {
		c.fail("first", "there is no stage %.80q; %s", c.d.First, Instead(c.d.First, c.ids()))
	}
	c.unsure = c.unsure || len(c.problems) > before
}

func (c *checker) stage(i int) {
	s := c.d.Stages[i]
	if strings.ContainsAny(s.Name, "\n\r") {
		c.failIn(i, "name", "it has more than one line; write one")
	}
	c.toolNames(i, s)
	switch {
	case len(s.CompletionSchema) == 0:
		c.failIn(i, "completionSchema", "it is missing; write a JSON Schema such as {type: object, required: [summary], properties: {summary: {type: string}}}")
	default:
		if _, err := compileSchema(s.CompletionSchema); err != nil {
			c.failIn(i, "completionSchema", "%v", err)
		}
	}
	if s.TurnCap < 1 || s.TurnCap > MaxTurnCap {
		c.failIn(i, "turnCap", "it is %d; write how many model requests an attempt may make, from 1 to %d", s.TurnCap, MaxTurnCap)
	}
	if s.VisitCap < 0 || s.VisitCap > MaxVisitCap {
		c.failIn(i, "visitCap", "it is %d; write how often one run may enter the stage, from 1 to %d, or leave it out", s.VisitCap, MaxVisitCap)
	}
	c.retryPolicy(i, s.RetryPolicy)
	c.body(i, s)
	c.rules(i, s)
}

func (c *checker) toolNames(i int, s Stage) {
	switch {
	case s.AllowedTools == nil:
		c.failIn(i, "allowedTools", "it is missing; write the tools the stage may use, [] for none, or all")
	case len(s.AllowedTools) > 1 && slices.Contains(s.AllowedTools, AllTools):
		c.failIn(i, "allowedTools", "all stands beside other names; write all alone, or the names")
	}
	for n, tool := range s.AllowedTools {
		switch {
		case slices.Index(s.AllowedTools, tool) != n:
			c.failIn(i, "allowedTools", "%s is there twice; keep one", tool)
		case tool == s.CompletionTool && tool != "":
			c.failIn(i, "allowedTools", "%s is the stage's completionTool, which is always allowed; remove it here", tool)
		case isServerTool(tool): // known only once its server is connected
		case tool != AllTools && c.tools != nil && !slices.Contains(c.tools, tool):
			c.failIn(i, "allowedTools", "there is no tool %.80q; %s", tool, Instead(tool, c.tools))
		}
	}
	switch {
	case s.CompletionTool == "":
		c.failIn(i, "completionTool", "it is missing; write the name of the tool that ends the stage, such as submit_%s", strings.ToLower(s.ID))
	case !isName(s.CompletionTool, "_-"):
		c.failIn(i, "completionTool", "%.80q is not a tool's name; write a letter and then letters, digits, _ or -, at most 64", s.CompletionTool)
	case isServerTool(s.CompletionTool):
		c.failIn(i, "completionTool", "%s could be a tool of an MCP server, whose names hold two underscores; write one without, such as submit_%s", s.CompletionTool, strings.ToLower(s.ID))
	case s.CompletionTool == AllTools || slices.Contains(c.tools, s.CompletionTool):
		c.failIn(i, "completionTool", "%s is the name of another tool; write one of its own, such as submit_%s", s.CompletionTool, strings.ToLower(s.ID))
	}
}

func (c *checker) retryPolicy(i int, p RetryPolicy) {
	known := []string{BackoffNone, BackoffFixed, BackoffExponential}
	switch waits := p.Backoff == BackoffFixed || p.Backoff == BackoffExponential; {
	case p.MaxAttempts < 1 || p.MaxAttempts > MaxAttempts:
		c.failIn(i, "retryPolicy", "maxAttempts is %d; write 1 to %d", p.MaxAttempts, MaxAttempts)
	case !slices.Contains(known, p.Backoff):
		c.failIn(i, "retryPolicy", "there is no backoff %.80q; %s", p.Backoff, Instead(p.Backoff, known))
	case waits && p.DelayMs <= 0:
		c.failIn(i, "retryPolicy", "backoff %s has no delay; write delay: 5s", p.Backoff)
	case !waits && p.DelayMs != 0:
		c.failIn(i, "retryPolicy", "delay has no use with backoff none; write backoff: fixed or exponential")
	case p.DelayMs > MaxDelay.Milliseconds():
		c.failIn(i, "retryPolicy", "delay is more than %s; write less", MaxDelay)
	}
}

// choices checks what a stage says about the stages after it.
func (c *checker) choices(i int, s Stage) {
	for n, choice := range s.Next {
		field := "next"
		if c.d.lines != nil {
			field = fmt.Sprintf("next[%d]", n)
		}
		fail := func(format string, args ...any) {
			c.failAt(c.lineOf(i, field), c.where(i, "next"), format, args...)
			c.unsure = true
		}
		for m, id := range choice.Stages {
			if c.d.index(id) < 0 {
				fail("there is no stage %.80q; %s", id, Instead(id, c.ids()))
			}
			if slices.Index(choice.Stages, id) != m {
				fail("%s is there twice; write each stage once", id)
			}
		}
		switch {
		case choice.Execution == "":
			fail("it has %d stages and no execution; write execution: %s or %s", len(choice.Stages), Sequential, Parallel)
		case choice.Execution != Sequential && choice.Execution != Parallel:
			fail("there is no execution %.80q; write %s or %s", choice.Execution, Sequential, Parallel)
		case choice.Join == "":
		case choice.Execution != Parallel:
			fail("join is for parallel stages; write execution: %s, or name %s as the last of stages", Parallel, choice.Join)
		case c.d.index(choice.Join) < 0:
			fail("join is %.80q, which is no stage; %s", choice.Join, Instead(choice.Join, c.ids()))
		case slices.Contains(choice.Stages, choice.Join):
			fail("join is %s, which is one of the stages it waits for; name another stage", choice.Join)
		case len(choice.Stages) == 0:
			fail("join %s waits for no stage; write the parallel stages", choice.Join)
		}
		if last := n == len(s.Next)-1; choice.When == "" && !last {
			fail("this choice always holds, so those after it are never asked; give it a when, or move it to the end")
		} else if choice.When != "" && last {
			fail("if no when holds there is no answer; write a last choice without when, such as stages: [] to end the run")
		}
	}
}

// order checks the ways a run can go as a whole.
func (c *checker) order() {
	for i, s := range c.d.Stages {
		switch {
		case !c.flow.reached[i]:
			c.failIn(i, "", "no run comes here from %s; name it in the next of another stage, or remove it", c.d.First)
		case !c.flow.asked[i] && len(s.Next) > 0:
			c.failIn(i, "next", "it is never asked, because whoever starts %s says what follows it; remove it", s.ID)
		}
	}
	if ids := c.flow.loop(c.d); ids != nil {
		c.failIn(c.d.index(ids[0]), "", "%s can go on for ever; give one of these stages a visitCap, such as visitCap: 3", strings.Join(ids, " → "))
	}
}
