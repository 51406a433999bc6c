package engine

import (
	"context"
	"errors"
	"fmt"

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
	Checkpoint string `json:"checkpoint,omitempty"`
	Restored   int    `json:"restored"`
	Removed    int    `json:"removed"`
}

// Rewind takes a conversation back to a rune. What the rune records comes first,
// then the files: cut off in between, doing it again finishes it.
func (e *Engine) Rewind(ctx context.Context, r Rewind) (Rewound, error) {
	done := Rewound{Log: r.Log, To: r.To}
	if r.Files {
		blob, err := e.checkpointBefore(ctx, r.Log, r.To)
		if err != nil {
			return done, err
		}
		done.Checkpoint = blob
	}
	v, err := e.Look(ctx, r.Log)
	if err != nil {
		return done, err
	}
	if _, err := e.Tell(ctx, world.Message{Log: r.Log, Path: world.SessionPath, By: r.By, Command: session.Rewind{
		Seq: r.To, Files: r.Files, Checkpoint: done.Checkpoint,
	}}); err != nil {
		return done, err
	}
	if r.Files {
		done.Restored, done.Removed, err = e.opt.Checkpoints.Restore(ctx, v.Dir, done.Checkpoint)
		if err != nil {
			return done, fmt.Errorf("the conversation went back, its files did not: %w", err)
		}
	}
	return done, nil
}

// checkpointBefore finds how the workspace was at a rune: the first checkpoint
// kept after it, since nothing had changed before that, else the last before it.
func (e *Engine) checkpointBefore(ctx context.Context, log string, seq uint64) (string, error) {
	if e.opt.Checkpoints == nil {
		return "", errors.New("no checkpoints are kept here")
	}
	found := ""
	for r, err := range e.opt.Log.Read(ctx, log, 0) {
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
		found = kept.Blob
		if r.Seq > seq {
			break
		}
	}
	if found == "" {
		return "", fmt.Errorf("no checkpoint of the files of %s was kept: nothing in it changed any", log)
	}
	return found, nil
}
