package anthropic

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stave/internal/model"
)

// speaker makes up conversations, the same for the same seed.
type speaker struct {
	*rand.Rand
	calls []string // ids that wait for a result
	n     int
}

var (
	someTexts = []string{"", " \n", "a", "two words", "\"quoted\" \\ <b>&\u2028\u0001\t\r\n", "ünïcödé 漢字 🎵", "broken \xff\xc3 bytes", strings.Repeat("long ", 300)}
	someArgs  = []string{"", "null", "{}", ` {"a" : [1, 2.50, "x"]} `, "[1,2]", `"text"`, "{", "12", `{"n":9007199254740993}`}
	someTypes = []string{"image/png", "image/webp", "image/tiff", ""}
)

func pick[T any](s *speaker, of []T) T { return of[s.IntN(len(of))] }

func (s *speaker) image() model.Image {
	return model.Image{MediaType: pick(s, someTypes), Data: []byte(pick(s, []string{"", "png!", "\xff\xfe"}))}
}

func (s *speaker) part(role model.Role) model.Part {
	switch s.IntN(6) {
	case 0:
		return model.Part{Reasoning: &model.Reasoning{
			Text: pick(s, someTexts), Opaque: pick(s, []string{"", "sig"}), Redacted: s.IntN(3) == 0, Origin: pick(s, []string{Origin, "openai"}),
		}}
	case 1:
		i := s.image()
		return model.Part{Image: &i}
	case 2, 3:
		if role == model.RoleAssistant {
			s.n++
			id := pick(s, []string{"twice", fmt.Sprint("call_", s.n), "odd id!"})
			s.calls = append(s.calls, id)
			return model.Part{Call: &model.ToolCall{
				ID: id, Name: pick(s, []string{"read", "odd name"}), Args: json.RawMessage(pick(s, someArgs)),
				Opaque: pick(s, []string{"", "toolu_1", "no id"}), Origin: pick(s, []string{Origin, "gemini"}),
			}}
		}
		id := "unknown"
		if len(s.calls) > 0 && s.IntN(4) > 0 {
			id, s.calls = s.calls[0], s.calls[1:]
		}
		r := &model.ToolResult{ID: id, Text: pick(s, someTexts), IsError: s.IntN(3) == 0}
		for range s.IntN(3) {
			r.Images = append(r.Images, s.image())
		}
		return model.Part{Result: r}
	}
	return model.Part{Text: pick(s, someTexts)}
}

func (s *speaker) message() model.Message {
	m := model.Message{Role: pick(s, []model.Role{model.RoleUser, model.RoleAssistant, model.RoleAssistant, model.RoleTool})}
	for range 1 + s.IntN(4) {
		m.Parts = append(m.Parts, s.part(m.Role))
	}
	return m
}

// next is the request after another: more is said, or the beginning is put
// shorter, or something is taken back, or changed where it stands.
func (s *speaker) next(r model.Request) model.Request {
	n := len(r.Messages)
	switch k := s.IntN(12); {
	case k == 0 && n > 2: // compacted
		r.Messages = append([]model.Message{user(said("in short"))}, r.Messages[1+s.IntN(n-1):]...)
	case k == 1 && n > 2: // rewound
		r.Messages = r.Messages[: 1+s.IntN(n-1) : n-1]
	case k == 2: // a secret is found and taken out in place
		for _, m := range r.Messages {
			for _, p := range m.Parts {
				if p.Result != nil {
					p.Result.Text = "taken out"
				}
				if p.Call != nil && len(p.Call.Args) > 5 {
					copy(p.Call.Args, `{"b"`)
				}
			}
		}
	case k == 3: // the person switches
		r.Model = pick(s, []string{"claude-opus-5-5", "claude-sonnet-4-5", "claude-3-5-haiku", "local"})
		r.Effort = pick(s, []string{"", "low", "high", "heroic"})
	case k == 4:
		r.Tools = []model.ToolSpec{{Name: "read"}, {Name: "odd name", Description: pick(s, someTexts), Schema: json.RawMessage(pick(s, []string{``, `{"type":"object"}`, `{"properties":{}}`, `[]`, `{`}))}}
		r.System = pick(s, someTexts)
		r.MaxTokens = int64(s.IntN(3)) * 5000
	case k == 5:
		r.Output = pick(s, []*model.OutputSchema{nil, {Schema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"object"}}}`)}})
	}
	for range s.IntN(3) {
		r.Messages = append(r.Messages, s.message())
	}
	return r
}

// check compares one request with what the library's types say.
func check(p *Provider, r model.Request, thoughts bool) error {
	want, wantErr := p.sdkBody(r, thoughts)
	got, gotErr := p.body(r, thoughts)
	if (wantErr == nil) != (gotErr == nil) {
		return fmt.Errorf("got error %v, want %v", gotErr, wantErr)
	}
	if wantErr != nil {
		return nil
	}
	var a, b any
	if err := json.Unmarshal(want, &a); err != nil {
		return err
	}
	if err := json.Unmarshal(got, &b); err != nil {
		return fmt.Errorf("%w in %s", err, got)
	}
	if diff := cmp.Diff(a, b); diff != "" {
		return fmt.Errorf("request (-library +ours):\n%s", diff)
	}
	return nil
}

// Whatever happens to a conversation between two requests, and however many run
// side by side: each request says what the library's types would make of it.
func TestSameAsLibrary(t *testing.T) {
	p := New(Options{APIKey: testKey})
	p.said.Most = 64 << 10 // so that some are forgotten
	var all sync.WaitGroup
	for seed := range uint64(40) {
		all.Go(func() {
			s := &speaker{Rand: rand.New(rand.NewPCG(seed, 1))}
			r := model.Request{Model: "claude-opus-5-5", CacheKey: fmt.Sprint("conv_", seed/2)} // two get in each other's way
			for i := range 60 {
				r = s.next(r)
				if err := check(p, r, s.IntN(10) > 0); err != nil {
					t.Errorf("seed %d, request %d: %v", seed, i, err)
					return
				}
			}
		})
	}
	all.Wait()
}

// What was written once is not written again: the hundredth request of a
// conversation makes hardly more garbage than the tenth but for its own body.
func TestWrittenOnce(t *testing.T) {
	p := New(Options{APIKey: testKey})
	r := question()
	r.CacheKey = "conv"
	garbage := func() float64 {
		return testing.AllocsPerRun(3, func() {
			if _, err := p.body(r, true); err != nil {
				t.Fatal(err)
			}
		})
	}
	grow := func(n int) {
		for i := range n {
			id := fmt.Sprintf("call_%d_%d", n, i)
			r.Messages = append(r.Messages, assistant(said("I read."), called(id, "read", `{"path":"a"}`)), results(result(id, "text")))
		}
	}
	grow(10)
	tenth := garbage()
	grow(90)
	if hundredth := garbage(); hundredth > tenth+5 {
		t.Errorf("%v allocations for a request of 10 rounds, %v for one of 100", tenth, hundredth)
	}
}

// A number of a schema is sent as it is written; the library's types make a
// text of it.
func TestNumbersOfSchemas(t *testing.T) {
	r := question()
	r.Output = &model.OutputSchema{Schema: json.RawMessage(`{"type":"object","maximum":9007199254740993}`)}
	data, err := New(Options{APIKey: testKey}).body(r, true)
	if err != nil || !strings.Contains(string(data), `"maximum":9007199254740993`) {
		t.Errorf("error %v, request %s", err, data)
	}
}
