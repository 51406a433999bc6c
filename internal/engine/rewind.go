package engine

import (
	"context"
	"errors"
	"fmt"

	"stave/internal/machine"
	"stave/internal/machine/session"
	"stave/internal/world"
)

// Checkpoints keep how a directory was and put it back.
type Checkpoints interface {
	// Keep notes how the directory is now.
	Keep(ctx context.Context, dir string) (session.Checkpointed, error)
	// Restore puts a directory back to what was kept.
	Restore(ctx context.Context, dir, blob string) (restored, removed int, err error)
}

// Rewind asks to take a conversation back.
type Rewind struct {
	Log   string
	To    uint64 // the last rune that counts
	Files bool   // the workspace goes back, too
	By    string
}

// Rewound is what a rewind did.
type Rewound struct {
	Log        string `json:"log"`
	To         uint64 `json:"to_seq"`
	Checkpoint string `json:"checkpoint,omitempty"` // what the workspace was put back to
	Before     string `json:"before,omitempty"`     // and how it was until then
	Restored   int    `json:"restored"`
	Removed    int    `json:"removed"`
}

// Rewind takes a conversation back to a rune. What the rune records comes first,
// then the files: cut off in between, doing it again finishes it.
func (e *Engine) Rewind(ctx context.Context, r Rewind) (Rewound, error) {
	done := Rewound{Log: r.Log, To: r.To}
	if r.Files {
		blob, err := e.filesAt(ctx, r.Log, r.To)
		if err != nil {
			return done, err
		}
		done.Checkpoint = blob
	}
	if _, err := e.Tell(ctx, world.Message{Log: r.Log, Path: world.SessionPath, By: r.By, Command: session.Rewind{
		Seq: r.To, Checkpoint: done.Checkpoint,
	}}); err != nil {
		return done, err
	}
	if !r.Files {
		return done, nil
	}
	return e.putBack(ctx, done)
}

// RestoreFiles puts the workspace of a conversation back to how it was at a rune;
// the conversation stays as it is.
func (e *Engine) RestoreFiles(ctx context.Context, log string, to uint64) (Rewound, error) {
	done := Rewound{Log: log, To: to}
	blob, err := e.filesAt(ctx, log, to)
	if err != nil {
		return done, err
	}
	done.Checkpoint = blob
	return e.putBack(ctx, done)
}

// putBack restores the files of a checkpoint. What stood there before is kept
// first, on record, so that it can be had back as well.
func (e *Engine) putBack(ctx context.Context, done Rewound) (Rewound, error) {
	if done.Checkpoint == "" {
		return done, nil // nothing has changed since
	}
	v, err := e.Look(ctx, done.Log)
	if err != nil {
		return done, err
	}
	kept, err := e.opt.Checkpoints.Keep(ctx, v.Dir)
	if err != nil {
		return done, fmt.Errorf("the files were left as they are, since they could not be kept first: %w", err)
	}
	kept.Turn = "restore"
	// A conversation that has ended takes no more runes; its files can go back all the same.
	_, err = e.Tell(ctx, world.Message{Log: done.Log, Path: world.SessionPath, By: "engine", Command: session.KeepCheckpoint{Checkpointed: kept}})
	var refused *machine.Refusal
	if err != nil && !errors.As(err, &refused) {
		return done, err
	}
	done.Before = kept.Blob
	done.Restored, done.Removed, err = e.opt.Checkpoints.Restore(ctx, v.Dir, done.Checkpoint)
	if err != nil {
		return done, fmt.Errorf("putting the files back: %w", err)
	}
	return done, nil
}

// filesAt finds how the workspace was at a rune: as the first checkpoint after it
// says, since nothing changed before that one was kept. Without one, nothing has
// changed since, and the answer is empty.
func (e *Engine) filesAt(ctx context.Context, log string, seq uint64) (string, error) {
	if e.opt.Checkpoints == nil {
		return "", errors.New("no checkpoints are kept here")
	}
	for r, err := range e.opt.Log.Read(ctx, log, seq) {
		if err != nil {
			return "", err
		}
		if r.Kind != "session.checkpointed" {
			continue
		}
		event, err := world.EventOf(r)
		if err != nil {
			return "", err
		}
		kept, _ := event.(session.Checkpointed)
		if kept.Missed != "" {
			return "", fmt.Errorf("how the files of %s were at rune %d is not known: before rune %d nothing was kept (%s)", log, seq, r.Seq, kept.Missed)
		}
		return kept.Blob, nil
	}
	return "", nil
}
