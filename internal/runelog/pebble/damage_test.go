package pebble

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"stave/internal/conformance"
	"stave/internal/runelog"
)

// image is the content of a data directory by path.
type image map[string][]byte

func capture(t *testing.T, fs vfs.FS) image {
	t.Helper()
	files := image{}
	for _, dir := range []string{memDir, memDir + "/" + storeName} {
		names, err := fs.List(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if info, err := fs.Stat(dir + "/" + name); err != nil || info.IsDir() {
				continue
			}
			content, err := readFile(fs, dir+"/"+name, 1<<30)
			if err != nil {
				t.Fatal(err)
			}
			files[dir+"/"+name] = content
		}
	}
	return files
}

// mount returns a file system with the image, one file of it replaced.
func (i image) mount(t *testing.T, name string, content []byte) vfs.FS {
	t.Helper()
	fs := vfs.NewMem()
	for file, original := range i {
		if file == name {
			original = content
		}
		if err := fs.MkdirAll(path.Dir(file), dirPerm); err != nil {
			t.Fatal(err)
		}
		if err := writeFile(fs, file, append([]byte(nil), original...)); err != nil {
			t.Fatal(err)
		}
	}
	return fs
}

// checkHonest demands that a damaged store either does not open, or says of each
// log what is wrong with it, or shows it whole.
func (h *history) checkHonest(t *testing.T, what string, fs vfs.FS) (whole bool) {
	t.Helper()
	s, err := open(memDir, fs)
	if err != nil {
		return false
	}
	defer s.Close()
	whole = true
	for log, want := range h.durable {
		n := 0
		var failure error
		for r, err := range s.Read(context.Background(), log, 0) {
			if err != nil {
				failure = err
				break
			}
			if n >= len(want) || r.Hash() != want[n].Hash() {
				t.Fatalf("%s: %s, seq %d was silently changed", what, log, n+1)
			}
			n++
		}
		if failure == nil && n < len(want) {
			t.Fatalf("%s: %s silently lost %d of %d runes", what, log, len(want)-n, len(want))
		}
		if failure != nil {
			whole = false
			if _, err := s.Lease(context.Background(), log); err == nil && n < len(want) {
				t.Fatalf("%s: a log was leased for writing in spite of: %v", what, failure)
			}
		}
	}
	return whole
}

