package pebble

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"stave/internal/runelog"
)

func anchorGroup(log string, seq uint64) []*write {
	return []*write{{head: anchorRecord{log: log, seq: seq, hash: runelog.Hash{byte(seq)}}}}
}

func reopenAnchor(t *testing.T, fs vfs.FS) *anchor {
	t.Helper()
	a, err := openAnchor(fs, "")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// The anchor remembers the last head of each log, whatever its end looks like,
// and stays small.
func TestAnchor(t *testing.T) {
	fs := vfs.NewMem()
	a := reopenAnchor(t, fs)
	for seq := range uint64(100) {
		for log := range 3 {
			if err := a.append(anchorGroup(fmt.Sprintf("conv_%d", log), seq+1)); err != nil {
				t.Fatal(err)
			}
		}
	}
	a.close()
	whole, err := readFile(fs, anchorName, maxAnchorFile)
	if err != nil {
		t.Fatal(err)
	}
	for cut := len(whole) - 2*int(recordLen("conv_0")); cut <= len(whole); cut++ {
		if err := writeFile(fs, anchorName, append([]byte(nil), whole[:cut]...)); err != nil {
			t.Fatal(err)
		}
		a := reopenAnchor(t, fs)
		if err := a.append(anchorGroup("conv_9", 1)); err != nil {
			t.Fatal(err)
		}
		a.close()
		a = reopenAnchor(t, fs)
		want := uint64(100)
		if h, ok := a.head("conv_0"); !ok || h.seq != want || h.hash != (runelog.Hash{byte(want)}) {
			t.Errorf("cut at %d: head %+v, %v; want %d", cut, h, ok, want)
		}
		if h, ok := a.head("conv_9"); !ok || h.seq != 1 {
			t.Errorf("cut at %d: a record after the torn end is lost: %+v, %v", cut, h, ok)
		}
		a.close()
	}
}

func TestAnchorIsRewritten(t *testing.T) {
	fs := vfs.NewMem()
	a := reopenAnchor(t, fs)
	records := anchorSlack / int(recordLen("conv_1")) * 5 / 2
	for seq := range records {
		if err := a.append(anchorGroup("conv_1", uint64(seq+1))); err != nil {
			t.Fatal(err)
		}
	}
	a.close()
	info, err := fs.Stat(anchorName)
	if err != nil || info.Size() > anchorSlack+1000 {
		t.Errorf("size %d, %v", info.Size(), err)
	}
	a = reopenAnchor(t, fs)
	defer a.close()
	if h, _ := a.head("conv_1"); h.seq != uint64(records) {
		t.Errorf("head %d, want %d", h.seq, records)
	}
}
