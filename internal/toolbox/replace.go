package toolbox

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	tempPrefix    = ".stave-"
	alreadyDone   = "(already done before the restart)"
	hashChunk     = 1 << 20
	newFileMode   = 0o666 // the umask takes away from it
	newDirMode    = 0o777
	privateMode   = 0o600
	maxPathLevels = 100
)

// change is what is declared before a file is replaced: enough to tell after a
// crash whether it happened.
type change struct {
	Path   string `json:"path"`
	Before string `json:"before"` // sha256, empty for a file that does not exist
	After  string `json:"after"`
	Temp   string `json:"temp"` // left behind in the same directory if we died half way
}

// target is a file about to be replaced.
type target struct {
	workspace
	parent *os.Root // nil while the directory does not exist
	path   string   // from the top of the workspace
	name   string   // in parent
	info   fs.FileInfo
	before string
	asked  bool // the path says that it is protected, so the gate knew
}

// openTarget looks at what stands at path now and refuses what must not be
// written through.
func openTarget(ctx context.Context, env Env, path string) (*target, error) {
	w, err := openWorkspace(env)
	if err != nil {
		return nil, err
	}
	t := &target{workspace: w}
	if err := t.look(ctx, path); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

func (t *target) look(ctx context.Context, path string) (err error) {
	if t.path, err = t.local(path); err != nil {
		return err
	}
	if t.path == "." || strings.HasSuffix(path, "/") {
		return fmt.Errorf("%s names a directory, not a file", shorten(path))
	}
	// The last element is not followed: a link there is refused, not written through.
	dir, err := t.place(filepath.Dir(t.path))
	if err != nil {
		return err
	}
	t.name = filepath.Base(t.path)
	t.path = filepath.Join(dir, t.name)
	if strings.Count(t.path, string(filepath.Separator)) > maxPathLevels {
		return fmt.Errorf("%s nests deeper than %d directories", shorten(path), maxPathLevels)
	}
	t.asked = isProtected(path)
	t.parent, err = t.openParent(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return pathProblem(dir, err)
	}
	info, err := t.parent.Lstat(t.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = writable(info)
	}
	if err != nil {
		return pathProblem(t.path, err)
	}
	t.info = info
	return t.hash(ctx)
}

// writable refuses files where a write would reach further than the name says.
func writable(info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%w; write to a regular file", notRegular(info.Mode()))
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok && s.Nlink > 1 {
		return fmt.Errorf("has %d hard links, so other names would keep or share the old content; it is not written", s.Nlink)
	}
	return nil
}

func (t *target) hash(ctx context.Context) error {
	f, opened, err := openRegular(t.parent, t.name)
	if err != nil {
		return pathProblem(t.path, err)
	}
	defer f.Close()
	if !os.SameFile(opened, t.info) {
		return fmt.Errorf("%s was swapped for another file while it was being opened; try again", t.path)
	}
	h := sha256.New()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		switch _, err := io.CopyN(h, f, hashChunk); err {
		case nil:
		case io.EOF:
			t.before = hex.EncodeToString(h.Sum(nil))
			return nil
		default:
			return pathProblem(t.path, err)
		}
	}
}

// Close releases the directories.
func (t *target) Close() {
	if t.parent != nil {
		t.parent.Close()
	}
	t.Root.Close()
}

// recovered settles a call whose earlier attempt may have died half way. It
// returns nil when the work is still to be done.
func (t *target) recovered(env Env) (*Output, change, error) {
	var was change
	if env.Attempt() <= 1 || len(env.Intent()) == 0 {
		return nil, was, nil
	}
	if err := json.Unmarshal(env.Intent(), &was); err != nil {
		return nil, was, fmt.Errorf("reading the earlier attempt's intent: %w", err)
	}
	t.removeTemp(was.Temp)
	meta := map[string]any{"path": was.Path, "before": was.Before, "after": was.After, "recovered": true}
	switch {
	case was.Path == t.path && t.before == was.After:
		return &Output{Text: t.path + " has the intended content " + alreadyDone, Meta: meta}, was, nil
	case was.Path == t.path && t.before == was.Before:
		return nil, was, nil
	}
	meta["found"] = t.before
	return &Output{Unknown: true, Meta: meta, Text: fmt.Sprintf(
		"The program stopped while it was writing %s. The file now has neither the content from before (sha256 %s) "+
			"nor the one that was to be written (sha256 %s), so something else changed it and nobody can tell whether the write "+
			"happened. Nothing was written now. Read the file before you decide.",
		was.Path, orNone(was.Before), orNone(was.After))}, was, nil
}

