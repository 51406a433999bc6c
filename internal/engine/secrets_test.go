package engine_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"

	"stave/internal/engine"
	"stave/internal/machine/session"
	"stave/internal/machine/tool"
	"stave/internal/runelog/memory"
	"stave/internal/secret"
	"stave/internal/toolbox"
	"stave/internal/world"
)

const canary = "k-canary-1234567890"

func withCanary(o *engine.Options) {
	o.Secrets = &secret.Set{}
	o.Secrets.Add(canary)
}

// TestSecretsStayOut shows that a registered value reaches no rune and no blob,
// whoever brings it in: a person, a model, a tool, an answer, an error.
func TestSecretsStayOut(t *testing.T) {
	script := `
replies:
  - deltas: ["here it is: k-cana", "ry-1234567890", " and more"]
    reasoning: "the key is k-canary-1234567890"
    calls:
      - {tool: Bash, args: {command: "cat key; base64 -w0 key; xxd -p key 2>/dev/null; yes \"$(cat key)\" | head -3000"}}
      - {tool: Bash, args: {command: "echo k-canary-1234567890"}}
      - {tool: "No-k-canary-1234567890", args: {}}
      - {tool: Read, raw: '{"path": "k-canary-1234567890'}
      - {tool: AskUser, args: {question: "what is it?"}}
  - text: "k-canary-1234567890"
`
	log := memory.New()
	r := newRig(t, log, script, withAgents, withCanary)
	r.write("key", canary)
	conv := r.begin("my key is "+canary, "yolo")
	v := r.settle(conv)
	if len(v.Questions) != 1 {
		t.Fatalf("questions: %+v", v.Questions)
	}
	if _, err := r.Answer(t.Context(), engine.Choice{Question: v.Questions[0].ID, Choice: "reply", Text: "it is " + canary, By: "user:t"}); err != nil {
		t.Fatal(err)
	}
	r.settle(conv)
	if err := r.Say(t.Context(), conv, session.Say{Text: "again: " + canary}, "user:t"); err != nil {
		t.Fatal(err)
	}
	r.settle(conv)
	seen := 0
	for rn, err := range log.Read(t.Context(), conv, 0) {
		if err != nil {
			t.Fatal(err)
		}
		text := append(bytes.Clone(rn.Raw()), rn.Payload...)
		if strings.Contains(string(text), secret.Mark) {
			seen++
		}
		for _, form := range []string{canary, base64.StdEncoding.EncodeToString([]byte(canary)), hex.EncodeToString([]byte(canary))} {
			if bytes.Contains(text, []byte(form)) {
				t.Errorf("rune %d (%s) holds %q", rn.Seq, rn.Kind, form)
			}
		}
	}
	if seen < 5 {
		t.Errorf("only %d runes had anything to hide; the test has lost its bite", seen)
	}
	r.kinds(conv)
}

// TestScrubbedCommand shows that the last door holds for any command.
func TestScrubbedCommand(t *testing.T) {
	r := newRig(t, memory.New(), "replies:\n  - {calls: [{tool: Bash, args: {command: \"true\"}}]}\n  - {text: ok}\n", withCanary, func(o *engine.Options) {
		o.Tools, _ = toolbox.NewSet(toolbox.Bash())
	})
	conv := r.begin("go", "ask")
	v := r.settle(conv)
	r.tell(conv, v.Questions[0].Path, tool.Deny{Reason: "because " + canary})
	r.settle(conv)
	if got := r.payload(conv, "tool.denied"); strings.Contains(got, canary) || !strings.Contains(got, secret.Mark) {
		t.Errorf("%s", got)
	}
	r.tell(conv, world.SessionPath, session.Pause{Reason: canary})
	if got := r.payload(conv, "session.paused"); strings.Contains(got, canary) {
		t.Errorf("%s", got)
	}
}
