package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/spf13/cobra"

	"stave/internal/workflow"
)

func (a *app) newWorkflowCmd() *cobra.Command {
	var dir, from string
	cmd := &cobra.Command{
		Use:   "new NAME",
		Short: "Begin a workflow: a file to change, which passes every check as it is",
		Long: `Writes NAME.yaml with every field explained, or a copy of another workflow under the new name. It goes to your own
workflows unless --dir names another directory, as ` + "`.stave/workflows`" + ` of a project. A file that is there is never changed.`,
		Example: "  stave workflow new mine\n  stave workflow new review --from codeReview\n  stave workflow new release --dir .stave/workflows",
		Args:    exactly("NAME"),
		RunE:    func(_ *cobra.Command, args []string) error { return a.newWorkflow(args[0], dir, from) },
	}
	cmd.Flags().StringVar(&dir, "dir", "", "directory to write it to (default: your own workflows)")
	cmd.Flags().StringVar(&from, "from", "", "workflow to copy, by name or file")
	return cmd
}

func (a *app) newWorkflow(name, dir, from string) error {
	if err := workflow.CheckID(name); err != nil {
		return badInput("%w", err)
	}
	ending, text := ".yaml", workflow.New(name)
	if from != "" {
		var err error
		if ending, text, err = a.copyWorkflow(name, from); err != nil {
			return err
		}
	}
	own := dir == ""
	if own {
		data, err := a.dataDir()
		if err != nil {
			return err
		}
		if err := makePrivate(data); err != nil {
			return err
		}
		dir = filepath.Join(data, workflowsName)
	}
	if err := notTaken(dir, name); err != nil {
		return err
	}
	path := filepath.Join(dir, name+ending)
	if err := writeNew(path, text); err != nil {
		return badInput("%s: %w", path, cause(err))
	}
	if a.json {
		return a.printJSON(loadWorkflow(fromFile, path, text).toJSON())
	}
	a.note("%s is written; change it, then look at it again:", visible(path))
	known := name
	if !own {
		known = quote(path)
	}
	a.note("  %s\n  %s", a.command("workflow check %s", known), a.command("workflow graph %s", known))
	if !own {
		a.note("in .stave/workflows of a project it counts under its name once you trust the project: `%s`", a.command("trust"))
	}
	return nil
}

// idLine is where a file gives a workflow its name.
var idLine = regexp.MustCompile(`(?m)^id:[^\n]*`)

// copyWorkflow is another workflow's file under a new name.
func (a *app) copyWorkflow(name, from string) (ending string, text []byte, err error) {
	here, err := workDir("")
	if err != nil {
		return "", nil, err
	}
	w, err := a.findWorkflow(here, from)
	if err != nil {
		return "", nil, err
	}
	at := idLine.FindIndex(w.text)
	if at != nil {
		text = append(append(append(text, w.text[:at[0]]...), "id: "+name...), w.text[at[1]:]...)
	}
	if d, err := workflow.Load(w.path, text); at == nil || err != nil || d.ID != name {
		return "", nil, badInput("%s has no line of its own for its id, so it cannot be given another; copy the file and change its id by hand", w.path)
	}
	return filepath.Ext(w.path), text, nil
}

// notTaken refuses a name that a file in the directory has already, whatever it
// ends with.
func notTaken(dir, name string) error {
	for _, ending := range workflowEndings {
		path := filepath.Join(dir, name+ending)
		if _, err := os.Lstat(path); err == nil {
			return badInput("%s is there already; choose another name, or remove it first", path)
		}
	}
	there, _ := ownWorkflows(dir) // what cannot be read is told when it is written to
	for _, w := range there {
		if w.name == name {
			return badInput("%s has this id already; choose another name, or remove it first", w.path)
		}
	}
	return nil
}

// writeNew writes a file that is not there yet, all or nothing.
func writeNew(path string, text []byte) error {
	const readable, passable = 0o644, 0o755
	if err := os.MkdirAll(filepath.Dir(path), passable); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, readable)
	if errors.Is(err, fs.ErrExist) {
		return errors.New("it is there already; choose another name, or remove it first")
	}
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("writing it: %w", err), os.Remove(path))
	}
	return nil
}
