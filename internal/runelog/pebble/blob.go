package pebble

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/cockroachdb/pebble/v2/vfs"

	"stave/internal/runelog"
)

// blobPath spreads blobs over 65,536 directories.
func (s *Store) blobPath(name string) string {
	return s.fs.PathJoin(s.blobDir(), name[:2], name[2:4], name)
}

// PutBlob implements runelog.Log.
func (s *Store) PutBlob(ctx context.Context, r io.Reader) (runelog.Blob, error) {
	if err := s.enter(ctx); err != nil {
		return runelog.Blob{}, err
	}
	defer s.leave()
	if err := s.breaker.check(); err != nil {
		return runelog.Blob{}, err
	}
	temp := s.fs.PathJoin(s.blobDir(), strconv.FormatUint(s.temps.Add(1), 10)+tempSuffix)
	blob, err := s.spoolBlob(temp, r)
	if err == nil {
		err = s.placeBlob(temp, blob)
	}
	if err != nil {
		_ = s.fs.Remove(temp) // else the next Open does
		return runelog.Blob{}, fmt.Errorf("store blob: %w", err)
	}
	return blob, nil
}

// spoolBlob writes the content to a synced temporary file.
func (s *Store) spoolBlob(temp string, r io.Reader) (runelog.Blob, error) {
	f, err := s.fs.Create(temp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return runelog.Blob{}, fmt.Errorf("create %s: %w", temp, err)
	}
	sum := sha256.New()
	n, err := io.Copy(f, io.TeeReader(io.LimitReader(r, runelog.MaxBlob+1), sum))
	if err == nil && n > runelog.MaxBlob {
		err = fmt.Errorf("%w: blob of more than %d bytes", runelog.ErrTooLarge, runelog.MaxBlob)
	}
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return runelog.Blob{}, fmt.Errorf("write %s: %w", temp, err)
	}
	return runelog.Blob{SHA256: hex.EncodeToString(sum.Sum(nil)), Size: n}, nil
}

// placeBlob gives the content its name. A blob that is there already is
// replaced, which also heals a damaged one.
func (s *Store) placeBlob(temp string, blob runelog.Blob) error {
	path := s.blobPath(blob.SHA256)
	dir := s.fs.PathDir(path)
	if _, err := s.fs.Stat(dir); err != nil {
		if err := s.fs.MkdirAll(dir, dirPerm); err != nil {
			return fmt.Errorf("create %s: %w", dir, err)
		}
	}
	// Another process's crash may have left the directory without its entry
	// synced, so the parents are synced each time.
	for _, parent := range []string{s.blobDir(), s.fs.PathDir(dir)} {
		if err := syncDir(s.fs, parent); err != nil {
			return err
		}
	}
	return publish(s.fs, temp, path)
}

// OpenBlob implements runelog.Log. The content has been checked when it returns.
func (s *Store) OpenBlob(ctx context.Context, name string) (io.ReadCloser, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	if !runelog.IsBlobName(name) {
		return nil, fmt.Errorf("%w: blob name %q", runelog.ErrInvalid, name)
	}
	f, err := s.fs.Open(s.blobPath(name))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: blob %s", runelog.ErrNotFound, name)
	}
	if err != nil {
		return nil, fmt.Errorf("open blob %s: %w", name, err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, runelog.MaxBlob+1))
	if err != nil {
		return nil, fmt.Errorf("read blob %s: %w", name, err)
	}
	if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != name {
		return nil, fmt.Errorf("%w: blob %s does not match its name", runelog.ErrCorrupt, name)
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}