// removeTemp clears away what an earlier attempt left behind; usually nothing.
func (t *target) removeTemp(temp string) {
	if t.parent != nil && strings.HasPrefix(temp, tempPrefix) && filepath.Base(temp) == temp {
		t.parent.Remove(temp)
	}
}

// replacing is the same target with another file standing at it.
func (t *target) replacing(info fs.FileInfo) *target {
	next := *t
	next.info = info
	return &next
}

func orNone(hash string) string {
	if hash == "" {
		return "of no file"
	}
	return hash
}

// apply declares the change, unless the earlier attempt was declared the same,
// and makes it.
func (t *target) apply(ctx context.Context, env Env, was change, content []byte) (map[string]any, error) {
	next := change{Path: t.path, Before: t.before, After: sum(content), Temp: was.Temp}
	meta := map[string]any{"path": next.Path, "before": next.Before, "after": next.After, "bytes": len(content)}
	if next.Before == next.After {
		return meta, nil
	}
	if next != was {
		next.Temp = tempPrefix + rand.Text()
		if err := env.Declare(ctx, next); err != nil {
			return nil, fmt.Errorf("declaring the write of %s: %w", t.path, err)
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := t.replace(next.Temp, content); err != nil {
		return nil, fmt.Errorf("writing %w", pathProblem(t.path, err))
	}
	return meta, nil
}

func sum(content []byte) string {
	s := sha256.Sum256(content)
	return hex.EncodeToString(s[:])
}

// replace puts content at the target in one step: a reader, or a machine that
// loses power, sees the old file or the new one.
func (t *target) replace(temp string, content []byte) error {
	if t.parent == nil {
		if err := t.makeParents(); err != nil {
			return err
		}
	}
	err := t.writeTemp(temp, content)
	if err == nil {
		err = t.unchanged()
	}
	if err == nil {
		err = t.parent.Rename(temp, t.name)
	}
	if err != nil {
		t.parent.Remove(temp) // the first error is the one to tell
		return err
	}
	return syncDir(t.parent, ".")
}

func (t *target) writeTemp(temp string, content []byte) error {
	mode := fs.FileMode(newFileMode)
	if t.info != nil {
		mode = privateMode
	}
	f, err := t.parent.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	if _, err = f.Write(content); err == nil && t.info != nil {
		err = likeBefore(f, t.info)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// likeBefore gives the new file the mode of the old one, and its owner where we
// may: a superuser's edit must not take a file away from its user.
func likeBefore(f *os.File, old fs.FileInfo) error {
	if s, ok := old.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 {
		if err := f.Chown(int(s.Uid), int(s.Gid)); err != nil {
			return err
		}
	}
	// As with any write, set-user-id and set-group-id do not survive new content.
	return f.Chmod(old.Mode().Perm())
}

// unchanged catches someone else's write since we looked.
func (t *target) unchanged() error {
	now, err := t.parent.Lstat(t.name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && t.info == nil:
		return nil
	case err != nil:
		return err
	case t.info == nil || !os.SameFile(now, t.info) || !now.ModTime().Equal(t.info.ModTime()) || now.Size() != t.info.Size():
		return errors.New("changed while it was being written; read it again")
	}
	return nil
}

// makeParents creates the missing directories, each durable before the next.
func (t *target) makeParents() error {
	dir := filepath.Dir(t.path)
	for i := 0; i <= len(dir); i++ {
		if i < len(dir) && dir[i] != filepath.Separator {
			continue
		}
		err := t.Mkdir(dir[:i], newDirMode)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil {
			err = syncDir(t.Root, filepath.Dir(dir[:i]))
		}
		if err != nil {
			return err
		}
	}
	var err error
	t.parent, err = t.openParent(dir)
	return err
}

func syncDir(root *os.Root, name string) error {
	d, err := root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
