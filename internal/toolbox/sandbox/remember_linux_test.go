//go:build amd64 || arm64

package sandbox

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRemembered shows that a report is kept for the next process, and that one
// which is not surely of this machine and ours is found out again.
func TestRemembered(t *testing.T) {
	file := filepath.Join(workspace(t), "report")
	real := Remembered(file)
	if diff := cmp.Diff(Detect(), real); diff != "" {
		t.Fatal(diff)
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("the file is %v, %v", info, err)
	}
	if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 1 {
		t.Errorf("beside the report there is %v, %v", left, err)
	}
	// A report that the machine would never give shows where an answer is from.
	made := Report{{Level: Off, OK: true}, {Level: Landlock, OK: true, Remedy: "made up"}, {Level: Bwrap, OK: true}}
	for _, c := range []struct {
		name   string
		change func(*memory) error
		kept   bool
	}{
		{"the same", func(*memory) error { return nil }, true},
		{"another boot", func(m *memory) error { m.For += "x"; return nil }, false},
		{"a hole", func(m *memory) error { m.Report[1].OK, m.Report[1].Holes = false, []string{"x"}; return nil }, false},
		{"a failed self-test", func(m *memory) error {
			m.Report[1].OK, m.Report[1].Needs = false, []Need{{Name: needSelfTest, Says: "slow"}}
			return nil
		}, false},
		{"something missing", func(m *memory) error {
			m.Report[1].OK, m.Report[1].Needs = false, []Need{{Name: "Landlock", Says: "none"}}
			return nil
		}, true},
		{"levels missing", func(m *memory) error { m.Report = m.Report[:2]; return nil }, false},
		{"for others to write", func(*memory) error { return os.Chmod(file, 0o666) }, false},
		{"by a link", func(*memory) error {
			if err := os.Rename(file, file+"2"); err != nil {
				return err
			}
			return os.Symlink(file+"2", file)
		}, false},
	} {
		m := memory{For: fingerprint(), Report: append(Report(nil), made...)}
		os.Remove(file)
		if err := keep(file, m); err != nil { // the links and modes are changed below
			t.Fatal(err)
		}
		if err := c.change(&m); err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		want := real
		if c.kept {
			want = m.Report
		}
		if diff := cmp.Diff(want, Remembered(file)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

// TestRememberedNowhere shows that a file that cannot be kept, or read, changes
// nothing.
func TestRememberedNowhere(t *testing.T) {
	dir := workspace(t)
	if err := os.WriteFile(filepath.Join(dir, "broken"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{filepath.Join(dir, "none", "report"), dir, filepath.Join(dir, "broken")} {
		if diff := cmp.Diff(Detect(), Remembered(file)); diff != "" {
			t.Errorf("%s: %s", file, diff)
		}
	}
}

// TestFileMark shows that a program that took another's place is told from it.
func TestFileMark(t *testing.T) {
	path := filepath.Join(workspace(t), "program")
	if err := os.WriteFile(path, []byte("one"), 0o700); err != nil {
		t.Fatal(err)
	}
	before := fileMark(path, nil)
	if again := fileMark(path, nil); again != before {
		t.Errorf("%s became %s", before, again)
	}
	if err := os.WriteFile(path, []byte("other"), 0o700); err != nil {
		t.Fatal(err)
	}
	if after := fileMark(path, nil); after == before {
		t.Errorf("it is still %s", after)
	}
}
