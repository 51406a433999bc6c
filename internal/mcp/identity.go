package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxHashedFile bounds the program files that are read to know a server again.
const maxHashedFile = 512 << 20

// scriptEndings mark arguments that are the program an interpreter runs, and
// therefore belong to what a person approves.
var scriptEndings = []string{".js", ".mjs", ".cjs", ".ts", ".py", ".rb", ".sh", ".pl", ".php", ".lua", ".jar", ".wasm"}

// identity is what makes a server the one a person approved. Values of
// variables and headers stand as they are configured, with ${NAME} unexpanded,
// and only as a digest: they may be secrets.
type identity struct {
	Command []string          `json:"command,omitzero"`
	Cwd     string            `json:"cwd,omitzero"`
	Files   map[string]string `json:"files,omitzero"` // sha256 of program files
	Env     map[string]string `json:"env,omitzero"`   // sha256 of values
	URL     string            `json:"url,omitzero"`
	Headers []string          `json:"headers,omitzero"`
	// What the walls leave open, as far as it is not the usual.
	Sandbox string   `json:"sandbox,omitzero"`
	Network *bool    `json:"network,omitzero"`
	Read    []string `json:"read,omitzero"`
	Write   []string `json:"write,omitzero"`

	argv []string // what is started
}

// identify finds the program of a server and what it consists of.
func identify(s Server, path string) (identity, error) {
	if s.URL != "" {
		return identity{URL: s.URL, Headers: slices.Sorted(maps.Keys(s.Headers))}, nil
	}
	program, err := lookPath(s.Command, s.Cwd, path)
	if err != nil {
		return identity{}, err
	}
	id := identity{
		Command: append([]string{s.Command}, s.Args...), Cwd: s.Cwd,
		Files: make(map[string]string), Env: make(map[string]string),
		Sandbox: s.Sandbox, Network: s.Network, Read: s.Read, Write: s.Write,
		argv: append([]string{program}, s.Args...),
	}
	for k, v := range s.Env {
		id.Env[k] = digestOf([]byte(v))
	}
	if id.Files[program], err = hashFile(program); err != nil {
		return identity{}, fmt.Errorf("reading the program %s: %w", program, err)
	}
	for _, arg := range s.Args {
		if !slices.Contains(scriptEndings, strings.ToLower(filepath.Ext(arg))) {
			continue
		}
		file := arg
		if !filepath.IsAbs(file) {
			file = filepath.Join(s.Cwd, file)
		}
		sum, err := hashFile(file)
		switch {
		case errors.Is(err, fs.ErrNotExist): // then it is only a word
		case err != nil:
			return identity{}, fmt.Errorf("reading the program %s: %w", file, err)
		default:
			id.Files[file] = sum
		}
	}
	return id, nil
}

// lookPath finds a program the way a shell does, but with the search path the
// server will have, and never in the present directory.
func lookPath(program, dir, path string) (string, error) {
	if strings.ContainsRune(program, filepath.Separator) {
		if !filepath.IsAbs(program) {
			program = filepath.Join(dir, program)
		}
		if !filepath.IsAbs(program) {
			return "", fmt.Errorf("the command %q must be an absolute path or a name on PATH, or cwd must be given", program)
		}
		return exec.LookPath(program)
	}
	for _, d := range filepath.SplitList(path) {
		if !filepath.IsAbs(d) {
			continue
		}
		if found, err := exec.LookPath(filepath.Join(d, program)); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("there is no program %q on PATH; install it or write its full path", program)
}

func hashFile(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", errors.New("it is not a regular file")
	}
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(f, maxHashedFile+1))
	if err == nil && n > maxHashedFile {
		err = fmt.Errorf("it is larger than %d bytes", int64(maxHashedFile))
	}
	return hex.EncodeToString(h.Sum(nil)), err
}

// text is what a person is shown and what the digest is made of.
func (id identity) text() (json.RawMessage, error) { return canonicalText(id) }

// canonicalText writes a value so that equal values have equal bytes.
func canonicalText(v any) (json.RawMessage, error) {
	text, err := jsonv2.Marshal(v)
	if err != nil {
		return nil, err
	}
	value := jsontext.Value(text)
	if err := value.Canonicalize(); err != nil {
		return nil, err
	}
	return json.RawMessage(value), nil
}

func digestOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