// busyStore returns the image of a store after synced appends to three logs,
// with tables if flush is set, else with everything in the write-ahead log.
func busyStore(t *testing.T, flush bool) (image, *history) {
	t.Helper()
	fs := vfs.NewMem()
	s, err := openMem(fs)
	if err != nil {
		t.Fatal(err)
	}
	h := newHistory()
	for i := range 3 {
		w, err := newSession(s, fmt.Sprintf("conv_%d", i), h)
		for n := 0; n < 4 && err == nil; n++ {
			if err = w.append(true, false, conformance.Drafts(2)...); err == nil && flush && n == 2 {
				err = w.flush()
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	files := capture(t, fs) // as a killed process would leave it
	s.Close()
	return files, h
}

// stride is how far apart the bytes are that the tests damage; STAVE_LONG=1
// damages every one.
func stride(short int) int {
	if os.Getenv("STAVE_LONG") != "" {
		return 1
	}
	return short
}

// Every flipped bit in any file of the store is found or harmless.
func TestBitFlips(t *testing.T) {
	for _, flush := range []bool{false, true} {
		t.Run(fmt.Sprintf("flush=%v", flush), func(t *testing.T) {
			t.Parallel()
			files, h := busyStore(t, flush)
			random := rand.New(rand.NewPCG(3, 4))
			found, harmless := 0, 0
			for name, content := range files {
				end := len(content)
				if strings.HasSuffix(name, walSuffix) {
					end = used(content)
				}
				for at := 0; at < end; at += 1 + random.IntN(2*stride(100)-1) {
					damaged := append([]byte(nil), content...)
					damaged[at] ^= 1 << random.IntN(8)
					if h.checkHonest(t, fmt.Sprintf("%s, byte %d", name, at), files.mount(t, name, damaged)) {
						harmless++
					} else {
						found++
					}
				}
			}
			if found == 0 {
				t.Error("no damage was ever found")
			}
			t.Logf("%d found, %d harmless", found, harmless)
		})
	}
}

// used returns the length without preallocated zeros.
func used(content []byte) int {
	return len(strings.TrimRight(string(content), "\x00"))
}

// A write-ahead log cut at any byte, which Pebble takes for a crash, does not
// hide that acknowledged runes are gone.
func TestCutWAL(t *testing.T) {
	files, h := busyStore(t, false)
	cuts, noticed := 0, 0
	for name, content := range files {
		if !strings.HasSuffix(name, walSuffix) {
			continue
		}
		for n := 0; n < used(content); n += stride(97) {
			cuts++
			if !h.checkHonest(t, fmt.Sprintf("%s cut at %d", name, n), files.mount(t, name, content[:n])) {
				noticed++
			}
		}
	}
	if cuts == 0 || noticed == 0 {
		t.Errorf("%d cuts, %d noticed", cuts, noticed)
	}
}

// What is missing is said in words, and the other logs stay usable.
func TestMissingRunes(t *testing.T) {
	files, _ := busyStore(t, false)
	for name, content := range files {
		if !strings.HasSuffix(name, walSuffix) {
			continue
		}
		end := used(content)
		s, err := open(memDir, files.mount(t, name, content[:end-100]))
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		_, err = s.Lease(context.Background(), "conv_2")
		if !errors.Is(err, runelog.ErrReadOnly) || !errors.Is(err, runelog.ErrCorrupt) ||
			!strings.Contains(err.Error(), "acknowledged runes are missing") {
			t.Errorf("lease: %v", err)
		}
		for _, err := range s.Watch(context.Background(), "conv_2", 0) {
			if err != nil && !errors.Is(err, runelog.ErrCorrupt) {
				t.Errorf("watch: %v", err)
			}
		}
		conformance.NewWriter(t, s, "conv_0").Append(t, conformance.Draft(1))
		s.Close()
	}
}

// A log that was lost with its store comes back by import, if it is the same.
func TestImportOfLostLog(t *testing.T) {
	fs := vfs.NewMem()
	s, err := openMem(fs)
	if err != nil {
		t.Fatal(err)
	}
	w := conformance.NewWriter(t, s, "conv_1")
	w.Append(t, conformance.Drafts(3)...)
	var early, full, other strings.Builder
	ctx := context.Background()
	export := func(s *Store, to *strings.Builder) {
		if err := runelog.Export(ctx, s, "conv_1", to); err != nil {
			t.Fatal(err)
		}
	}
	export(s, &early)
	w.Append(t, conformance.Drafts(3)...)
	export(s, &full)
	if err := s.db.DeleteRange([]byte{0}, []byte{0xff}, nil); err != nil {
		t.Fatal(err)
	}
	s.Close()
	stranger, err := openMem(vfs.NewMem())
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	sw := conformance.NewWriter(t, stranger, "conv_1")
	for range 7 {
		sw.Append(t, conformance.Draft(9))
	}
	export(stranger, &other)

	if s, err = openMem(fs); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Head(ctx, "conv_1"); !errors.Is(err, runelog.ErrCorrupt) {
		t.Errorf("head of a lost log: %v", err)
	}
	listed := error(nil)
	for _, err := range s.List(ctx) {
		listed = err
	}
	if !errors.Is(listed, runelog.ErrCorrupt) || !strings.Contains(listed.Error(), "conv_1") {
		t.Errorf("list without a lost log: %v", listed)
	}
	if _, err := s.Import(ctx, strings.NewReader(early.String())); !errors.Is(err, runelog.ErrCorrupt) {
		t.Errorf("import of too little: %v", err)
	}
	if _, err := s.Import(ctx, strings.NewReader(other.String())); !errors.Is(err, runelog.ErrConflict) {
		t.Errorf("import of another log: %v", err)
	}
	if _, err := s.Import(ctx, strings.NewReader(full.String())); err != nil {
		t.Errorf("import of the log: %v", err)
	}
	conformance.NewWriter(t, s, "conv_1").Append(t, conformance.Draft(1))
}

// An archive file that was damaged is refused by Restore and can be put back.
func TestDamagedArchive(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	defer s.Close()
	w := conformance.NewWriter(t, s, "conv_1")
	w.Append(t, conformance.Drafts(50)...)
	w.Seal(t)
	ctx := context.Background()
	if err := s.Archive(ctx, "conv_1"); err != nil {
		t.Fatal(err)
	}
	name := s.segmentPath("conv_1")
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != filePerm {
		t.Errorf("archive file: %v, %v", info.Mode(), err)
	}
	damaged := append([]byte(nil), whole...)
	damaged[len(damaged)/2] ^= 1
	for _, content := range [][]byte{damaged, whole[:len(whole)-1], nil} {
		if err := os.WriteFile(name, content, filePerm); err != nil {
			t.Fatal(err)
		}
		if err := s.Restore(ctx, "conv_1"); !errors.Is(err, runelog.ErrCorrupt) || !strings.Contains(err.Error(), name) {
			t.Errorf("restore from a damaged file: %v", err)
		}
	}
	if err := os.WriteFile(name, whole, filePerm); err != nil {
		t.Fatal(err)
	}
	if err := s.Restore(ctx, "conv_1"); err != nil {
		t.Fatal(err)
	}
	if n := len(conformance.ReadAll(t, s, "conv_1", 0)); n != 51 {
		t.Errorf("%d runes, want 51", n)
	}
	if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the archive file is still there: %v", err)
	}
}
