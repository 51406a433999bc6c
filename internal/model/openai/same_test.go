package openai

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
type speaker struct{ *rand.Rand }

var (
	someTexts = []string{"", " \n", "a", "error: b", "\"quoted\" \\ <b>&\u2028\u0001\t\r\n", "ünïcödé 漢字 🎵", "broken \xff\xc3 bytes", strings.Repeat("long ", 300)}
	someArgs  = []string{"", "null", "{}", ` {"a" : [1, 2.50, "x"]} `, "[1,2]", `"text"`, "{", "12", `{"n":9007199254740993}`}
)

func pick[T any](s *speaker, of ...T) T { return of[s.IntN(len(of))] }

func (s *speaker) image() model.Image {
	return model.Image{MediaType: pick(s, "image/png", "image/webp"), Data: []byte(pick(s, "", "png!", "\xff\xfe"))}
}

func (s *speaker) part() model.Part {
	switch s.IntN(6) {
	case 0:
		return model.Part{Reasoning: &model.Reasoning{
			ID: pick(s, "", "rs_1"), Text: pick(s, someTexts...), Opaque: pick(s, "", "sealed"), Origin: pick(s, "openai", "anthropic"),
		}}
	case 1:
		i := s.image()
		return model.Part{Image: &i}
	case 2, 3:
		if s.IntN(2) == 0 {
			return model.Part{Call: &model.ToolCall{
				ID: pick(s, "call_1", strings.Repeat("long", 40)), Name: pick(s, "read", "odd name"), Args: json.RawMessage(pick(s, someArgs...)),
			}}
		}
		r := &model.ToolResult{ID: pick(s, "call_1", "call_2"), Text: pick(s, someTexts...), IsError: s.IntN(3) == 0}
		for range s.IntN(3) {
			r.Images = append(r.Images, s.image())
		}
		return model.Part{Result: r}
	}
	return model.Part{Text: pick(s, someTexts...)}
}

func (s *speaker) message() model.Message {
	m := model.Message{Role: pick(s, model.RoleUser, model.RoleAssistant, model.RoleAssistant, model.RoleTool)}
	for range s.IntN(5) {
		m.Parts = append(m.Parts, s.part())
	}
	return m
}

// next is the request after another: more is said, or the beginning is put
// shorter, or something is taken back, or changed where it stands.
func (s *speaker) next(r model.Request) model.Request {
	n := len(r.Messages)
	switch k := s.IntN(12); {
	case k == 0 && n > 2: // compacted
		r.Messages = append([]model.Message{{Role: model.RoleUser, Parts: []model.Part{{Text: "in short"}}}}, r.Messages[1+s.IntN(n-1):]...)
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
		r.Model, r.Effort = pick(s, "gpt-5", "gpt-4o", "x/gpt-5-chat", "local"), pick(s, "", "low", "high")
	case k == 4:
		r.Tools = []model.ToolSpec{{Name: "read"}, {Name: "odd name", Description: pick(s, someTexts...), Schema: json.RawMessage(pick(s, ``, `null`, `{"type":"object"}`, `{"b":1, "a":2}`, `[]`, `{`))}}
		r.System, r.MaxTokens = pick(s, someTexts...), int64(s.IntN(3))*5000
	case k == 5:
		r.Output = pick(s, nil, &model.OutputSchema{Name: pick(s, "", "an answer"), Schema: json.RawMessage(pick(s, ``, `{"type":"object","properties":{"n":{"maximum":3}},"required":["n"],"additionalProperties":false}`))})
	}
	for range s.IntN(3) {
		r.Messages = append(r.Messages, s.message())
	}
	return r
}

type encoder interface{ MarshalJSON() ([]byte, error) }

// check compares one request with what the library's types say.
func check(s *service, r model.Request, ours func(model.Request) ([]byte, error), library func(model.Request) (encoder, error)) error {
	params, wantErr := library(r)
	got, gotErr := ours(r)
	if (wantErr == nil) != (gotErr == nil) {
		return fmt.Errorf("got error %v, want %v", gotErr, wantErr)
	}
	if wantErr != nil {
		return nil
	}
	want, err := params.MarshalJSON()
	if err != nil {
		return err
	}
	var a, b map[string]any
	if err := json.Unmarshal(want, &a); err != nil {
		return err
	}
	a["stream"] = true // its client adds that
	if err := json.Unmarshal(got, &b); err != nil {
		return fmt.Errorf("%w in %s", err, got)
	}
	if diff := cmp.Diff(a, b); diff != "" {
		return fmt.Errorf("%s: request (-library +ours):\n%s", s.Name, diff)
	}
	return nil
}

