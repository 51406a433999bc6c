package mcp

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	maxConfigBytes = 1 << 20
	maxServers     = 64
	maxTimeout     = time.Hour
	// maxPaths bounds what a server may reach beside the workspace.
	maxPaths = 64
)

// Config is the set of servers a person wants.
type Config struct {
	Servers map[string]Server `json:"mcpServers"`
}

// Server says how one server is reached: a command that speaks on its standard
// input and output, or a URL.
type Server struct {
	// Type is stdio, http or sse. Left out it follows from command or url, and a
	// url that does not speak streamable HTTP is tried as sse.
	Type    string            `json:"type,omitzero"`
	Command string            `json:"command,omitzero"`
	Args    []string          `json:"args,omitzero"`
	Env     map[string]string `json:"env,omitzero"`
	Cwd     string            `json:"cwd,omitzero"`
	URL     string            `json:"url,omitzero"`
	Headers map[string]string `json:"headers,omitzero"`

	Disabled bool `json:"disabled,omitzero"`
	// ReadOnly is a person's word that the tools change nothing.
	ReadOnly bool `json:"read_only,omitzero"`
	// Traits replaces what calls are taken to touch; "untrusted" always stays.
	Traits []string `json:"traits,omitzero"`
	// TimeoutSeconds is the time limit of one call.
	TimeoutSeconds int `json:"timeout_seconds,omitzero"`
	// InsecureHTTP allows http to another machine.
	InsecureHTTP bool `json:"insecure_http,omitzero"`
	// Sandbox is the level of the walls around a command; empty means the strongest
	// there is.
	Sandbox string `json:"sandbox,omitzero"`
	// Network says whether a command may use the network; nil means that it may.
	Network *bool `json:"network,omitzero"`
	// Read and Write are what a command may reach beside the workspace, as absolute
	// paths or from the home directory on (~/…).
	Read  []string `json:"read,omitzero"`
	Write []string `json:"write,omitzero"`
	// ClientID is the OAuth client registered for us, where a server wants one.
	ClientID string `json:"oauth_client_id,omitzero"`
	// ClientSecret goes with ClientID; write it as ${NAME} to keep it elsewhere.
	ClientSecret string `json:"oauth_client_secret,omitzero"`
}

// Online reports whether a command may use the network.
func (s Server) Online() bool { return s.Network == nil || *s.Network }

const (
	typeStdio = "stdio"
	typeHTTP  = "http"
	typeSSE   = "sse"
)

