package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"stave/internal/mcp"
	"stave/internal/toolbox/sandbox"
)

// serverFiles are where a project names servers, the first of a name counts.
var serverFiles = []string{".stave/mcp.json", ".mcp.json"}

// projectServers are the servers of a trusted project that do not clash with the
// person's own, and what a person should know of the others. What cannot be read
// is no reason to keep a person from their conversation.
func projectServers(data, dir string, own mcp.Config) (map[string]mcp.Server, []string) {
	const unused = "no MCP server of this project is used: "
	p, _, err := trustedProject(data, dir)
	if err != nil {
		return nil, []string{unused + err.Error()}
	}
	theirs := map[string]mcp.Server{}
	var notes []string
	for _, name := range serverFiles {
		b := p.Files[name]
		if b == nil {
			continue
		}
		c, err := mcp.Load(filepath.Join(dir, name), b)
		if err != nil {
			return nil, []string{unused + err.Error()}
		}
		for _, server := range slices.Sorted(maps.Keys(c.Servers)) {
			taken, why := admit(server, c.Servers[server], own, theirs, dir)
			if why != "" {
				notes = append(notes, fmt.Sprintf("the MCP server %s in %s is left out: %s", server, filepath.Join(dir, name), why))
				continue
			}
			theirs[server] = taken
		}
	}
	return theirs, notes
}

// admit takes a project's server, or says why not. A project may only make things
// stricter, so it cannot give its servers a person's word.
func admit(name string, s mcp.Server, own mcp.Config, theirs map[string]mcp.Server, dir string) (mcp.Server, string) {
	_, mine := own.Servers[name]
	_, twice := theirs[name]
	switch {
	case mine:
		return s, "you have one of that name yourself"
	case twice:
		return s, "the project has one of that name already"
	case s.ReadOnly || len(s.Traits) > 0 || s.InsecureHTTP:
		return s, "a project cannot set read_only, traits or insecure_http; put the server into your own " + mcpName
	case len(s.Read) > 0 || len(s.Write) > 0 || s.Sandbox != "" && s.Sandbox != autoLevel && s.Sandbox != string(sandbox.Bwrap):
		return s, "a project cannot set read, write or a weaker sandbox; put the server into your own " + mcpName
	case s.Cwd != "" && s.Cwd != dir && !strings.HasPrefix(filepath.Clean(s.Cwd), dir+"/"):
		return s, "its cwd is not in the project"
	}
	if s.Command != "" && s.Cwd == "" {
		s.Cwd = dir // what its words mean
	}
	return s, ""
}

// keptFor says under which name something about a server is kept: what a person
// approved in one project says nothing about another.
type keptFor struct {
	dir    string
	theirs map[string]mcp.Server
}

func (k keptFor) name(server string) string {
	if _, ok := k.theirs[server]; ok {
		return server + "@" + k.dir
	}
	return server
}

// file is the name as one of a file.
func (k keptFor) file(server string) string {
	if name := k.name(server); name != server {
		sum := sha256.Sum256([]byte(name))
		return server + "@" + hex.EncodeToString(sum[:8])
	}
	return server
}

type scopedPins struct {
	in mcp.Pins
	keptFor
}

func (p scopedPins) Load(server string) (mcp.Pin, error) { return p.in.Load(p.name(server)) }

func (p scopedPins) Save(server string, pin mcp.Pin) error { return p.in.Save(p.name(server), pin) }

type scopedTokens struct {
	in mcp.TokenStore
	keptFor
}

func (t scopedTokens) Load(server string) ([]byte, error) { return t.in.Load(t.name(server)) }

func (t scopedTokens) Save(server string, secret []byte) error {
	return t.in.Save(t.name(server), secret)
}
