package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"stave/internal/toolbox"
	"stave/internal/workflow"
)

// Where a workflow comes from. Of two with the same name the person's own counts
// before the bundled one, and both before the project's: a project cannot change
// what a name means to a person.
const (
	fromOwn     = "own"
	fromBundle  = "bundled"
	fromProject = "project"
	fromFile    = "file" // a person named it
)

const (
	workflowsName    = "workflows"         // in a data directory
	projectWorkflows = ".stave/workflows/" // in a project
	// maxWorkflows bounds how many files of a directory are read.
	maxWorkflows = 200
)

var workflowEndings = []string{".yaml", ".yml", ".md"}

// foundWorkflow is a workflow as it was found. Its definition is settled and has
// passed every check unless err says otherwise; the definition's Hash names its content.
type foundWorkflow struct {
	workflow.Definition
	name   string // the definition's id, or the file's name where it has none
	source string
	path   string // the file; of a bundled one only its name
	text   []byte
	err    error
	behind string // why it does not count
}

// counts says whether its name leads to it.
func (w foundWorkflow) counts() bool { return w.err == nil && w.behind == "" }

// findWorkflow finds a workflow by its name, in a conversation that works in dir,
// or by the path of its file.
func (a *app) findWorkflow(dir, name string) (foundWorkflow, error) {
	w, err := a.lookUpWorkflow(dir, name)
	if err == nil && w.err != nil {
		err = badInput("%w", w.err)
	}
	return w, err
}

// lookUpWorkflow is findWorkflow that also returns one which has mistakes.
func (a *app) lookUpWorkflow(dir, name string) (foundWorkflow, error) {
	if isWorkflowPath(name) {
		text, err := readWorkflow(name)
		if err != nil {
			return foundWorkflow{}, badInput("%s: %w", name, cause(err))
		}
		return loadWorkflow(fromFile, name, text), nil
	}
	all, notes, err := a.workflowsIn(dir)
	if err != nil {
		return foundWorkflow{}, err
	}
	for _, w := range all {
		if w.name == name && w.behind == "" {
			return w, nil
		}
	}
	a.tellNotes(notes)
	return foundWorkflow{}, a.unknownWorkflow(dir, name, all)
}

// unknownWorkflow says which names there are, and what else could have been meant.
func (a *app) unknownWorkflow(dir, name string, all []foundWorkflow) error {
	var names []string
	for _, w := range all {
		if w.counts() {
			names = append(names, w.name)
		}
	}
	slices.Sort(names)
	text := fmt.Sprintf("there is no workflow %.80q; %s", name, workflow.Instead(name, names))
	if _, err := os.Lstat(name); err == nil {
		text += "; for the file of that name write " + quote("./"+name)
	}
	if data, err := a.dataDir(); err == nil {
		if p, changed, err := trustedProject(data, dir); err == nil && !changed && p.Dir == "" {
			text += fmt.Sprintf("; those of a project count once you trust it: `%s`", a.command("trust %s", quote(dir)))
		}
	}
	return badInput("%s", text)
}

func (a *app) tellNotes(notes []string) {
	for _, n := range notes {
		a.note("stave: %s", visible(n))
	}
}

// isWorkflowPath tells a path from a name, which has neither dots nor slashes.
func isWorkflowPath(s string) bool {
	return strings.ContainsRune(s, filepath.Separator) || slices.Contains(workflowEndings, strings.ToLower(filepath.Ext(s)))
}

// workflowsIn lists every workflow there is for a conversation in dir: the
// person's own, the bundled ones, and the project's if it is trusted. The notes
// say what a person should know.
func (a *app) workflowsIn(dir string) ([]foundWorkflow, []string, error) {
	data, err := a.dataDir()
	if err != nil {
		return nil, nil, err
	}
	all, notes := ownWorkflows(filepath.Join(data, workflowsName))
	for _, d := range workflow.Bundled() {
		file, text, _ := workflow.Source(d.ID)
		all = append(all, loadWorkflow(fromBundle, file, text))
	}
	theirs, more := a.theirWorkflows(data, dir)
	all = append(all, theirs...)
	for i := range all {
		first := slices.IndexFunc(all, func(w foundWorkflow) bool { return w.name == all[i].name })
		if first < i {
			all[i].behind = behind(all[first], all[i])
		}
	}
	return all, append(notes, more...), nil
}

