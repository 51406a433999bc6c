package main

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"stave/internal/config"
	"stave/internal/model"
	"stave/internal/model/anthropic"
	"stave/internal/model/catalog"
	"stave/internal/model/gemini"
	"stave/internal/model/openai"
	"stave/internal/model/queue"
	"stave/internal/model/script"
	"stave/internal/secret"
)

const scriptPrefix = "script:"

// service is a place models are to be had from, with what is known about it.
type service struct {
	config.Service
	name    string
	urlEnv  string // the variable that moves it elsewhere
	first   string // the model to take where nobody names one
	keyless bool   // it needs no key
}

// builtIn are the services everybody has, in the order they are tried.
var builtIn = []service{
	{config.Service{Kind: "anthropic", KeyEnv: "ANTHROPIC_API_KEY"}, "anthropic", "ANTHROPIC_BASE_URL", "claude-sonnet-4-5", false},
	{config.Service{Kind: "openai", KeyEnv: "OPENAI_API_KEY"}, "openai", "OPENAI_BASE_URL", "gpt-5", false},
	{config.Service{Kind: "gemini", KeyEnv: "GEMINI_API_KEY"}, "gemini", "GEMINI_BASE_URL", "gemini-2.5-pro", false},
	{config.Service{Kind: "openai-chat", KeyEnv: "OPENAI_API_KEY"}, "openai-chat", "OPENAI_BASE_URL", "gpt-5", false},
	{config.Service{Kind: "openai-chat", KeyEnv: "OPENROUTER_API_KEY", BaseURL: "https://openrouter.ai/api/v1"}, "openrouter", "OPENROUTER_BASE_URL", "", false},
	{config.Service{Kind: "openai-chat", BaseURL: ollamaURL}, "ollama", "OLLAMA_BASE_URL", "", true},
}

const ollamaURL = "http://127.0.0.1:11434/v1"

// models finds the provider of a model by its name.
type models struct {
	getenv func(string) string
	keys   string // directory of key files
	queue  *queue.Queue
	// secrets learns every key before it is used.
	secrets *secret.Set

	mu       sync.Mutex
	settings config.Config
	catalog  *catalog.Catalog          // with the person's own prices; nil is what is built in
	loaded   map[string]model.Provider // by service, and scripts by name
}

// use takes the person's settings; it is called before the first model is looked
// up. What was taken first stays: providers that are open already wait in its queue.
func (m *models) use(c config.Config, prices *catalog.Catalog, keys string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.queue != nil {
		return
	}
	m.settings, m.catalog, m.keys = c, prices, keys
	lanes := map[string]queue.Limits{}
	for name, l := range c.Lanes {
		lanes[name] = queue.Limits{Concurrency: l.Concurrency, Rate: l.PerMinute / 60}
	}
	m.queue = queue.New(queue.Options{Providers: lanes})
}

// provider returns what a model's calls go through.
func (m *models) provider(_ context.Context, name string) (model.Provider, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.loaded[name]; p != nil {
		return p, nil
	}
	if file, ok := strings.CutPrefix(name, scriptPrefix); ok {
		s, err := script.Load(file)
		if err != nil {
			return nil, err
		}
		return m.add(name, s), nil
	}
	of, id, ok := strings.Cut(name, "/")
	if !ok || id == "" {
		return nil, fmt.Errorf("model %q: write PROVIDER/NAME, as in anthropic/%s", name, builtIn[0].first)
	}
	s, err := m.service(of)
	if err != nil {
		return nil, err
	}
	key, err := m.key(s)
	if err != nil {
		return nil, err
	}
	m.secrets.Add(key)
	p, err := s.open(key, m)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", of, err)
	}
	return m.add(name, named{m.queue.Provider(of, p), id}), nil
}

func (m *models) add(name string, p model.Provider) model.Provider {
	if m.loaded == nil {
		m.loaded = map[string]model.Provider{}
	}
	m.loaded[name] = p
	return p
}

// service finds a place by its name: the person's own first.
func (m *models) service(name string) (service, error) {
	if s, ok := m.settings.Services[name]; ok {
		return service{Service: s, name: name, keyless: s.KeyEnv == "" && s.KeyFile == ""}, nil
	}
	var names []string
	for _, s := range builtIn {
		if s.name == name {
			return s, nil
		}
		names = append(names, s.name)
	}
	return service{}, fmt.Errorf("there is no provider %q; known are %s, and those in the providers section of config.yaml", name, strings.Join(names, ", "))
}

