package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// npmVar names the directory the programs of the tests are installed in.
const npmVar = "STAVE_NPM"

// npm installs a pinned set of programs once and returns where they are.
func npm(t *testing.T, set string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("programs from npm are not installed with -short")
	}
	root := os.Getenv(npmVar)
	if root == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatalf("there is no place for programs from npm; set %s: %v", npmVar, err)
		}
		root = filepath.Join(cache, "stave-test-npm")
	}
	lock, err := os.ReadFile(filepath.Join("testdata", set, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, set+"-"+digestOf(lock)[:16])
	if _, err := os.Stat(dir); err == nil {
		return filepath.Join(dir, "node_modules")
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		t.Fatal(err)
	}
	// Made beside and moved as a whole, so that a test that was ended leaves no half.
	half, err := os.MkdirTemp(root, ".install-*")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(half)
	if err := os.CopyFS(half, os.DirFS(filepath.Join("testdata", set))); err != nil {
		t.Fatal(err)
	}
	install := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	install.Dir = half
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("installing from npm (go test -short leaves these tests out): %v\n%s", err, out)
	}
	if err := os.Rename(half, dir); err != nil {
		if _, there := os.Stat(dir); there != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "node_modules")
}

func TestEverythingServer(t *testing.T) {
	// The reference server of the protocol, over its input and output and over
	// HTTP.
	script := filepath.Join(npm(t, "npm"), "@modelcontextprotocol/server-everything/dist/index.js")
	t.Run("stdio", func(t *testing.T) {
		everything(t, Server{Command: "node", Args: []string{script, "stdio"}})
	})
	t.Run("http", func(t *testing.T) {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
		l.Close()
		cmd := exec.CommandContext(t.Context(), "node", script, "streamableHttp")
		cmd.Env = append(os.Environ(), "PORT="+port)
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			cmd.Process.Kill()
			cmd.Wait()
			if t.Failed() {
				t.Logf("the server said:\n%s", said.String())
			}
		}()
		// It is not up yet: the hub goes on trying.
		everything(t, Server{URL: "http://127.0.0.1:" + port + "/mcp"})
	})
}

func everything(t *testing.T, config Server) {
	s := open1(t, Config{Servers: map[string]Server{"every": config}}, Options{Limits: Limits{BackoffMost: 200 * time.Millisecond}})
	defer s.Close()
	st := s.approveAll("every")
	t.Logf("%s %s speaks %s with %d tools, %d prompts, %d resources; notes %q", st.Title, st.Version, st.Protocol, len(st.Tools), st.Prompts, st.Resources, st.Notes)
	for _, tool := range st.Tools {
		if tool.Status != Available {
			t.Errorf("%s is %s: %s", tool.Name, tool.Status, tool.Why)
		}
	}
	out, err := s.call("every__echo", `{"message":"gr\u00fc\u00dfe <&>"}`)
	if err != nil || !strings.Contains(out.Text, "grüße <&>") {
		t.Errorf("echo gave %+v, %v", out, err)
	}
	e := &env{}
	out, err = s.tool("every__get-tiny-image").Run(t.Context(), e, json.RawMessage(`{}`))
	kept, _ := out.Meta["attachments"].([]attachment)
	if err != nil || len(kept) != 1 || kept[0].MIMEType != "image/png" || !bytes.HasPrefix(e.blobs[kept[0].SHA256], []byte("\x89PNG")) {
		t.Errorf("the image is %+v, %v", out, err)
	}
	out, err = s.tool("every__trigger-long-running-operation").Run(t.Context(), e, json.RawMessage(`{"duration":0.2,"steps":4}`))
	if err != nil || len(e.progress) == 0 {
		t.Errorf("the long operation gave %+v, %v with reports %q", out, err, e.progress)
	}
	if len(s.Prompts()) == 0 || len(s.Resources()) == 0 {
		t.Fatalf("prompts %v, resources %v", s.Prompts(), s.Resources())
	}
	if p, err := s.GetPrompt(t.Context(), "every", "simple-prompt", nil); err != nil || len(p.Messages) == 0 {
		t.Errorf("the prompt is %+v, %v", p, err)
	}
	for _, r := range s.Resources() {
		if r.Template {
			continue
		}
		if got, err := s.ReadResource(t.Context(), "every", r.URI); err != nil || len(got) == 0 {
			t.Errorf("reading %s gave %+v, %v", r.URI, got, err)
		}
		break
	}
}

func TestFilesystemServer(t *testing.T) {
	script := filepath.Join(npm(t, "npm"), "@modelcontextprotocol/server-filesystem/dist/index.js")
	dir := t.TempDir()
	s := open1(t, Config{Servers: map[string]Server{"fs": {Command: "node", Args: []string{script, dir}, Cwd: dir}}}, Options{})
	s.approveAll("fs")
	file := filepath.Join(dir, "a.txt")
	args, _ := json.Marshal(map[string]string{"path": file, "content": "one\ntwo <&>\n"})
	if _, err := s.call("fs__write_file", string(args)); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "one\ntwo <&>\n" {
		t.Errorf("written was %q, %v", text, err)
	}
	args, _ = json.Marshal(map[string]string{"path": file})
	if out, err := s.call("fs__read_text_file", string(args)); err != nil || out.Text != "one\ntwo <&>\n" {
		t.Errorf("read was %+v, %v", out, err)
	}
	if _, err := s.call("fs__read_text_file", `{"path":"/etc/passwd"}`); err == nil || !strings.Contains(err.Error(), "denied") {
		t.Errorf("reading outside gave %v", err)
	}
}
