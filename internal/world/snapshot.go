package world

import (
	"fmt"
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"stave/internal/machine"
)

// snapshotVersion changes whenever what a snapshot holds changes; an older one
// is ignored and the log replayed.
const snapshotVersion = 4

type snapshot struct {
	Version  int         `json:"version"`
	Log      string      `json:"log"`
	Seq      uint64      `json:"seq"`
	Last     recent      `json:"last"`
	Progress bool        `json:"progress"`
	Nodes    []savedNode `json:"nodes"`
}

type savedNode struct {
	Path  Path           `json:"path"`
	State machine.State  `json:"state"`
	Since int64          `json:"since"`
	Seq   uint64         `json:"seq"`
	Data  jsontext.Value `json:"data"`

	Account account `json:"account,omitzero"`
	Begun   int64   `json:"begun,omitzero"`
}

// Save returns the present as bytes. Its size depends on what lives now, not on
// how long the log is.
func (w *World) Save() ([]byte, error) {
	s := snapshot{Version: snapshotVersion, Log: w.log, Seq: w.seq, Last: w.last, Progress: w.progress}
	for _, p := range w.sorted() {
		n := w.live[p]
		b, err := json.Marshal(n.Data())
		d := jsontext.Value(b)
		if err == nil {
			// JSON inside of it is as it came; the log gives it back in this form.
			err = d.Canonicalize()
		}
		if err != nil {
			return nil, fmt.Errorf("saving %s: %w", p, err)
		}
		s.Nodes = append(s.Nodes, savedNode{p, n.State(), n.since, n.seq, d, n.account(), n.begun})
	}
	return json.Marshal(s, json.Deterministic(true))
}

// Load returns the world a snapshot holds.
func Load(log string, b []byte) (*World, error) {
	var s snapshot
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("reading snapshot: %w", err)
	}
	if s.Version != snapshotVersion || s.Log != log {
		return nil, fmt.Errorf("reading snapshot: version %d of log %q", s.Version, s.Log)
	}
	w := New(log)
	w.seq, w.last, w.progress = s.Seq, s.Last, s.Progress
	for _, sn := range s.Nodes {
		r, ok := rooms[sn.Path.machine()]
		if !ok {
			return nil, fmt.Errorf("reading snapshot: no machine at %q", sn.Path)
		}
		in, err := r.Restore(sn.State, func(d any) error { return json.Unmarshal(sn.Data, d) })
		if err != nil {
			return nil, fmt.Errorf("reading snapshot: %w", err)
		}
		w.count(in.Mode(), 1)
		w.live[sn.Path] = node{in, sn.Since, sn.Seq, booksOf(sn.Account), sn.Begun}
	}
	return w, nil
}

func booksOf(a account) *account {
	if reflect.ValueOf(a).IsZero() {
		return nil
	}
	return &a
}
