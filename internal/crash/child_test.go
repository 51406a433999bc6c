package crash

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"

	"github.com/go-json-experiment/json"

	"stave/internal/engine"
	"stave/internal/machine/session"
	"stave/internal/model"
	"stave/internal/model/script"
	"stave/internal/runelog"
	"stave/internal/toolbox"
)

// order tells a child what to run and where to die.
type order struct {
	Data, Dir, Script string
	Op                int64 // the write at which it dies, from 1; 0 for none
	After             bool  // right behind that write instead of right before it
}

// lastWords say which write a child died at.
type lastWords struct {
	Op    string
	First uint64 // of an append: the runes of the batch
	Last  uint64
	Sync  bool
	Epoch uint64 // of a lease
	Blob  string // of a blob
}

// runChild runs the conversation of a data directory to its rest, or begins one.
func runChild(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	store, err := openStore(o.Data)
	if err != nil {
		return err
	}
	e, err := newEngine(o, &deadly{Log: store, at: o.Op, after: o.After})
	if err != nil {
		return err
	}
	ctx := context.Background()
	log, err := goOn(ctx, e, store, o)
	if err == nil {
		_, err = e.Settle(ctx, log)
	}
	return errors.Join(err, e.Close(ctx), store.Close())
}

func newEngine(o order, log runelog.Log) (*engine.Engine, error) {
	const oftenSaved = 10 // runes between snapshots
	played, err := script.Load(o.Script)
	if err != nil {
		return nil, err
	}
	tools, err := toolbox.NewSet(toolbox.All()...)
	if err != nil {
		return nil, err
	}
	temp := filepath.Join(o.Data, "scratch")
	return engine.New(engine.Options{
		Log: log, Tools: tools, TempDir: temp, SnapshotEvery: oftenSaved,
		Provider: func(context.Context, string) (model.Provider, error) { return played, nil },
	}), os.MkdirAll(temp, 0o700)
}

// goOn begins a conversation, or goes on with the one that is there.
func goOn(ctx context.Context, e *engine.Engine, store runelog.Log, o order) (string, error) {
	const by = "user:test"
	for m, err := range store.List(ctx) {
		if err != nil {
			return "", err
		}
		for r, err := range store.Read(ctx, m.Log, 0) {
			if err != nil {
				return "", err
			}
			if r.Kind == "session.message_received" {
				return m.Log, e.Resume(ctx, m.Log, true)
			}
		}
		// It died between its beginning and its first message.
		return m.Log, e.Say(ctx, m.Log, session.Say{Text: prompt, Headless: true}, by)
	}
	return e.Begin(ctx, engine.Begin{Text: prompt, Headless: true, By: by, Config: session.Config{
		Mode: "yolo", Model: "script", Dir: o.Dir,
	}})
}

// deadly is a store that kills its process at one of its writes. What it has
// acknowledged it shows on standard output.
type deadly struct {
	runelog.Log
	at    int64
	after bool
	ops   atomic.Int64
}

// write does one write, and dies before or behind it if it is the one.
func (d *deadly) write(words *lastWords, do func() error) error {
	mine := d.ops.Add(1) == d.at
	if mine && !d.after {
		die(words)
	}
	err := do()
	if mine && d.after && err == nil {
		die(words)
	}
	return err
}

func die(words *lastWords) {
	text, err := json.Marshal(words)
	if err != nil {
		panic(err)
	}
	_, _ = os.Stderr.Write(text)
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// Append implements runelog.Log.
func (d *deadly) Append(ctx context.Context, b runelog.Batch) error {
	words := &lastWords{Op: "append", First: b.Runes[0].Seq, Last: b.Runes[len(b.Runes)-1].Seq, Sync: b.Sync}
	if err := d.write(words, func() error { return d.Log.Append(ctx, b) }); err != nil {
		return err
	}
	var shown []byte
	for _, r := range b.Runes {
		shown = append(append(shown, r.Raw()...), '\n')
	}
	if _, err := os.Stdout.Write(shown); err != nil {
		return fmt.Errorf("showing runes: %w", err)
	}
	return nil
}

// Lease implements runelog.Log.
func (d *deadly) Lease(ctx context.Context, log string) (head runelog.Head, err error) {
	words := &lastWords{Op: "lease"}
	err = d.write(words, func() error {
		head, err = d.Log.Lease(ctx, log)
		words.Epoch = head.Epoch
		return err
	})
	return head, err
}

// SaveSnapshot implements runelog.Log.
func (d *deadly) SaveSnapshot(ctx context.Context, log string, s runelog.Snapshot) error {
	return d.write(&lastWords{Op: "snapshot"}, func() error { return d.Log.SaveSnapshot(ctx, log, s) })
}

// PutBlob implements runelog.Log.
func (d *deadly) PutBlob(ctx context.Context, r io.Reader) (blob runelog.Blob, err error) {
	words := &lastWords{Op: "blob"}
	err = d.write(words, func() error {
		blob, err = d.Log.PutBlob(ctx, r)
		words.Blob = blob.SHA256
		return err
	})
	return blob, err
}
