// Package checkpoint keeps how a workspace directory was and puts it back: files,
// links and directories, as blobs beside the log.
//
// It covers regular files, symbolic links and directories, except what rules.go
// leaves alone and what is over a limit. Restoring never touches anything else.
package checkpoint

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"stave/internal/machine/session"
	"stave/internal/runelog"
)

const (
	// maxRemembered is how many directories are remembered so that an unchanged
	// file need not be read again.
	maxRemembered = 16
	// settled is how old a change must be before its time tells it from the next
	// one; the coarsest file systems count in two seconds.
	settled = 2 * time.Second
)

// limits bound one checkpoint. What is over is skipped, never an error.
type limits struct {
	files      int
	fileBytes  int64
	totalBytes int64
	entries    int // names one walk looks at
	nameBytes  int // and their length, so that the list fits into a blob
	depth      int // every level keeps one directory open
	skipped    int // listed one by one
}

var defaults = limits{
	files: 20_000, fileBytes: 8 << 20, totalBytes: 256 << 20,
	entries: 200_000, nameBytes: 6 << 20, depth: 100, skipped: 20_000,
}

// ErrTooWide means that a directory is more than a workspace.
var ErrTooWide = errors.New("it is more than a workspace")

// ErrOtherDirectory means that a checkpoint is of another directory.
var ErrOtherDirectory = errors.New("the checkpoint is of another directory")

// Blobs is where contents are kept, by their hash.
type Blobs interface {
	runelog.BlobPutter
	runelog.BlobOpener
}

// Store keeps checkpoints. It may be used by several goroutines; on one directory
// they take turns.
type Store struct {
	// Secret says that a content must not be stored; such files are skipped. It is
	// set before the first use, nil for none.
	Secret func(content string) bool
	// StandIn tells files that another part of the program puts for a while where
	// nothing is; they are no part of a workspace. It is set before the first use,
	// nil for none.
	StandIn func(mode fs.FileMode, size int64, changed time.Time) bool
	// Inner are directories, as the data directory or a home, that a workspace must
	// not be or hold: too much around them is no part of any work. It is set
	// before the first use.
	Inner []string

	blobs  Blobs
	limits limits
	now    func() time.Time

	mu     sync.Mutex
	places map[string]*place
	uses   uint64
}

// place is what is remembered of one directory.
type place struct {
	turn     chan struct{} // holds one token while somebody works on the directory
	used     uint64
	known    map[string]known
	manifest string // the last list that was stored
}

// known is the content a file had at its last look.
type known struct {
	stamp stamp
	sha   string
}

// New keeps checkpoints in blobs.
func New(blobs Blobs) *Store {
	return &Store{blobs: blobs, limits: defaults, now: time.Now, places: map[string]*place{}}
}

// Keep notes how a directory is now.
func (s *Store) Keep(ctx context.Context, dir string) (session.Checkpointed, error) {
	var none session.Checkpointed
	name, err := resolve(dir)
	if err == nil {
		err = s.tooWide(name)
	}
	if err != nil {
		return none, fmt.Errorf("keep %s: %w", dir, err)
	}
	p, err := s.enter(ctx, name)
	if err != nil {
		return none, err
	}
	defer p.leave()
	k := newKeeper(s, p)
	m, err := k.keep(ctx, name)
	if err != nil {
		return none, fmt.Errorf("keep %s: %w", dir, err)
	}
	raw, err := m.encode()
	if err != nil {
		return none, fmt.Errorf("keep %s: %w", dir, err)
	}
	sha := hash(raw)
	if sha != p.manifest {
		if err := s.put(ctx, sha, raw); err != nil {
			return none, fmt.Errorf("keep the list of %s: %w", dir, err)
		}
	}
	p.known, p.manifest = k.fresh, sha
	return session.Checkpointed{Blob: sha, Files: len(m.Files) + len(m.Links), Skipped: len(m.Skipped) + m.Unlisted}, nil
}

// Restore puts a directory back to what was kept of it. It refuses a checkpoint
// of another directory. Cut off or partly failed, it can be done again.
func (s *Store) Restore(ctx context.Context, dir, blob string) (restored, removed int, err error) {
	return s.restore(ctx, dir, blob, false)
}

// RestoreInto is Restore for a directory that was moved or is a copy: whatever
// directory the checkpoint is of, dir becomes like it.
func (s *Store) RestoreInto(ctx context.Context, dir, blob string) (restored, removed int, err error) {
	return s.restore(ctx, dir, blob, true)
}

