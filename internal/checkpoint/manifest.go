package checkpoint

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"stave/internal/runelog"
)

const manifestVersion = 1

// manifest lists what a directory held, in the order of paths.
type manifest struct {
	Version int        `json:"version"`
	Dir     name       `json:"dir"`
	Ignore  []name     `json:"ignore,omitempty"`  // directories the top .gitignore named
	Dirs    []keptDir  `json:"dirs,omitempty"`    // without the top itself
	Files   []keptFile `json:"files,omitempty"`   //
	Links   []keptLink `json:"links,omitempty"`   //
	Ignored []name     `json:"ignored,omitempty"` // directories left alone by a rule
	Skipped []skipped  `json:"skipped,omitempty"` // what a rule covers and a limit or the system does not
	// Unlisted counts what was skipped without being listed. With any, a new file
	// cannot be told from one that was there.
	Unlisted int `json:"unlisted,omitempty"`
}

type (
	keptDir struct {
		Path name        `json:"path"`
		Mode fs.FileMode `json:"mode"`
	}
	keptFile struct {
		Path name        `json:"path"`
		Mode fs.FileMode `json:"mode"`
		Size int64       `json:"size"`
		// Time is for readers. It is not put back: a build must see that the file
		// is not the one it built from.
		Time time.Time `json:"mtime"`
		SHA  string    `json:"sha256"`
	}
	keptLink struct {
		Path   name `json:"path"`
		Target name `json:"target"`
	}
	skipped struct {
		Path name   `json:"path"`
		Why  string `json:"why"`
		// Dev and Ino find the file again if it was moved since.
		Dev uint64 `json:"dev,omitempty"`
		Ino uint64 `json:"ino,omitempty"`
	}
)

// name is a path with slashes. The system allows bytes in it that text does not.
type name string

const rawPrefix = "\x00base64:"

// MarshalText implements encoding.TextMarshaler.
func (n name) MarshalText() ([]byte, error) {
	if utf8.ValidString(string(n)) {
		return []byte(n), nil
	}
	return base64.StdEncoding.AppendEncode([]byte(rawPrefix), []byte(n)), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *name) UnmarshalText(text []byte) error {
	encoded, isRaw := strings.CutPrefix(string(text), rawPrefix)
	if !isRaw {
		*n = name(text)
		return nil
	}
	raw, err := base64.StdEncoding.DecodeString(encoded)
	*n = name(raw)
	return err
}

func (m *manifest) encode() ([]byte, error) {
	slices.SortFunc(m.Dirs, func(a, b keptDir) int { return cmp.Compare(a.Path, b.Path) })
	slices.SortFunc(m.Files, func(a, b keptFile) int { return cmp.Compare(a.Path, b.Path) })
	slices.SortFunc(m.Links, func(a, b keptLink) int { return cmp.Compare(a.Path, b.Path) })
	slices.SortFunc(m.Skipped, func(a, b skipped) int { return cmp.Compare(a.Path, b.Path) })
	slices.Sort(m.Ignored)
	return json.Marshal(m)
}

// decodeManifest reads a list and refuses one that names a path twice, leads
// outside, or names what is never touched.
func decodeManifest(raw []byte) (*manifest, error) {
	m := &manifest{}
	if err := json.Unmarshal(raw, m); err != nil {
		return nil, fmt.Errorf("decode the list of files: %w", err)
	}
	if m.Version != manifestVersion {
		return nil, fmt.Errorf("the list of files has version %d, not %d", m.Version, manifestVersion)
	}
	seen := map[string]byte{".": 'd'}
	add := func(n name, kind byte) error {
		p := string(n)
		plain := filepath.IsLocal(p) && path.Clean(p) == p && !strings.Contains(p, "\x00")
		if !plain || neverTouched(p) || seen[p] != 0 || seen[path.Dir(p)] != 'd' {
			return fmt.Errorf("the list of files names %q, which cannot be", p)
		}
		seen[p] = kind
		return nil
	}
	for _, d := range m.Dirs {
		if err := add(d.Path, 'd'); err != nil {
			return nil, err
		}
	}
	for _, f := range m.Files {
		if err := add(f.Path, 'f'); err != nil {
			return nil, err
		}
		if !runelog.IsBlobName(f.SHA) || f.Size < 0 || f.Size > runelog.MaxBlob {
			return nil, fmt.Errorf("the list of files says nothing sensible of %q", f.Path)
		}
	}
	for _, l := range m.Links {
		if err := add(l.Path, 'l'); err != nil {
			return nil, err
		}
	}
	return m, nil
}
