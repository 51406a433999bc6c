package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	jsonv2 "github.com/go-json-experiment/json"
)

// Pins remembers what a person approved. Nothing a server, a model or a project
// file says may write to it.
type Pins interface {
	// Load gives the pin of a server, the zero Pin if there is none.
	Load(server string) (Pin, error)
	// Save replaces the pin of a server.
	Save(server string, pin Pin) error
}

// Pin is what was approved of one server: its identity and its tools as they
// were defined at the time.
type Pin struct {
	Identity Approved            `json:"identity,omitzero"`
	Tools    map[string]Approved `json:"tools,omitzero"`
}

// Approved is one approved text and its digest. The text is kept so that a
// person can see what changed.
type Approved struct {
	Digest string          `json:"digest"`
	Text   json.RawMessage `json:"text"`
}

func (p Pin) clone() Pin {
	out := Pin{Identity: p.Identity, Tools: make(map[string]Approved, len(p.Tools))}
	for k, v := range p.Tools {
		out.Tools[k] = v
	}
	return out
}

const maxPinBytes = 64 << 20

// FilePins keeps pins in one JSON file that only its owner can read.
type FilePins struct {
	file string
	mu   sync.Mutex
}

// NewFilePins keeps pins in file, which need not exist yet.
func NewFilePins(file string) *FilePins { return &FilePins{file: file} }

type pinFile struct {
	Version int            `json:"version"`
	Servers map[string]Pin `json:"servers"`
}

// Load implements Pins.
func (p *FilePins) Load(server string) (Pin, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all, err := p.read()
	return all.Servers[server], err
}

// Save implements Pins. The file is replaced as a whole or not at all.
func (p *FilePins) Save(server string, pin Pin) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	all, err := p.read()
	if err != nil {
		return err
	}
	all.Servers[server] = pin
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		return fmt.Errorf("writing pins: %w", err)
	}
	if err := replaceFile(p.file, append(text, '\n')); err != nil {
		return fmt.Errorf("writing pins: %w", err)
	}
	return nil
}

func (p *FilePins) read() (pinFile, error) {
	empty := pinFile{Version: 1, Servers: make(map[string]Pin)}
	f, err := os.Open(p.file)
	if errors.Is(err, fs.ErrNotExist) {
		return empty, nil
	}
	if err != nil {
		return empty, fmt.Errorf("reading pins: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxPinBytes+1))
	if err != nil {
		return empty, fmt.Errorf("reading pins: %w", err)
	}
	if len(text) > maxPinBytes {
		return empty, fmt.Errorf("reading pins: %s is larger than %d bytes; remove it to approve all servers again", p.file, maxPinBytes)
	}
	all := empty
	if err := jsonv2.Unmarshal(text, &all, jsonv2.RejectUnknownMembers(true)); err != nil {
		return empty, fmt.Errorf("reading pins: %s is damaged (%w); remove it to approve all servers again", p.file, err)
	}
	if all.Version != 1 {
		return empty, fmt.Errorf("reading pins: %s has version %d, this program knows 1", p.file, all.Version)
	}
	if all.Servers == nil {
		all.Servers = make(map[string]Pin)
	}
	return all, nil
}

// MemoryPins keeps pins as long as the program runs.
type MemoryPins struct {
	mu   sync.Mutex
	pins map[string]Pin
}

// Load implements Pins.
func (p *MemoryPins) Load(server string) (Pin, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pins[server].clone(), nil
}

// Save implements Pins.
func (p *MemoryPins) Save(server string, pin Pin) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pins == nil {
		p.pins = make(map[string]Pin)
	}
	p.pins[server] = pin.clone()
	return nil
}
