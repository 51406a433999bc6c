package world

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"stave/internal/model"
	"stave/internal/runelog"
)

// TestTranscriptOfRandomLives shows, for every prefix of every random life, that
// the request a model would get pairs each call with exactly one result right
// behind it in call order; that adding rune by rune gives what building anew
// gives; and that what was handed out never changes.
func TestTranscriptOfRandomLives(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := born(rt)
		for range rapid.IntRange(1, maxActions).Draw(rt, "actions") {
			if err := l.act(rt); err != nil {
				rt.Fatal(err)
			}
		}
		runes := l.runes()
		growing := NewTranscript(RootPath)
		var handed [][]model.Message
		var asItWas []string
		for i, r := range runes {
			if err := growing.Add(r); err != nil {
				rt.Fatal(err)
			}
			messages := growing.Messages()
			if err := paired(messages); err != nil {
				rt.Fatalf("cut at %d: %v\n%s\n%s", r.Seq, err, text(messages), tail(l.tape))
			}
			handed, asItWas = append(handed, messages), append(asItWas, text(messages))
			if i%7 == 0 || i == len(runes)-1 {
				if anew := text(rebuild(rt, runes[:i+1]).Messages()); anew != asItWas[i] {
					rt.Fatalf("cut at %d: grown and built anew differ:\n%s\n%s", r.Seq, asItWas[i], anew)
				}
			}
		}
		for i := range handed {
			if now := text(handed[i]); now != asItWas[i] {
				rt.Fatalf("what was handed out at %d changed:\n%s\n%s", runes[i].Seq, asItWas[i], now)
			}
		}
	})
}

