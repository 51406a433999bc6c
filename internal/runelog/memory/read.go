package memory

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"iter"

	"stave/internal/runelog"
)

// Read implements runelog.Log.
func (s *Store) Read(ctx context.Context, log string, after uint64) iter.Seq2[runelog.Rune, error] {
	return func(yield func(runelog.Rune, error) bool) {
		runes, _, _, err := s.tail(ctx, log, after)
		if err != nil {
			yield(runelog.Rune{}, err)
			return
		}
		s.deliver(ctx, runes, yield)
	}
}

// Watch implements runelog.Log.
func (s *Store) Watch(ctx context.Context, log string, after uint64) iter.Seq2[runelog.Rune, error] {
	return func(yield func(runelog.Rune, error) bool) {
		for {
			runes, changed, sealed, err := s.tail(ctx, log, after)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				yield(runelog.Rune{}, err)
				return
			}
			if !s.deliver(ctx, runes, yield) {
				return
			}
			after += uint64(len(runes))
			if len(runes) > 0 {
				continue
			}
			if sealed {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			case <-s.closed:
			}
		}
	}
}

// tail returns the runes after seq, and the channel that tells of more.
func (s *Store) tail(ctx context.Context, log string, after uint64) (runes []runelog.Rune, changed <-chan struct{}, sealed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec, err := s.find(ctx, log)
	if err != nil {
		return nil, nil, false, err
	}
	if rec.status.Archived {
		return nil, nil, false, fmt.Errorf("%w: %s", runelog.ErrArchived, log)
	}
	if after < uint64(len(rec.runes)) {
		runes = rec.runes[after:len(rec.runes):len(rec.runes)]
	}
	return runes, rec.changed, rec.status.Sealed, nil
}

// deliver yields the runes with their payloads resolved.
func (s *Store) deliver(ctx context.Context, runes []runelog.Rune, yield func(runelog.Rune, error) bool) (more bool) {
	for i := range runes {
		if err := ctx.Err(); err != nil {
			yield(runelog.Rune{}, err)
			return false
		}
		// A reader gets its own rune, as from any other store: the writer may
		// change the one it appended.
		r, err := runelog.Decode(runes[i].Raw())
		if err == nil {
			err = runelog.Resolve(ctx, s, &r)
		}
		if !yield(r, err) || err != nil {
			return false
		}
	}
	return true
}

// PutBlob implements runelog.Log.
func (s *Store) PutBlob(ctx context.Context, r io.Reader) (runelog.Blob, error) {
	content, err := io.ReadAll(io.LimitReader(r, runelog.MaxBlob+1))
	if err != nil {
		return runelog.Blob{}, fmt.Errorf("read blob: %w", err)
	}
	if len(content) > runelog.MaxBlob {
		return runelog.Blob{}, fmt.Errorf("%w: blob of more than %d bytes", runelog.ErrTooLarge, runelog.MaxBlob)
	}
	sum := sha256.Sum256(content)
	name := hex.EncodeToString(sum[:])
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return runelog.Blob{}, err
	}
	if content == nil {
		content = []byte{}
	}
	s.blobs[name] = content
	return runelog.Blob{SHA256: name, Size: int64(len(content))}, nil
}

// OpenBlob implements runelog.Log.
func (s *Store) OpenBlob(ctx context.Context, sha256 string) (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	content, ok := s.blobs[sha256]
	if !ok {
		return nil, fmt.Errorf("%w: blob %s", runelog.ErrNotFound, sha256)
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}
