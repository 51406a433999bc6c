package policy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"stave/internal/machine/tool"
)

// shellCall is a call of the shell tool as the world makes it.
func shellCall(t testing.TB, command string) tool.Call {
	t.Helper()
	args, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		t.Fatal(err)
	}
	return tool.Call{CallID: "c", Tool: ShellTool, Arguments: args, Digest: "d" + command, Safety: "side_effect"}
}

// readCorpus returns the commands of a file by class: one a line, as it is or as
// a quoted Go string; a line that starts with # opens a class.
func readCorpus(t testing.TB, name string) map[string][]string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	classes, class := map[string][]string{}, "all"
	for i, line := range strings.Split(strings.TrimSuffix(string(b), "\n"), "\n") {
		if rest, ok := strings.CutPrefix(line, "# "); ok {
			class = rest
			continue
		}
		if strings.HasPrefix(line, `"`) && strings.HasSuffix(line, `"`) {
			text, err := strconv.Unquote(line)
			if err == nil {
				line = text
			} else if strings.Contains(line, `\`) {
				t.Fatalf("%s:%d: %v", name, i+1, err)
			}
		}
		classes[class] = append(classes[class], line)
	}
	return classes
}

func mustLoad(t testing.TB, name string) Rules {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	rules, err := Load(name, b)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

func defaults(t testing.TB) Rules {
	t.Helper()
	rules, err := Load(defaultName, defaultFile)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// TestBypasses shows that no command of the corpus runs without a person, neither
// by the default rules nor by rules for its harmless siblings.
func TestBypasses(t *testing.T) {
	rules := Join(defaults(t), mustLoad(t, "siblings.yaml"))
	total := 0
	for class, commands := range readCorpus(t, "bypass.txt") {
		for _, command := range commands {
			total++
			for mode, want := range map[string]tool.Answer{ModeAsk: tool.Ask, ModeAllowlist: tool.Refuse} {
				p := Posture{Mode: mode, Rules: rules, Dir: "/w/project"}
				if v := Judge(p, shellCall(t, command)); v.Answer != want || v.Plain {
					t.Errorf("%s, %s: %q: %+v", class, mode, command, v)
				}
			}
			// JSON repairs text that is not UTF-8; here it arrives as it is.
			if f := rules.judge(subject{call: tool.Call{Tool: ShellTool}, shell: true, script: Shell(command)}); f.verdict.Answer != "" {
				t.Errorf("%s: %q: %+v", class, command, f)
			}
		}
	}
	if total < 300 {
		t.Errorf("the corpus has %d commands, want 300 or more", total)
	}
}

// TestAllowed shows that the rules of the bypass test do allow something, so that
// it can fail.
func TestAllowed(t *testing.T) {
	rules := Join(defaults(t), mustLoad(t, "siblings.yaml"))
	for _, command := range readCorpus(t, "allowed.txt")["all"] {
		for _, mode := range []string{ModeAsk, ModeAllowlist, ModeYolo} {
			v := Judge(Posture{Mode: mode, Rules: rules, Dir: "/w/project"}, shellCall(t, command))
			if v.Answer != tool.Allow || !v.Plain || !strings.HasPrefix(v.By, "rule:") {
				t.Errorf("%s: %q: %+v (%s)", mode, command, v, Shell(command).Reason)
			}
		}
	}
}

// TestDenySeesEverything shows that a deny rule finds its command wherever a
// script hides it, and that a person is asked where nobody can tell.
func TestDenySeesEverything(t *testing.T) {
	rules, err := Load("t", []byte(`rules:
- {id: no-rm, decision: deny, command: [rm], flags: [-r, --recursive]}
- {id: no-push, decision: deny, command: [git, push], reason: nobody pushes}`))
	if err != nil {
		t.Fatal(err)
	}
	p := Posture{Mode: ModeYolo, Rules: rules}
	for command, want := range map[string]tool.Answer{
		"rm -r x": tool.Refuse, "rm -rf x": tool.Refuse, "rm -fr x": tool.Refuse, "rm x -r": tool.Refuse, "/bin/rm -r x": tool.Refuse,
		"RM -r x": tool.Refuse, "rm --rec x": tool.Refuse, "rm --recursive=x": tool.Refuse, "rm --": tool.Allow, "rm x": tool.Allow, "rm -f x": tool.Allow,
		"ls; rm -r x": tool.Refuse, "ls && (cd x; rm -r y)": tool.Refuse, "echo $(rm -r x)": tool.Refuse, "echo `rm -r x`": tool.Refuse,
		"f() { rm -r x; }": tool.Refuse, "if a; then rm -r x; fi": tool.Refuse, "cat <(rm -r x)": tool.Refuse, "rm -r x > y &": tool.Refuse,
		`r\m -r x`: tool.Refuse, `'rm' "-r" x`: tool.Refuse, `"r"m -r x`: tool.Refuse, `"r\m" -r x`: tool.Allow, "A=b rm -r x": tool.Refuse,
		"env rm -r x": tool.Refuse, "sudo -u a rm -r x": tool.Refuse, "ls | xargs rm -r": tool.Refuse, "timeout 5 nohup rm -r x": tool.Refuse,
		"eval rm -r x": tool.Refuse, "eval 'rm -r x'": tool.Refuse, "bash -c 'ls; rm -r x'": tool.Refuse, "sudo bash -c 'rm -r x'": tool.Refuse,
		"sh -c \"sh -c 'rm -r x'\"": tool.Refuse, "bash <<< 'rm -r x'": tool.Refuse, "bash << E\nrm -r x\nE": tool.Refuse,
		"trap 'rm -r x' EXIT": tool.Refuse, "time rm -r x": tool.Refuse, "! rm -r x": tool.Refuse,
		"git push": tool.Refuse, "git --no-pager push": tool.Refuse, "git push origin main": tool.Refuse, "git -C x push": tool.Ask,
		"git commit -m push": tool.Allow, "git log": tool.Allow, "git": tool.Allow, "git $X": tool.Ask, "git -v": tool.Allow,
		"$X -r": tool.Ask, "rm $X": tool.Ask, "rm {-r,x}": tool.Ask, "r? -r x": tool.Ask, "$'rm' -r x": tool.Ask, "~/rm -r x": tool.Ask,
		"rm \"$X\"": tool.Ask, "bash -c \"$X\"": tool.Ask, "echo x | sh": tool.Ask, "bash < x": tool.Ask, "bash << E\n$X\nE": tool.Ask,
		"eval": tool.Allow, "bash -c '('": tool.Ask, "sh -c \"sh -c 'sh -c \\\"sh -c ls\\\"'\"": tool.Ask,
		"python3 -c 'rm'": tool.Ask, "find . -exec rm x": tool.Ask, "python3 x.py": tool.Allow,
		"python3 -c 'platform'": tool.Allow, "env -S 'rm -r x'": tool.Ask, "timeout 5 ./form.sh arm": tool.Allow, "python3 -c 'form-rm'": tool.Ask,
		"rm -r (": tool.Ask, "ls (": tool.Allow, "rm\r-r x": tool.Ask, "git\x00push": tool.Ask, "export A=b": tool.Allow, "A=b": tool.Allow,
		"(ls) < x": tool.Allow, "ls > x": tool.Allow,
	} {
		v := Judge(p, shellCall(t, command))
		if v.Answer != want {
			t.Errorf("%q: %+v, want %s", command, v, want)
		}
		if v.Answer == tool.Refuse && v.By != "rule:no-rm" && v.By != "rule:no-push" {
			t.Errorf("%q: refused by %q", command, v.By)
		}
	}
	if v := Judge(p, shellCall(t, "git push")); v.Reason != "nobody pushes (rule no-push)" {
		t.Errorf("reason %q", v.Reason)
	}
	for _, args := range []string{"", "[]", "{}", `{"command":7,"x":1}`, `{"command":{}}`, `{"command":"ls","command":"rm -r x"}`} {
		c := tool.Call{Tool: ShellTool, Arguments: []byte(args)}
		want := tool.Ask
		if args == `{"command":7,"x":1}` {
			want = tool.Allow // seven is a command like any other, and no denied one
		}
		if v := Judge(p, c); v.Answer != want {
			t.Errorf("%s: %+v, want %s", args, v, want)
		}
	}
}