func (s *Store) restore(ctx context.Context, dir, blob string, anywhere bool) (restored, removed int, err error) {
	name, err := resolve(dir)
	if err == nil {
		err = s.tooWide(name)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("restore %s: %w", dir, err)
	}
	p, err := s.enter(ctx, name)
	if err != nil {
		return 0, 0, err
	}
	defer p.leave()
	raw, err := s.get(ctx, blob, runelog.MaxBlob)
	if err != nil {
		return 0, 0, fmt.Errorf("restore %s: read the list of files: %w", dir, err)
	}
	m, err := decodeManifest(raw)
	if err != nil {
		return 0, 0, fmt.Errorf("restore %s: %w", dir, err)
	}
	if !anywhere && string(m.Dir) != name {
		return 0, 0, fmt.Errorf("restore %s: %w: %s", dir, ErrOtherDirectory, m.Dir)
	}
	// A list of earlier days may name them.
	m.Files = slices.DeleteFunc(m.Files, func(f keptFile) bool { return s.standsIn(f.Mode, f.Size, f.Time) })
	r := restorer{store: s, place: p, m: m}
	if err := r.restore(ctx, name); err != nil {
		return r.restored, r.removed, fmt.Errorf("restore %s: %w", dir, err)
	}
	return r.restored, r.removed, nil
}

// tooWide refuses a directory that holds what no restore may touch, before anything
// of it is read.
func (s *Store) tooWide(name string) error {
	if name == string(filepath.Separator) {
		return fmt.Errorf("%w: it holds the whole system", ErrTooWide)
	}
	for _, inner := range s.Inner {
		real, err := resolve(inner)
		if err != nil {
			continue // where it is not, nothing holds it
		}
		if real == name {
			return fmt.Errorf("%w; work in a directory below it", ErrTooWide)
		}
		if strings.HasPrefix(real, name+string(filepath.Separator)) {
			return fmt.Errorf("%w: it holds %s", ErrTooWide, inner)
		}
	}
	return nil
}

func (s *Store) standsIn(mode fs.FileMode, size int64, changed time.Time) bool {
	return s.StandIn != nil && s.StandIn(mode, size, changed)
}

// resolve gives a directory one name, also if it is gone by now.
func resolve(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	name, err := filepath.EvalSymlinks(abs)
	if !errors.Is(err, fs.ErrNotExist) {
		return name, err
	}
	above, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if err != nil {
		return "", err
	}
	return filepath.Join(above, filepath.Base(abs)), nil
}

// enter waits until nobody else works on the directory.
func (s *Store) enter(ctx context.Context, name string) (*place, error) {
	s.mu.Lock()
	p := s.places[name]
	if p == nil {
		s.forgetOldest()
		p = &place{turn: make(chan struct{}, 1)}
		s.places[name] = p
	}
	s.uses++
	p.used = s.uses
	s.mu.Unlock()
	select {
	case p.turn <- struct{}{}:
		return p, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *place) leave() { <-p.turn }

// forgetOldest makes room for one more directory. One that is being worked on is
// kept, since its token must be found again.
func (s *Store) forgetOldest() {
	if len(s.places) < maxRemembered {
		return
	}
	oldest := ""
	for name, p := range s.places {
		if len(p.turn) == 0 && (oldest == "" || p.used < s.places[oldest].used) {
			oldest = name
		}
	}
	delete(s.places, oldest)
}

// put stores a content unless it is there. Looking first is cheaper: storing
// waits for the disk.
func (s *Store) put(ctx context.Context, sha string, content []byte) error {
	if f, err := s.blobs.OpenBlob(ctx, sha); err == nil {
		return f.Close()
	}
	blob, err := s.blobs.PutBlob(ctx, bytes.NewReader(content))
	if err == nil && blob.SHA256 != sha {
		err = fmt.Errorf("%s was stored as %s", sha, blob.SHA256)
	}
	return err
}

// get reads a content and checks that it is the one that was kept.
func (s *Store) get(ctx context.Context, sha string, limit int64) ([]byte, error) {
	f, err := s.blobs.OpenBlob(ctx, sha)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if hash(content) != sha {
		return nil, fmt.Errorf("%w: the content of %s is not what was kept", runelog.ErrCorrupt, sha)
	}
	return content, nil
}

func hash(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// openTop opens a directory, making it again if it is gone.
func openTop(name string) (*os.Root, error) {
	if err := os.Mkdir(name, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.OpenRoot(name)
}
