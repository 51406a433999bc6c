package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
)

// ProjectFiles are what a project may say to us beside its workflows, relative to its directory. None
// is opened before a person trusts the project, and again after it changed.
var ProjectFiles = []string{
	".stave/config.yaml", ".stave/rules.yaml", ".stave/mcp.json", ".mcp.json", "AGENTS.md",
}

const (
	// maxProjectFile bounds one of them.
	maxProjectFile = 1 << 20

	// projectDir holds what a project says to nobody but us.
	projectDir = ".stave"
	// projectWorkflows holds a project's workflows; each of them is one of its files.
	projectWorkflows = projectDir + "/workflows"
	maxWorkflows     = 64
)

// workflowFile keeps line breaks and spaces out of what is digested.
var workflowFile = regexp.MustCompile(`(?i)^[a-z0-9][a-z0-9._-]*\.(ya?ml|md)$`)

// Project is what a trusted directory says.
type Project struct {
	Dir    string
	Files  map[string][]byte // by their names, as in ProjectFiles
	Digest string            // of all of them
}

// ReadProject reads what a project says. Symbolic links that lead out of it are
// not followed.
func ReadProject(dir string) (Project, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Project{}, err
	}
	defer root.Close()
	p := Project{Dir: dir, Files: map[string][]byte{}}
	files := slices.Clone(ProjectFiles)
	files = slices.DeleteFunc(files, func(name string) bool {
		first, _, _ := strings.Cut(name, "/")
		return standsIn(root, first)
	})
	if !standsIn(root, projectDir) {
		workflows, err := workflowNames(root)
		if err != nil {
			return Project{}, fmt.Errorf("%s: %w", filepath.Join(dir, projectWorkflows), err)
		}
		files = append(files, workflows...)
	}
	for _, name := range files {
		b, err := readBounded(root, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Project{}, fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
		}
		p.Files[name] = b
	}
	p.Digest = p.digest()
	return p, nil
}

// standsIn reports whether an empty file that nobody may write to stands in the place
// of a name. A sandbox puts such files where nothing is, as long as a command runs.
func standsIn(root *os.Root, name string) bool {
	const readOnly fs.FileMode = 0o400
	info, err := root.Lstat(name)
	return err == nil && info.Mode() == readOnly && info.Size() == 0
}

// workflowNames lists the files of a project's workflows.
func workflowNames(root *os.Root) ([]string, error) {
	// Asked before it is opened: opening a pipe waits for a writer.
	info, err := root.Stat(projectWorkflows)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, errors.New("it is not a directory")
	}
	entries, err := fs.ReadDir(root.FS(), projectWorkflows)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() && workflowFile.MatchString(e.Name()) {
			names = append(names, path.Join(projectWorkflows, e.Name()))
		}
	}
	if len(names) > maxWorkflows {
		return nil, fmt.Errorf("it holds %d workflows, at most %d are read", len(names), maxWorkflows)
	}
	return names, nil
}

func readBounded(root *os.Root, name string) ([]byte, error) {
	info, err := root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxProjectFile+1))
	if err == nil && len(b) > maxProjectFile {
		err = fmt.Errorf("it is larger than %d bytes", maxProjectFile)
	}
	return b, err
}

func (p Project) digest() string {
	h := sha256.New()
	for _, name := range p.Names() {
		fmt.Fprintf(h, "%s %d\n", name, len(p.Files[name]))
		h.Write(p.Files[name])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Names lists the files that are there.
func (p Project) Names() []string {
	names := make([]string, 0, len(p.Files))
	for name := range p.Files {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// Trust is which projects a person trusts, and as they were then.
type Trust struct {
	file string
	dirs map[string]string // digest by directory
}

// OpenTrust reads the trust of a data directory.
func OpenTrust(file string) (*Trust, error) {
	t := &Trust{file: file, dirs: map[string]string{}}
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &t.dirs); err != nil {
		return nil, fmt.Errorf("%s: %w; repair or remove it, and projects must be trusted again", file, err)
	}
	return t, nil
}

// Known says whether a person has ever trusted a directory. It is answered
// without looking at the directory.
func (t *Trust) Known(dir string) bool {
	_, ok := t.dirs[dir]
	return ok
}

// Holds says whether a project is still what was trusted.
func (t *Trust) Holds(p Project) bool { return t.dirs[p.Dir] == p.Digest && p.Digest != "" }

// Give trusts a project as it is now.
func (t *Trust) Give(p Project) error {
	t.dirs[p.Dir] = p.Digest
	return t.save()
}

// Take ends the trust in a directory.
func (t *Trust) Take(dir string) error {
	delete(t.dirs, dir)
	return t.save()
}

// Dirs lists the trusted directories.
func (t *Trust) Dirs() []string {
	var list []string
	for dir := range t.dirs {
		list = append(list, dir)
	}
	sort.Strings(list)
	return list
}

// save writes the file so that a crash leaves the old or the new one.
func (t *Trust) save() error {
	b, err := json.MarshalIndent(t.dirs, "", "  ")
	if err != nil {
		return err
	}
	return WritePrivate(t.file, append(b, '\n'))
}

// WritePrivate replaces a file that only its owner may read, all or nothing.
func WritePrivate(file string, b []byte) error {
	dir, base := filepath.Split(file)
	f, err := os.CreateTemp(dir, "."+strings.TrimPrefix(base, ".")+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // renamed away if all went well
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), file)
}
