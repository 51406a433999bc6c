package crash

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestLazyIsSoon shows that a fragment of an answer, which nobody waits for, is
// safe from a kill a moment after it was shown.
func TestLazyIsSoon(t *testing.T) {
	const (
		moment = time.Second
		after  = 1500 * time.Millisecond
	)
	script := filepath.Join(t.TempDir(), "slow.yaml")
	text := "replies:\n- {text: '" + strings.Repeat("word ", 60) + "', chunk: 5, pace: 50ms}\n"
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := newCampaign(t, script, 1)
	v, err := c.conversation("lazy", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer v.files.close()
	r, err := v.start(aim{runes: 1, kind: "turn.assistant_delta", after: after}, v.ask(alone...)...)
	if err != nil || !r.killed {
		t.Fatalf("%v: %v", r, err)
	}
	rec, err := readRecord(v.data, v.log)
	if err != nil {
		t.Fatal(err)
	}
	old := 0
	for _, l := range r.seen {
		lazy, err := isLazy(l.raw)
		if err != nil {
			t.Fatal(err)
		}
		if !lazy || r.ended.Sub(l.at) < moment {
			continue
		}
		old++
		if seq := seqOf(l.raw); seq > uint64(len(rec.runes)) || string(rec.runes[seq-1].Raw()) != l.raw {
			t.Errorf("rune %d was shown %v before the kill and is lost", seq, r.ended.Sub(l.at))
		}
	}
	if old == 0 {
		t.Error("no fragment was old enough")
	}
}
