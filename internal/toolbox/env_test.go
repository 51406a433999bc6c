package toolbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// fakeEnv is an Env over a temporary directory that remembers what it was told.
type fakeEnv struct {
	t       testing.TB
	dir     string
	attempt int
	plain   bool
	intent  json.RawMessage
	declare func(json.RawMessage) error // runs after an intent is kept

	mu       sync.Mutex
	progress []string
	blobs    map[string]int64 // size by hash; contents are not kept
}

func newEnv(t testing.TB) *fakeEnv {
	return &fakeEnv{t: t, dir: t.TempDir(), attempt: 1, blobs: map[string]int64{}}
}

func (e *fakeEnv) Dir() string             { return e.dir }
func (e *fakeEnv) Attempt() int            { return e.attempt }
func (e *fakeEnv) Plain() bool             { return e.plain }
func (e *fakeEnv) Again() bool             { return false }
func (e *fakeEnv) CallID() string          { return "call_1" }
func (e *fakeEnv) Agents() Agents          { return nil }
func (e *fakeEnv) Intent() json.RawMessage { return e.intent }

func (e *fakeEnv) Declare(_ context.Context, intent any) error {
	b, err := json.Marshal(intent)
	if err != nil {
		return err
	}
	e.intent = b
	if e.declare != nil {
		return e.declare(b)
	}
	return nil
}

func (e *fakeEnv) Progress(stream, chunk string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if stream != "stdout" && stream != "stderr" {
		e.t.Errorf("progress on stream %q", stream)
	}
	e.progress = append(e.progress, chunk)
}

func (e *fakeEnv) TempFile() (TempFile, error) {
	return os.CreateTemp(e.t.TempDir(), "call")
}

func (e *fakeEnv) PutBlob(_ context.Context, r io.Reader) (string, error) {
	h := sha256.New()
	n, err := io.Copy(h, r)
	if err != nil {
		return "", err
	}
	sum := hex.EncodeToString(h.Sum(nil))
	e.blobs[sum] = n
	return sum, nil
}

func (e *fakeEnv) streamed() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(e.progress, "")
}

// put writes a file of the workspace.
func (e *fakeEnv) put(name, content string) {
	e.t.Helper()
	path := filepath.Join(e.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		e.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		e.t.Fatal(err)
	}
}

func (e *fakeEnv) get(name string) string {
	e.t.Helper()
	b, err := os.ReadFile(filepath.Join(e.dir, name))
	if err != nil {
		e.t.Fatal(err)
	}
	return string(b)
}

// run calls a tool with arguments as the engine does.
func (e *fakeEnv) run(tool Tool, args any) (Output, error) {
	e.t.Helper()
	return e.runCtx(context.Background(), tool, args)
}

func (e *fakeEnv) runCtx(ctx context.Context, tool Tool, args any) (Output, error) {
	e.t.Helper()
	var buf bytes.Buffer
	if err := json.NewEncoder(&buf).Encode(args); err != nil {
		e.t.Fatal(err)
	}
	canonical, err := Canonical(buf.String())
	if err != nil {
		e.t.Fatalf("canonical arguments of %s: %v", tool.Name, err)
	}
	if err := tool.Check(canonical); err != nil {
		e.t.Fatalf("checking arguments of %s: %v", tool.Name, err)
	}
	return tool.Run(ctx, e, canonical)
}

func (e *fakeEnv) must(tool Tool, args any) Output {
	e.t.Helper()
	out, err := e.run(tool, args)
	if err != nil {
		e.t.Fatalf("%s: %v", tool.Name, err)
	}
	return out
}

// args are arguments as a model writes them.
type args map[string]any

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want one with %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
}
