package runelog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxBlob is the largest value a store keeps.
const MaxBlob = 64 << 20

// blobMember is the one member of a payload that stands for a blob. No event may
// use that name itself.
const blobMember = `{"$blob":`

// ErrReserved means that a draft's payload pretends to be a reference to a blob.
var ErrReserved = errors.New("payload uses the reserved member $blob")

// BlobPutter is the half of a Log that Offload needs, BlobOpener the one that
// Resolve needs.
type (
	BlobPutter interface {
		PutBlob(ctx context.Context, r io.Reader) (Blob, error)
	}
	BlobOpener interface {
		OpenBlob(ctx context.Context, sha256 string) (io.ReadCloser, error)
	}
)

// Offload makes drafts ready for Chain.Stamp: payloads over MaxInline are put
// into the store, durable before any rune names them, and replaced by
// {"$blob":{"sha256":…,"size":…}}. Every writer calls it on every batch, since it
// also keeps a forged reference out of the log. The drafts themselves stay as
// they are; if nothing had to be replaced they are what comes back. Readers get
// the payload back; only Raw and Hash show the reference.
func Offload(ctx context.Context, store BlobPutter, drafts []Rune) ([]Rune, error) {
	ready, copied := drafts, false
	for i := range drafts {
		kind := drafts[i].Kind
		payload, err := canonicalPayload(drafts[i].Payload)
		if err != nil {
			return nil, fmt.Errorf("offload %s: %w", kind, err)
		}
		if bytes.HasPrefix(payload, []byte(blobMember)) {
			return nil, fmt.Errorf("offload %s: %w", kind, ErrReserved)
		}
		if len(payload) <= MaxInline {
			continue
		}
		blob, err := store.PutBlob(ctx, bytes.NewReader(payload))
		if err != nil {
			return nil, fmt.Errorf("offload %s: %w", kind, err)
		}
		if !copied {
			ready, copied = slices.Clone(drafts), true
		}
		ready[i].Payload = fmt.Appendf(nil, `{"$blob":{"sha256":"%s","size":%d}}`, blob.SHA256, blob.Size)
	}
	return ready, nil
}

// BlobOf returns the blob that stands for a stored payload, if one does. Give it
// the payload as stored, not as resolved.
func BlobOf(payload jsontext.Value) (Blob, bool) {
	if !bytes.HasPrefix(payload, []byte(blobMember)) {
		return Blob{}, false
	}
	var ref struct {
		Blob Blob `json:"$blob"`
	}
	if json.Unmarshal(payload, &ref, json.RejectUnknownMembers(true)) != nil {
		return Blob{}, false
	}
	return ref.Blob, IsBlobName(ref.Blob.SHA256) && ref.Blob.Size >= 0 && ref.Blob.Size <= MaxBlob
}

// IsBlobName reports whether s is a SHA-256 in lower-case hex.
func IsBlobName(s string) bool {
	sum, err := hex.DecodeString(s)
	return err == nil && len(sum) == sha256.Size && hex.EncodeToString(sum) == s
}

// Resolve replaces a payload that stands for a blob by the blob's content. A
// blob that is missing or wrong damages the log as a missing rune would.
func Resolve(ctx context.Context, store BlobOpener, r *Rune) error {
	if !bytes.HasPrefix(r.Payload, []byte(blobMember)) {
		return nil
	}
	blob, ok := BlobOf(r.Payload)
	if !ok {
		return Damaged(r.Log, r.Seq, "malformed blob reference")
	}
	content, err := readBlob(ctx, store, blob)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return Damaged(r.Log, r.Seq, "blob %s: %w", blob.SHA256, err)
	}
	r.Payload, r.blob = content, &blob
	return nil
}

func readBlob(ctx context.Context, store BlobOpener, blob Blob) ([]byte, error) {
	f, err := store.OpenBlob(ctx, blob.SHA256)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content := make([]byte, blob.Size)
	if _, err := io.ReadFull(f, content); err != nil {
		return nil, fmt.Errorf("read %d bytes: %w", blob.Size, err)
	}
	if n, err := f.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("more than %d bytes", blob.Size)
	}
	if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != blob.SHA256 {
		return nil, errors.New("content does not match its name")
	}
	return content, nil
}
