package checkpoint

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"stave/internal/runelog"
)

// blobs keeps contents in memory, counts, and can be told to fail.
type blobs struct {
	mu      sync.Mutex
	content map[string][]byte
	puts    int
	opened  int
	onOpen  func(n int, sha string) error
	onPut   func() error
}

func (b *blobs) PutBlob(_ context.Context, r io.Reader) (runelog.Blob, error) {
	content, err := io.ReadAll(r)
	if err != nil {
		return runelog.Blob{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.onPut != nil {
		if err := b.onPut(); err != nil {
			return runelog.Blob{}, err
		}
	}
	b.puts++
	b.content[hash(content)] = content
	return runelog.Blob{SHA256: hash(content), Size: int64(len(content))}, nil
}

func (b *blobs) OpenBlob(_ context.Context, sha string) (io.ReadCloser, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.opened++
	if b.onOpen != nil {
		if err := b.onOpen(b.opened, sha); err != nil {
			return nil, err
		}
	}
	content, ok := b.content[sha]
	if !ok {
		return nil, runelog.ErrNotFound
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

// tree is a workspace with something beside it that nobody may touch.
type tree struct {
	t       *testing.T
	dir     string
	outside string
	blobs   *blobs
	store   *Store
}

func newTree(t *testing.T) *tree {
	t.Helper()
	top := t.TempDir()
	x := &tree{t: t, dir: filepath.Join(top, "in"), outside: filepath.Join(top, "out"), blobs: &blobs{content: map[string][]byte{}}}
	x.store = New(x.blobs)
	x.do(os.Mkdir(x.dir, 0o755))
	x.do(os.Mkdir(x.outside, 0o755))
	x.do(os.WriteFile(filepath.Join(x.outside, "precious"), []byte("precious"), 0o644))
	return x
}

func (x *tree) do(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

func (x *tree) at(p string) string { return filepath.Join(x.dir, p) }

func (x *tree) put(p, content string) {
	x.t.Helper()
	x.do(os.MkdirAll(filepath.Dir(x.at(p)), 0o755))
	x.do(os.WriteFile(x.at(p), []byte(content), 0o644))
}

func (x *tree) keep() string {
	x.t.Helper()
	kept, err := x.store.Keep(x.t.Context(), x.dir)
	x.do(err)
	return kept.Blob
}

func (x *tree) restore(blob string) (restored, removed int) {
	x.t.Helper()
	restored, removed, err := x.store.Restore(x.t.Context(), x.dir, blob)
	x.do(err)
	return restored, removed
}

// picture says of every path below a directory what is there.
func picture(t *testing.T, dir string) map[string]string {
	t.Helper()
	seen := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		switch info.Mode().Type() {
		case 0:
			content, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			seen[rel] = fmt.Sprint(info.Mode(), " ", string(content))
		case fs.ModeSymlink:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			seen[rel] = "-> " + target
		default:
			seen[rel] = info.Mode().String()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

// covered leaves out of a picture what the rules leave alone.
func covered(seen map[string]string) map[string]string {
	left := map[string]string{}
	for p, what := range seen {
		if !ignored(seen, p) {
			left[p] = what
		}
	}
	return left
}

func ignored(seen map[string]string, p string) bool {
	for ; p != "."; p = filepath.Dir(p) {
		base := filepath.Base(p)
		if base == ".git" || base == "node_modules" && strings.HasPrefix(seen[p], "d") {
			return true
		}
	}
	return false
}
