package pebble

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"stave/internal/conformance"
	"stave/internal/runelog"
)

// holdEnv makes the test binary hold a data directory instead of testing.
const holdEnv = "STAVE_TEST_HOLD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(holdEnv); dir != "" {
		hold(dir)
	}
	os.Exit(m.Run())
}

// hold opens dir, appends, says so, and waits to be killed.
func hold(dir string) {
	s, err := Open(dir)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	w, err := newSession(s, "conv_1", newHistory())
	if err == nil {
		err = w.append(true, false, conformance.Drafts(3)...)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("holding")
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// A second process is told who holds the directory; when the holder is killed
// the directory is free at once and what it acknowledged is there.
func TestLock(t *testing.T) {
	dir := t.TempDir()
	holder := exec.Command(os.Args[0], "serve", "secret-argument")
	holder.Env = append(os.Environ(), holdEnv+"="+dir)
	stdin, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	if line, _ := bufio.NewReader(stdout).ReadString('\n'); line != "holding\n" {
		t.Fatalf("holder says %q", line)
	}
	_, err = Open(dir)
	if !errors.Is(err, runelog.ErrLocked) {
		t.Fatalf("second open: %v, want ErrLocked", err)
	}
	for _, part := range []string{dir, "serve", fmt.Sprintf("pid %d", holder.Process.Pid), time.Now().Format("2006-01-02")} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("%q repeats arguments", err)
	}
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = holder.Wait()
	s := mustOpen(t, dir)
	defer s.Close()
	if n := len(conformance.ReadAll(t, s, "conv_1", 0)); n != 3 {
		t.Errorf("%d runes after the kill, want 3", n)
	}
	if _, err := Open(dir); !errors.Is(err, runelog.ErrLocked) {
		t.Errorf("second open in one process: %v, want ErrLocked", err)
	}
}

// What an earlier holder wrote, at whatever length, is not taken for the present one.
func TestLockForgetsEarlierHolders(t *testing.T) {
	dir := t.TempDir()
	earlier := strings.Repeat("a long command line ", 20) + "\nand more\n"
	if err := os.WriteFile(filepath.Join(dir, lockName), []byte(earlier), filePerm); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, dir)
	defer s.Close()
	_, err := Open(dir)
	if !errors.Is(err, runelog.ErrLocked) || !strings.Contains(err.Error(), fmt.Sprintf("pid %d", os.Getpid())) {
		t.Fatalf("second open: %v", err)
	}
	if strings.Contains(err.Error(), "long") || strings.Contains(err.Error(), "more") {
		t.Errorf("%q tells of an earlier holder", err)
	}
}

// Nothing in the data directory is readable by others.
func TestPermissions(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "data")
	s := mustOpen(t, dir)
	w := conformance.NewWriter(t, s, "conv_1")
	w.Append(t, largeDraft())
	w.Seal(t)
	if err := s.Archive(t.Context(), "conv_1"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if files++; info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return nil
	})
	if err != nil || files < 10 {
		t.Errorf("%d files, %v", files, err)
	}
}

// Directories that cannot be used are refused with a reason and a way out.
func TestUnusableDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, filePerm); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "below")} {
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "name another directory") {
			t.Errorf("open %s: %v", dir, err)
		}
	}
	for _, reason := range []error{syscall.EROFS, syscall.EACCES} {
		readOnly := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpCreate || op.Kind == errorfs.OpMkdirAll {
				return reason
			}
			return nil
		}))
		_, err := openMem(readOnly)
		if err = explain(memDir, err); !errors.Is(err, reason) || !strings.Contains(err.Error(), "make it writable") {
			t.Errorf("read-only directory: %v", err)
		}
	}
	dir := t.TempDir()
	s := mustOpen(t, dir)
	conformance.NewWriter(t, s, "conv_1").Append(t, conformance.Draft(1))
	s.Close()
	if err := os.RemoveAll(filepath.Join(dir, storeName)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); !errors.Is(err, runelog.ErrCorrupt) || !strings.Contains(err.Error(), "1 logs had been written") {
		t.Errorf("open without its store: %v", err)
	}
}

// A store whose files are rubbish is refused as damaged, not with a crash.
func TestRubbish(t *testing.T) {
	files, _ := busyStore(t, true)
	for name := range files {
		if base := filepath.Base(name); strings.HasPrefix(base, "MANIFEST") || strings.HasPrefix(base, "OPTIONS") {
			_, err := open(memDir, files.mount(t, name, []byte("rubbish")))
			if err = explain(memDir, err); !errors.Is(err, runelog.ErrCorrupt) || !strings.Contains(err.Error(), "backup") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// What a killed process left half written is removed.
func TestLeftovers(t *testing.T) {
	dir := t.TempDir()
	mustOpen(t, dir).Close()
	var leftovers []string
	for _, sub := range []string{"", blobsName, archiveName} {
		leftover := filepath.Join(dir, sub, "7"+tempSuffix)
		leftovers = append(leftovers, leftover)
		if err := os.WriteFile(leftover, []byte("half"), filePerm); err != nil {
			t.Fatal(err)
		}
	}
	defer mustOpen(t, dir).Close()
	for _, leftover := range leftovers {
		if _, err := os.Stat(leftover); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", leftover, err)
		}
	}
}