// serverName leaves no doubt where the server ends in server__tool: it neither
// holds two underscores nor ends with one.
var serverName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9-]|_[A-Za-z0-9-]){0,31}$`)
})

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

var sandboxes = []string{"", "auto", "bwrap", "landlock", "off"}

var knownTraits = []string{"private", "untrusted", "external", "destructive"}

// Load reads a configuration. Unknown, doubled and wrongly spelled fields are
// errors: a setting that is silently ignored is worse than one that is refused.
func Load(file string, text []byte) (Config, error) {
	if len(text) > maxConfigBytes {
		return Config{}, fmt.Errorf("reading %s: the file is %d bytes long, at most %d are allowed", file, len(text), maxConfigBytes)
	}
	var c Config
	if err := jsonv2.Unmarshal(text, &c, jsonv2.RejectUnknownMembers(true)); err != nil {
		return Config{}, fmt.Errorf("reading %s: %w", file, configProblem(err))
	}
	if c.Servers == nil {
		return Config{}, fmt.Errorf(`reading %s: there is no "mcpServers"; write {"mcpServers": {}} for none`, file)
	}
	if len(c.Servers) > maxServers {
		return Config{}, fmt.Errorf("reading %s: %d servers, at most %d are allowed", file, len(c.Servers), maxServers)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Servers)) {
		s, err := c.Servers[name].checked(name)
		if err != nil {
			return Config{}, fmt.Errorf("reading %s: server %q: %w", file, name, err)
		}
		c.Servers[name] = s
	}
	return c, nil
}

// configProblem says where in the file something is wrong, without the parser's
// talk about Go types.
func configProblem(err error) error {
	var semantic *jsonv2.SemanticError
	var syntax *jsontext.SyntacticError
	switch {
	case errors.As(err, &semantic) && errors.Is(semantic.Err, jsonv2.ErrUnknownName):
		return fmt.Errorf("%s is not a setting here", pointerName(semantic.JSONPointer))
	case errors.As(err, &semantic):
		return fmt.Errorf("%s must not be a JSON %s", pointerName(semantic.JSONPointer), semantic.JSONKind)
	case errors.As(err, &syntax) && errors.Is(syntax.Err, jsontext.ErrDuplicateName):
		return fmt.Errorf("%s is given twice", pointerName(syntax.JSONPointer))
	case errors.As(err, &syntax):
		return fmt.Errorf("not valid JSON at byte %d: %w", syntax.ByteOffset, syntax.Err)
	}
	return err
}

func pointerName(p jsontext.Pointer) string {
	name := strings.Join(slices.Collect(p.Tokens()), ".")
	if name == "" {
		return "the file"
	}
	return fmt.Sprintf("%q", clean(name, 200))
}

func (s Server) checked(name string) (Server, error) {
	if !serverName().MatchString(name) {
		return s, errors.New("a name has at most 32 letters, digits, - and single _, and begins and ends without _")
	}
	if (s.Command == "") == (s.URL == "") {
		return s, errors.New(`give either "command" or "url"`)
	}
	if s.TimeoutSeconds < 0 || time.Duration(s.TimeoutSeconds)*time.Second > maxTimeout {
		return s, fmt.Errorf("timeout_seconds must be from 1 to %d", int(maxTimeout.Seconds()))
	}
	for _, t := range s.Traits {
		if !slices.Contains(knownTraits, t) {
			return s, fmt.Errorf("trait %q is none of %s", t, strings.Join(knownTraits, ", "))
		}
	}
	if s.Command != "" {
		return s.checkedCommand()
	}
	return s.checkedURL()
}

func (s Server) checkedCommand() (Server, error) {
	if s.Type != "" && s.Type != typeStdio {
		return s, fmt.Errorf("type %q does not go with a command; leave it out", s.Type)
	}
	s.Type = typeStdio
	if len(s.Headers) > 0 || s.ClientID != "" || s.ClientSecret != "" || s.InsecureHTTP {
		return s, errors.New("headers, oauth_client_id, oauth_client_secret and insecure_http belong to a url, not to a command")
	}
	for _, word := range append([]string{s.Command, s.Cwd}, s.Args...) {
		if strings.ContainsRune(word, 0) {
			return s, errors.New("command, args and cwd must not hold a NUL character")
		}
	}
	if s.Cwd != "" && !filepath.IsAbs(s.Cwd) {
		return s, fmt.Errorf("cwd %q must be an absolute path", s.Cwd)
	}
	if !slices.Contains(sandboxes, s.Sandbox) {
		return s, fmt.Errorf("sandbox %q is none of auto, bwrap, landlock, off", s.Sandbox)
	}
	if err := errors.Join(checkPaths("read", s.Read), checkPaths("write", s.Write)); err != nil {
		return s, err
	}
	for k, v := range s.Env {
		if !envName.MatchString(k) || strings.ContainsRune(v, 0) {
			return s, fmt.Errorf("env %q is not a variable that can be set", k)
		}
	}
	return s, nil
}

func checkPaths(field string, paths []string) error {
	if len(paths) > maxPaths {
		return fmt.Errorf("%s has %d paths, at most %d are allowed", field, len(paths), maxPaths)
	}
	for _, path := range paths {
		whole := path
		if rest, ok := strings.CutPrefix(path, "~/"); ok {
			whole = "/" + rest
		}
		if !filepath.IsAbs(whole) || filepath.Clean(whole) != whole || strings.ContainsRune(whole, 0) {
			return fmt.Errorf("%s: %q must be an absolute path, or begin with ~/, without . and .. in it", field, path)
		}
	}
	return nil
}

func (s Server) checkedURL() (Server, error) {
	if !slices.Contains([]string{"", typeHTTP, typeSSE}, s.Type) {
		return s, fmt.Errorf("type %q does not go with a url; use http, sse or leave it out", s.Type)
	}
	if len(s.Args) > 0 || len(s.Env) > 0 || s.Cwd != "" {
		return s, errors.New("args, env and cwd belong to a command, not to a url")
	}
	if s.Sandbox != "" || s.Network != nil || len(s.Read) > 0 || len(s.Write) > 0 {
		return s, errors.New("sandbox, network, read and write belong to a command: what a url leads to runs elsewhere")
	}
	u, err := url.Parse(s.URL)
	switch {
	case err != nil:
		return s, errors.New("the url cannot be understood")
	case u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return s, errors.New("the url must begin with https:// and name a host")
	case u.User != nil:
		return s, errors.New("the url must not hold a name or password; use headers")
	case u.Fragment != "":
		return s, errors.New("the url must not have a fragment")
	case u.Scheme == "http" && !isLoopback(u.Hostname()) && !s.InsecureHTTP:
		return s, errors.New(`http to another machine can be read and changed on the way; use https, or set "insecure_http": true`)
	}
	for k, v := range s.Headers {
		if !headerName.MatchString(k) || strings.ContainsAny(v, "\r\n\x00") {
			return s, fmt.Errorf("header %q cannot be sent", k)
		}
	}
	return s, nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