func rebuild(t rapid.TB, runes []runelog.Rune) *Transcript {
	fresh := NewTranscript(RootPath)
	for _, r := range runes {
		if err := fresh.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	return fresh
}

// paired says what is wrong with a request.
func paired(messages []model.Message) error {
	var open []string
	for i, m := range messages {
		if (m.Role == model.RoleTool) != (len(open) > 0) {
			return fmt.Errorf("message %d is of %s while %v wait for results", i, m.Role, open)
		}
		if len(m.Parts) == 0 {
			return fmt.Errorf("message %d is empty", i)
		}
		var results []string
		var calls []string
		for _, p := range m.Parts {
			if p.Result != nil {
				results = append(results, p.Result.ID)
			}
			if p.Call != nil {
				calls = append(calls, p.Call.ID)
			}
		}
		if fmt.Sprint(results) != fmt.Sprint(open) {
			return fmt.Errorf("message %d answers %v, but %v were called", i, results, open)
		}
		if len(calls) > 0 && m.Role != model.RoleAssistant {
			return fmt.Errorf("message %d calls as %s", i, m.Role)
		}
		open = calls
	}
	if len(open) > 0 {
		return fmt.Errorf("%v have no results", open)
	}
	return nil
}

// text writes a transcript for people.
func text(messages []model.Message) string {
	var b strings.Builder
	for _, m := range messages {
		fmt.Fprintf(&b, "%s:", m.Role)
		for _, p := range m.Parts {
			switch {
			case p.Call != nil:
				fmt.Fprintf(&b, " <%s %s %s>", p.Call.ID, p.Call.Name, p.Call.Args)
			case p.Result != nil:
				fmt.Fprintf(&b, " [%s %t %s]", p.Result.ID, p.Result.IsError, p.Result.Text)
			default:
				fmt.Fprintf(&b, " %s", p.Text)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// TestPairedNotices shows that the check above finds each way to be wrong.
func TestPairedNotices(t *testing.T) {
	call := func(id string) model.Part { return model.Part{Call: &model.ToolCall{ID: id}} }
	result := func(id string) model.Part { return model.Part{Result: &model.ToolResult{ID: id}} }
	say := func(role model.Role, parts ...model.Part) model.Message {
		return model.Message{Role: role, Parts: parts}
	}
	user := say(model.RoleUser, model.Part{Text: "hi"})
	for name, messages := range map[string][]model.Message{
		"no result":        {user, say(model.RoleAssistant, call("a"))},
		"too late":         {say(model.RoleAssistant, call("a")), user, say(model.RoleTool, result("a"))},
		"wrong order":      {say(model.RoleAssistant, call("a"), call("b")), say(model.RoleTool, result("b"), result("a"))},
		"one missing":      {say(model.RoleAssistant, call("a"), call("b")), say(model.RoleTool, result("a"))},
		"one too many":     {say(model.RoleAssistant, call("a")), say(model.RoleTool, result("a"), result("a"))},
		"never called":     {user, say(model.RoleTool, result("a"))},
		"called by a user": {say(model.RoleUser, call("a")), say(model.RoleTool, result("a"))},
		"empty":            {say(model.RoleUser)},
	} {
		if paired(messages) == nil {
			t.Errorf("%s: nothing is wrong", name)
		}
	}
}

// TestTranscriptTells shows what a model is told of each way things can go.
func TestTranscriptTells(t *testing.T) {
	const inTools = talking + `turn receive_tool_calls text="I look." calls="a:read b:read"` + "\n"
	const summed = "user: [What was said and done before this point, in short]\ngreetings\n"
	for _, c := range []struct{ name, story, want string }{
		{"an answer", talking + "turn delta text=he\nturn finish text=hello", "user: hi\nassistant: hello\n"},
		{"no answer", talking + "turn finish text=\"\"", "user: hi\nassistant: (no answer)\n"},
		{"tools, in call order", inTools + "b fail error=no text=half\na succeed text=yes\nturn finish text=ok", `user: hi
assistant: I look. <a read {"of":"a"}> <b read {"of":"b"}>
tool: [a false yes] [b true half
[error: no]]
assistant: ok
`},
		{"tools that are not done", inTools + "b succeed text=yes", `user: hi
assistant: I look. <a read {"of":"a"}> <b read {"of":"b"}>
tool: [a true the outcome is unknown: the conversation was cut here] [b false yes]
`},
		{"an interrupt while it spoke", talking + "turn delta text=half\nturn interrupt\nsession say text=so", "user: hi\nassistant: half\n[interrupt: stopped here]\nuser: so\n"},
		{"an interrupt before it spoke", talking + "turn interrupt\nsession say text=so", "user: hi\nuser: so\n"},
		{"an interrupt in tools", inTools + "a succeed text=yes\nturn interrupt", `user: hi
assistant: I look. <a read {"of":"a"}> <b read {"of":"b"}>
tool: [a false yes] [b true cancelled: cancelled: interrupt]
`},
		{"a failed attempt", talking + "turn delta text=wrong\nturn fail type=overloaded retryable\nturn finish text=right", "user: hi\nassistant: right\n"},
		{"a failed turn", talking + "turn delta text=wrong\nturn fail type=auth", "user: hi\n"},
		{"a broken router", inTools + "a crash error=broken", `user: hi
assistant: I look. <a read {"of":"a"}> <b read {"of":"b"}>
tool: [a true error: broken] [b true cancelled: cancelled: tool_crash]
`},
		{"a summary", talking + "turn finish text=hello\nsession say text=more\nturn compact messages=2 summary=greetings\nturn finish text=ok", summed + "user: more\nassistant: ok\n"},
		{"a summary of everything", talking + "turn finish text=hello\nsession say text=more\nturn compact messages=99 summary=all\nturn finish text=ok", "user: [What was said and done before this point, in short]\nall\nassistant: ok\n"},
		{"a summary of a summary", talking + "turn compact messages=1 summary=first\nturn finish text=hello\nsession say text=more\nturn compact messages=2 summary=greetings", summed + "user: more\n"},
		{"a summary that would part a call from its result", inTools + "a succeed text=yes\nb succeed text=no\nturn compact messages=2 summary=greetings\nturn finish text=ok", summed + "assistant: ok\n"},
		{"an answer to a question", talking + "turn receive_tool_calls calls=a:ask\na reply text=Ada", "user: hi\nassistant: <a ask {\"of\":\"a\"}>\ntool: [a false Ada]\n"},
		{"a way back", talking + "turn finish text=hello\nsession say text=wrong\nturn finish text=oh\nsession rewind seq=12\nsession say text=right", "user: hi\nassistant: hello\nuser: right\n"},
		{"a way back to a message", talking + "turn finish text=hello\nsession rewind seq=8\nsession say text=right", "user: right\n"},
		{"a way back behind a summary", talking + "turn compact messages=1 summary=greetings\nturn finish text=hello\nsession rewind seq=8\nsession say text=right", "user: right\n"},
		{"a word of a person", running + "crash\na happened output=done\nturn finish text=ok", `user: hi
assistant: <a bash {"of":"a"}>
tool: [a false done
[outcome stated by user:ann after the process had ended]]
assistant: ok
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			messages := rebuild(t, begin(t, c.story).runes()).Messages()
			if diff := cmp.Diff(c.want, text(messages)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestTranscriptOfFork shows that a fork goes on where its origin was cut.
func TestTranscriptOfFork(t *testing.T) {
	origin := rebuild(t, begin(t, talking+"turn finish text=hello").runes()).Messages()
	history, err := json.Marshal(map[string]any{"conversation_id": "c", "root_agent_id": "a", "config": map[string]any{"history": origin}})
	if err != nil {
		t.Fatal(err)
	}
	fork := NewTranscript(RootPath)
	for _, f := range []forged{
		{path: "session", kind: "session.created", arrow: ">created", payload: string(history)},
		{path: "agent:other/turn:1", kind: "turn.started", arrow: "idle>streaming", payload: `{"input":{"text":"not mine"}}`},
		{path: turn1, kind: "turn.started", arrow: "idle>streaming", payload: `{"input":{"text":"and now?"}}`},
	} {
		if err := fork.Add(f.rune(fork.Seq() + 1)); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := text(fork.Messages()), "user: hi\nassistant: hello\nuser: and now?\n"; got != want {
		t.Errorf("got %s", got)
	}
}

func TestTranscriptRefuses(t *testing.T) {
	r := forged{path: turn1, kind: "turn.started"}.rune(3)
	r.Payload = jsontext.Value(`{"input":7}`)
	if err := NewTranscript(RootPath).Add(r); err == nil || !strings.Contains(err.Error(), "transcript: rune 3 (turn.started): reading its payload") {
		t.Errorf("got %v", err)
	}
}

// TestAnyCutKeepsPairs shows that a summary may stand for any number of messages
// of any random life, even for one that no turn would write: what is left still
// pairs every call with its result, is the rest of what there was, and leaves
// what was handed out before as it was.
func TestAnyCutKeepsPairs(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := born(rt)
		for range rapid.IntRange(1, maxActions).Draw(rt, "actions") {
			if err := l.act(rt); err != nil {
				rt.Fatal(err)
			}
		}
		runes := l.runes()
		whole := rebuild(rt, runes[:rapid.IntRange(1, len(runes)).Draw(rt, "until")])
		before := whole.Messages()
		asItWas := text(before)
		for range rapid.IntRange(1, 3).Draw(rt, "times") {
			had := whole.Messages()
			cut := rapid.IntRange(-2, len(had)+2).Draw(rt, "cut")
			summary := forged{path: turn1, kind: "turn.compacted", payload: fmt.Sprintf(`{"messages":%d,"summary":"so far"}`, cut)}
			if err := whole.Add(summary.rune(whole.Seq() + 1)); err != nil {
				rt.Fatal(err)
			}
			now := whole.Messages()
			if err := paired(now); err != nil {
				rt.Fatalf("cut at %d: %v\n%s", cut, err, text(now))
			}
			if len(now) == 0 || !strings.HasSuffix(text(had), text(now[1:])) || !strings.HasSuffix(now[0].Parts[0].Text, "so far") {
				rt.Fatalf("cut at %d:\n%s\nof\n%s", cut, text(now), text(had))
			}
		}
		if now := text(before); now != asItWas {
			rt.Fatalf("what was handed out changed:\n%s\n%s", asItWas, now)
		}
	})
}

// TestTranscriptOfAnotherAgent shows that an agent which works for another knows
// its own task and nothing else: neither the conversation nor what it was forked
// from.
func TestTranscriptOfAnotherAgent(t *testing.T) {
	const fork = `{"conversation_id":"c","root_agent_id":"agt_1","config":{"history":[{"role":"user","parts":[{"text":"long ago"}]}]}}`
	runes := begin(t, parented+"agent:agt_a/turn:1 reserve amount=tokens:5\nagent:agt_a/turn:1 finish text=went\nturn:1 finish text=hello").runes()
	runes[0].Payload = jsontext.Value(fork)
	for at, want := range map[Path]string{
		RootPath: "user: long ago\nuser: hi\nassistant: hello\n", "agent:agt_a": "user: go\nassistant: went\n", "agent:agt_b": "",
	} {
		heard := NewTranscript(at)
		for _, r := range runes {
			if err := heard.Add(r); err != nil {
				t.Fatal(err)
			}
		}
		if got := text(heard.Messages()); got != want {
			t.Errorf("%s is told\n%s", at, got)
		}
	}
}