// Whatever happens to a conversation between two requests, and however many run
// side by side: each request says what the library's types would make of it.
func TestSameAsLibrary(t *testing.T) {
	for name, o := range map[string]Options{
		"usual": {Summary: "auto"}, "other": {Name: "other", BaseURL: "https://example.com/v1"},
		"local": {UseMaxTokens: true, NoStreamOptions: true, ThoughtField: "reasoning_content", BaseURL: "http://localhost/v1"},
	} {
		t.Run(name, func(t *testing.T) {
			chat, responses := newService(o), newService(o)
			chat.said.Most, responses.said.Most = 64<<10, 64<<10 // so that some are forgotten
			var all sync.WaitGroup
			for seed := range uint64(20) {
				all.Go(func() {
					s := &speaker{rand.New(rand.NewPCG(seed, 1))}
					r := model.Request{Model: "gpt-5", CacheKey: fmt.Sprint("conv_", seed/2)} // two get in each other's way
					for i := range 60 {
						r = s.next(r)
						if err := check(chat, r, chat.chatBody, func(r model.Request) (encoder, error) { return chat.sdkChatParams(r) }); err != nil {
							t.Errorf("seed %d, request %d: %v", seed, i, err)
							return
						}
						if err := check(responses, r, responses.responsesBody, func(r model.Request) (encoder, error) { return responses.sdkResponsesParams(r) }); err != nil {
							t.Errorf("seed %d, request %d: %v", seed, i, err)
							return
						}
					}
				})
			}
			all.Wait()
		})
	}
}

// rounds is a conversation of so many rounds with a tool.
func rounds(n int, text string) model.Request {
	r := model.Request{Model: "gpt-5", CacheKey: "conv", System: strings.Repeat("Be brief. ", 100)}
	for i := range 12 {
		r.Tools = append(r.Tools, model.ToolSpec{
			Name: fmt.Sprint("tool_", i), Description: strings.Repeat("Does something. ", 30),
			Schema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string","description":"of a file"}},"required":["path"],"additionalProperties":false}`),
		})
	}
	r.Messages = []model.Message{{Role: model.RoleUser, Parts: []model.Part{{Text: "go"}}}}
	for i := range n {
		id := fmt.Sprintf("call_%d", i)
		r.Messages = append(
			r.Messages,
			model.Message{Role: model.RoleAssistant, Parts: []model.Part{{Text: "I read."}, {Call: &model.ToolCall{ID: id, Name: "read", Args: json.RawMessage(`{"path":"a.txt"}`)}}}},
			model.Message{Role: model.RoleTool, Parts: []model.Part{{Result: &model.ToolResult{ID: id, Text: text}}}},
		)
	}
	return r
}

// What was written once is not written again: the hundredth request of a
// conversation makes hardly more garbage than the tenth but for its own body.
func TestWrittenOnce(t *testing.T) {
	for name, body := range map[string]func(model.Request) ([]byte, error){"chat": newService(Options{}).chatBody, "responses": newService(Options{}).responsesBody} {
		garbage := func(n int) float64 {
			r := rounds(n, "ok")
			r.CacheKey = fmt.Sprint(n)
			return testing.AllocsPerRun(3, func() {
				if _, err := body(r); err != nil {
					t.Fatal(err)
				}
			})
		}
		if tenth, hundredth := garbage(10), garbage(100); hundredth > tenth+3 {
			t.Errorf("%s: %v allocations for a request of 10 rounds, %v for one of 100", name, tenth, hundredth)
		}
	}
}

// BenchmarkBody writes two requests, the second with a round more.
func BenchmarkBody(b *testing.B) {
	s := newService(Options{})
	library := func(params encoder, err error) ([]byte, error) {
		if err != nil {
			return nil, err
		}
		return params.MarshalJSON()
	}
	for _, n := range []int{0, 100} {
		r := rounds(n, "ok")
		all := r.Messages
		for _, c := range []struct {
			name string
			body func(model.Request) ([]byte, error)
		}{
			{"chat", s.chatBody},
			{"responses", s.responsesBody},
			{"chat-library", func(r model.Request) ([]byte, error) { return library(s.sdkChatParams(r)) }},
			{"responses-library", func(r model.Request) ([]byte, error) { return library(s.sdkResponsesParams(r)) }},
		} {
			b.Run(fmt.Sprint(c.name, "-", n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					for _, cut := range []int{2, 0} {
						r.Messages = all[:max(len(all)-cut, 1)]
						if _, err := c.body(r); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
	}
}
