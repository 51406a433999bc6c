package checkpoint

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"
)

const (
	// maxPuts is how many contents are stored at a time: storing waits for the disk.
	maxPuts = 8
	// maxReads is how often a file that is swapped while it is read is tried.
	maxReads = 3
)

var errTooLarge = errors.New("too large")

// keeper makes one checkpoint.
type keeper struct {
	store *Store
	old   map[string]known
	fresh map[string]known
	m     *manifest
	total int64
	walk  walker
	puts  puts
}

func newKeeper(s *Store, p *place) *keeper {
	k := &keeper{store: s, old: p.known, fresh: map[string]known{}}
	k.puts.stored = make(map[string]bool, len(p.known))
	for _, f := range p.known {
		k.puts.stored[f.sha] = true
	}
	return k
}

func (k *keeper) keep(ctx context.Context, dir string) (*manifest, error) {
	top, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer top.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	k.puts.room = make(chan struct{}, maxPuts)
	k.puts.put = func(sha string, content []byte) {
		if err := k.store.put(ctx, sha, content); err != nil {
			cancel(err) // the first one counts
		}
	}
	rules := readRules(top)
	k.m = &manifest{Version: manifestVersion, Dir: name(dir), Ignore: rules}
	k.walk = walker{
		ctx: ctx, limits: k.store.limits, rules: rules,
		kept:   func(string) bool { return false },
		visit:  k.visit,
		skip:   k.skip,
		ignore: func(p string) { k.m.Ignored = append(k.m.Ignored, name(p)) },
		temp:   func(node) {},
	}
	err = k.walk.walk(top)
	k.puts.wait()
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	if k.walk.cut {
		k.m.Unlisted++
	}
	return k.m, err
}

func (k *keeper) visit(n node) error {
	mode := n.info.Mode()
	switch {
	case k.store.standsIn(mode, n.info.Size(), n.info.ModTime()):
	case mode.IsDir():
		k.m.Dirs = append(k.m.Dirs, keptDir{name(n.path), mode.Perm()})
	case !mode.IsRegular() && mode.Type() != fs.ModeSymlink:
		k.skip(n, "not a file")
	case len(k.m.Files)+len(k.m.Links) >= k.store.limits.files:
		k.skip(n, "too many files")
	case mode.IsRegular():
		k.file(n)
	default:
		k.link(n)
	}
	return nil
}

func (k *keeper) link(n node) {
	target, err := n.dir.Readlink(n.name)
	if err != nil {
		k.skip(n, reason(err))
		return
	}
	// Targets share the bound of names: both end up in the list.
	if k.walk.bytes+len(target) > k.store.limits.nameBytes {
		k.skip(n, "too many names")
		return
	}
	k.walk.bytes += len(target)
	k.m.Links = append(k.m.Links, keptLink{name(n.path), name(target)})
}

// errSecret leaves out a file with something in it that must not be stored.
var errSecret = errors.New("it holds a secret")

func (k *keeper) file(n node) {
	switch size := n.info.Size(); {
	case size > k.store.limits.fileBytes:
		k.skip(n, errTooLarge.Error())
		return
	case k.total+size > k.store.limits.totalBytes:
		k.skip(n, "too much in all")
		return
	}
	now := stampOf(n.info)
	if was, ok := k.old[n.path]; ok && was.stamp == now {
		k.fresh[n.path] = was
		k.add(n, n.info, n.info.Size(), was.sha)
		return
	}
	content, info, err := k.read(n)
	if err == nil && k.total+int64(len(content)) > k.store.limits.totalBytes {
		err = errTooLarge
	}
	if err == nil && k.store.Secret != nil && k.store.Secret(string(content)) {
		err = errSecret
	}
	if err != nil {
		k.skip(n, reason(err))
		return
	}
	sha := hash(content)
	k.puts.add(sha, content)
	k.add(n, info, int64(len(content)), sha)
	// A change right after this look would leave no trace in a coarse clock.
	if s := stampOf(info); s.size == int64(len(content)) && k.store.now().Sub(time.Unix(0, s.ctime)) > settled {
		k.fresh[n.path] = known{s, sha}
	}
}

func (k *keeper) add(n node, info fs.FileInfo, size int64, sha string) {
	k.total += size
	k.m.Files = append(k.m.Files, keptFile{
		Path: name(n.path), Mode: info.Mode().Perm(), Size: size, Time: info.ModTime().UTC(), SHA: sha,
	})
}

// read reads a file whole. An editor may put a new one in its place meanwhile.
func (k *keeper) read(n node) (content []byte, info fs.FileInfo, err error) {
	for range maxReads {
		var f *os.File
		if f, info, err = openRegular(n.dir, n.name); errors.Is(err, errSwapped) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		content, err = io.ReadAll(io.LimitReader(f, k.store.limits.fileBytes+1))
		after, statErr := f.Stat()
		f.Close()
		if err = errors.Join(err, statErr); err != nil {
			return nil, nil, err
		}
		if int64(len(content)) > k.store.limits.fileBytes {
			return nil, nil, errTooLarge
		}
		if stampOf(info) == stampOf(after) {
			return content, info, nil
		}
	}
	if err == nil { // someone writes all the time: what was read is as good as any
		return content, info, nil
	}
	return nil, nil, err
}

func (k *keeper) skip(n node, why string) {
	if len(k.m.Skipped) >= k.store.limits.skipped {
		k.m.Unlisted++
		return
	}
	s := skipped{Path: name(n.path), Why: why}
	if !n.info.IsDir() {
		at := stampOf(n.info)
		s.Dev, s.Ino = at.dev, at.ino
	}
	k.m.Skipped = append(k.m.Skipped, s)
}

// puts stores contents, each once and several at a time.
type puts struct {
	put    func(sha string, content []byte)
	stored map[string]bool
	room   chan struct{}
	group  sync.WaitGroup
}

func (p *puts) add(sha string, content []byte) {
	if p.stored[sha] {
		return
	}
	p.stored[sha] = true
	p.room <- struct{}{}
	p.group.Go(func() {
		defer func() { <-p.room }()
		p.put(sha, content)
	})
}

func (p *puts) wait() { p.group.Wait() }