// key returns a service's key, from its variable, its file, or the key directory.
func (m *models) key(s service) (string, error) {
	if s.KeyEnv != "" {
		if key := strings.TrimSpace(m.getenv(s.KeyEnv)); key != "" {
			return key, nil
		}
	}
	file := s.KeyFile
	if file == "" {
		file = filepath.Join(m.keys, s.name)
	}
	b, err := os.ReadFile(file)
	switch {
	case err == nil:
		return strings.TrimSpace(string(b)), nil
	case s.keyless && s.KeyFile == "":
		return "", nil
	case s.KeyFile != "":
		return "", fmt.Errorf("the key of %s: %w", s.name, err)
	}
	return "", fmt.Errorf("%s needs a key: set %s, or put it into the file %s", s.name, s.KeyEnv, file)
}

// address is where a service is to be found; empty is where its adapter knows.
func (s service) address(getenv func(string) string) string {
	if s.urlEnv != "" {
		if moved := strings.TrimSpace(getenv(s.urlEnv)); moved != "" {
			return moved
		}
	}
	return s.BaseURL
}

// open returns the adapter that speaks a service's dialect.
func (s service) open(key string, m *models) (model.Provider, error) {
	base := s.address(m.getenv)
	switch s.Kind {
	case "anthropic":
		return anthropic.New(anthropic.Options{APIKey: key, BaseURL: base, MaxOutput: func(name string) int64 {
			known, _ := m.lookup(s.name, name)
			return known.MaxOutput
		}}), nil
	case "openai":
		return openai.NewResponses(openai.Options{Name: s.name, APIKey: key, BaseURL: base}), nil
	case "gemini":
		return gemini.New(gemini.Options{APIKey: key, BaseURL: base})
	}
	return openai.NewChat(openai.Options{Name: s.name, APIKey: key, BaseURL: base, UseMaxTokens: s.name != "openai-chat"}), nil
}

// named gives a request the provider's own name of the model.
type eventSeq = iter.Seq2[model.Event, error]

type named struct {
	model.Provider
	id string
}

func (n named) Stream(ctx context.Context, r model.Request) eventSeq {
	r.Model = n.id
	return n.Provider.Stream(ctx, r)
}

// modelName turns --model into the name a conversation keeps: a script by its
// whole path, since the conversation may be resumed from anywhere.
func (m *models) modelName(flag string) (string, error) {
	if flag == "" {
		return m.usual()
	}
	file, isScript := strings.CutPrefix(flag, scriptPrefix)
	if !isScript {
		return flag, nil
	}
	if file == "" {
		return "", badInput("--model %s names no file; write script:FILE", flag)
	}
	abs, err := filepath.Abs(file)
	if err != nil {
		return "", badInput("--model %s: %w", flag, err)
	}
	return scriptPrefix + abs, nil
}

// usual is the model to take where nobody names one: the configured one, the
// first service with a key, then a local Ollama.
func (m *models) usual() (string, error) {
	if m.settings.Model != "" {
		return m.settings.Model, nil
	}
	for _, s := range builtIn {
		if s.keyless || s.first == "" {
			continue
		}
		if key, err := m.key(s); err == nil && key != "" {
			return s.name + "/" + s.first, nil
		}
	}
	if name := m.localModel(); name != "" {
		return "ollama/" + name, nil
	}
	return "", badInput("no model is configured. To get going, do one of these:\n" +
		"  - set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY (or put the key into a file, see `stave doctor`)\n" +
		"  - run a local model with Ollama (https://ollama.com), or name any server that speaks OpenAI's dialect in config.yaml\n" +
		"  - pass --model script:FILE, a model whose answers are written in a YAML file\n" +
		"or try `stave demo`, which needs none of them")
}

// localModel asks a local Ollama what it has. It waits only a moment: nobody
// should wait for a server that is not there.
func (m *models) localModel() string {
	const patience = 300 * time.Millisecond
	base := strings.TrimSpace(m.getenv("OLLAMA_BASE_URL"))
	if base == "" {
		base = ollamaURL
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(base, "/")+"/models", nil)
	if err != nil {
		return ""
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	const most = 1 << 20
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if json.NewDecoder(http.MaxBytesReader(nil, resp.Body, most)).Decode(&list) != nil || len(list.Data) == 0 {
		return ""
	}
	return list.Data[0].ID
}