// behind says why a workflow does not count beside one of the same name.
func behind(first, w foundWorkflow) string {
	switch {
	case first.source == w.source:
		return fmt.Sprintf("%s has this name too; give one of them another id", first.path)
	case first.source == fromBundle:
		return "a bundled one has this name; give it another id"
	case w.source == fromBundle:
		return fmt.Sprintf("your own %s takes its place", first.path)
	}
	return fmt.Sprintf("you have one of that name yourself, %s; give it another id", first.path)
}

// ownWorkflows reads those of a data directory. One that cannot be read is no
// reason to keep a person from the others.
func ownWorkflows(dir string) ([]foundWorkflow, []string) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, []string{fmt.Sprintf("none of your own workflows is used: %s: %v", dir, cause(err))}
	}
	var all []foundWorkflow
	for _, e := range entries {
		if e.IsDir() || !isWorkflowFile(e.Name()) {
			continue
		}
		if len(all) == maxWorkflows {
			return all, []string{fmt.Sprintf("%s holds more than %d workflows; those after %s are not used", dir, maxWorkflows, all[len(all)-1].path)}
		}
		path := filepath.Join(dir, e.Name())
		text, err := readWorkflow(path)
		if err != nil {
			all = append(all, foundWorkflow{name: stem(path), source: fromOwn, path: path, err: fmt.Errorf("%s: %w", path, cause(err))})
			continue
		}
		all = append(all, loadWorkflow(fromOwn, path, text))
	}
	return all, nil
}

// theirWorkflows are those of a trusted project, as they were when it was trusted:
// what the trust does not cover is not even looked at.
func (a *app) theirWorkflows(data, dir string) ([]foundWorkflow, []string) {
	p, changed, err := trustedProject(data, dir)
	switch {
	case err != nil:
		return nil, []string{fmt.Sprintf("no workflow of this project is used: %v", err)}
	case changed:
		return nil, []string{fmt.Sprintf("what %s says to agents has changed since you trusted it, so none of its workflows is used; `%s` looks at it again", dir, a.command("trust %s", quote(dir)))}
	}
	var all []foundWorkflow
	for _, name := range p.Names() {
		if strings.HasPrefix(name, projectWorkflows) && isWorkflowFile(name) {
			all = append(all, loadWorkflow(fromProject, filepath.Join(dir, name), p.Files[name]))
		}
	}
	return all, nil
}

func isWorkflowFile(name string) bool {
	return slices.Contains(workflowEndings, strings.ToLower(filepath.Ext(name))) && !strings.EqualFold(filepath.Base(name), "README.md")
}

func stem(path string) string {
	return strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
}

func loadWorkflow(source, path string, text []byte) foundWorkflow {
	w := foundWorkflow{name: stem(path), source: source, path: path, text: text}
	if w.Definition, w.err = workflow.LoadFor(path, text, toolNames()); w.err == nil {
		w.name = w.ID
	}
	return w
}

// toolNames are the tools a stage can be given by name; those of MCP servers are
// known only once these are connected.
func toolNames() []string {
	var names []string
	for _, t := range append(tools(nil), toolbox.Memory("", nil)) {
		names = append(names, t.Name)
	}
	return names
}

// readWorkflow reads a regular file of bounded size. It is opened without
// waiting, because a pipe would wait for a writer.
func readWorkflow(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, errors.New("this is a directory; name a file in it")
	case !info.Mode().IsRegular():
		return nil, errors.New("this is not a regular file; save it as one and name that")
	case info.Size() > workflow.MaxFile:
		return nil, fmt.Errorf("the file has %d bytes, at most %d are read; shorten it", info.Size(), workflow.MaxFile)
	}
	return io.ReadAll(io.LimitReader(f, workflow.MaxFile+1))
}
