package mcp

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	jsonv2 "github.com/go-json-experiment/json"
)

// maxTokenBytes bounds what is kept of one sign-in.
const maxTokenBytes = 1 << 20

// FileTokens keeps what signing in gave: a file for each server, which only its
// owner can read. So one that renews its token never undoes what another saved.
type FileTokens struct{ dir string }

// NewFileTokens keeps sign-ins in dir, which need not exist yet.
func NewFileTokens(dir string) *FileTokens { return &FileTokens{dir} }

type tokenFile struct {
	Version int    `json:"version"`
	Server  string `json:"server"`
	Secret  []byte `json:"secret"`
}

// Load implements TokenStore. What is damaged is as good as none: the server then
// asks to sign in again.
func (t *FileTokens) Load(server string) ([]byte, error) {
	f, err := os.Open(t.file(server))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading a sign-in: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxTokenBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading a sign-in: %w", err)
	}
	var kept tokenFile
	if len(text) > maxTokenBytes || jsonv2.Unmarshal(text, &kept) != nil || kept.Version != 1 || kept.Server != server {
		return nil, nil
	}
	return kept.Secret, nil
}

// Save implements TokenStore. The file is replaced as a whole or not at all.
func (t *FileTokens) Save(server string, secret []byte) error {
	text, err := jsonv2.Marshal(tokenFile{1, server, secret})
	if err != nil {
		return fmt.Errorf("keeping a sign-in: %w", err)
	}
	if len(text) > maxTokenBytes {
		return fmt.Errorf("keeping a sign-in: it is larger than %d bytes", maxTokenBytes)
	}
	if err := replaceFile(t.file(server), text); err != nil {
		return fmt.Errorf("keeping a sign-in: %w", err)
	}
	return nil
}

// file has a name that any server may have, whatever is in it.
func (t *FileTokens) file(server string) string {
	return filepath.Join(t.dir, digestOf([]byte(server))[:32]+".json")
}
