package gemini

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
	someTexts = []string{"", " \n", "a", "two words", "\"quoted\" \\ <b>&\u2028\u0001\t\r\n", "ünïcödé 漢字 🎵", "broken \xff\xc3 bytes", strings.Repeat("long ", 300)}
	someArgs  = []string{"", "null", "{}", ` {"a" : [1, 2.50, "x"]} `, "[1,2]", `"text"`, "12", `{"n":9007199254740993}`}
)

func pick[T any](s *speaker, of ...T) T { return of[s.IntN(len(of))] }

func (s *speaker) image() model.Image {
	return model.Image{MediaType: pick(s, "image/png", "image/webp"), Data: []byte(pick(s, "", "png!", "\xff\xfe"))}
}

func (s *speaker) part() model.Part {
	switch s.IntN(7) {
	case 0, 1:
		return model.Part{Reasoning: &model.Reasoning{
			ID: pick(s, "", signsText, signsVoid), Text: pick(s, someTexts...), Opaque: pick(s, "", "sig"), Origin: pick(s, Origin, "anthropic"),
		}}
	case 2:
		i := s.image()
		return model.Part{Image: &i}
	case 3, 4:
		if s.IntN(2) == 0 {
			return model.Part{Call: &model.ToolCall{
				ID: pick(s, "", "call_1", "call_2"), Name: pick(s, "read", "odd name"), Args: json.RawMessage(pick(s, someArgs...)),
				Opaque: pick(s, "", "sig"), Origin: pick(s, Origin, "openai"),
			}}
		}
		r := &model.ToolResult{ID: pick(s, "", "call_1", "call_2", "call_3"), Text: pick(s, someTexts...), IsError: s.IntN(3) == 0}
		for range s.IntN(3) {
			r.Images = append(r.Images, s.image())
		}
		return model.Part{Result: r}
	}
	return model.Part{Text: pick(s, someTexts...)}
}

func (s *speaker) message() model.Message {
	m := model.Message{Role: pick(s, model.RoleUser, model.RoleAssistant, model.RoleTool, model.RoleTool)}
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
				if p.Call != nil && len(p.Call.Args) > 12 && p.Call.Args[0] == '{' {
					copy(p.Call.Args, `{"b"`)
				}
			}
		}
	case k == 3: // the person switches
		r.Model, r.Effort = pick(s, "gemini-3-pro", "models/gemini-2.5-pro", "gemma-9", "new"), pick(s, "", "low", "high", "heroic")
	case k == 4:
		r.Tools = []model.ToolSpec{{Name: "read"}, {Name: "odd name", Description: pick(s, someTexts...), Schema: json.RawMessage(pick(s, ``, `{"type":"object"}`, `{"b":1, "a":2}`, `{`))}}
		r.System, r.MaxTokens = pick(s, someTexts...), int64(s.IntN(3))*5000-1
	case k == 5:
		r.Output = pick(s, nil, &model.OutputSchema{Schema: json.RawMessage(pick(s, ``, `{"type":"object"}`, `]`))})
	}
	for range s.IntN(3) {
		r.Messages = append(r.Messages, s.message())
	}
	return r
}

func check(p *Provider, r model.Request) error {
	want, wantErr := encodeWhole(r)
	got, gotErr := p.body(r)
	if (wantErr == nil) != (gotErr == nil) {
		return fmt.Errorf("got error %v, want %v", gotErr, wantErr)
	}
	if wantErr != nil {
		return nil
	}
	var a, b map[string]any
	if err := json.Unmarshal(want, &a); err != nil {
		return err
	}
	if a["contents"] == nil {
		a["contents"] = []any{} // a list, even where there is nothing to say
	}
	if err := json.Unmarshal(got, &b); err != nil {
		return fmt.Errorf("%w in %s", err, got)
	}
	if diff := cmp.Diff(a, b); diff != "" {
		return fmt.Errorf("request (-whole +ours):\n%s", diff)
	}
	return nil
}

func testProvider(t testing.TB) *Provider {
	t.Helper()
	p, err := New(Options{APIKey: "k"})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Whatever happens to a conversation between two requests, and however many run
// side by side: each request says what package json would make of it.
func TestSameAsWhole(t *testing.T) {
	p := testProvider(t)
	p.said.Most = 64 << 10 // so that some are forgotten
	var all sync.WaitGroup
	for seed := range uint64(40) {
		all.Go(func() {
			s := &speaker{rand.New(rand.NewPCG(seed, 1))}
			r := model.Request{Model: "gemini-3-pro", CacheKey: fmt.Sprint("conv_", seed/2)} // two get in each other's way
			for i := range 60 {
				r = s.next(r)
				if err := check(p, r); err != nil {
					t.Errorf("seed %d, request %d: %v", seed, i, err)
					return
				}
			}
		})
	}
	all.Wait()
}

// rounds is a conversation of so many rounds with a tool.
func rounds(n int) model.Request {
	r := model.Request{Model: "gemini-3-pro", CacheKey: "conv", System: strings.Repeat("Be brief. ", 100)}
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
			model.Message{Role: model.RoleTool, Parts: []model.Part{{Result: &model.ToolResult{ID: id, Text: "ok"}}}},
		)
	}
	return r
}

// What was written once is not written again: the hundredth request of a
// conversation makes hardly more garbage than the tenth but for its own body.
func TestWrittenOnce(t *testing.T) {
	p := testProvider(t)
	garbage := func(n int) float64 {
		r := rounds(n)
		r.CacheKey = fmt.Sprint(n)
		return testing.AllocsPerRun(3, func() {
			if _, err := p.body(r); err != nil {
				t.Fatal(err)
			}
		})
	}
	if tenth, hundredth := garbage(10), garbage(100); hundredth > tenth+3 {
		t.Errorf("%v allocations for a request of 10 rounds, %v for one of 100", tenth, hundredth)
	}
}

// BenchmarkBody writes two requests, the second with a round more.
func BenchmarkBody(b *testing.B) {
	for _, n := range []int{0, 100} {
		r := rounds(n)
		all := r.Messages
		for name, body := range map[string]func(model.Request) ([]byte, error){"ours": testProvider(b).body, "whole": encodeWhole} {
			b.Run(fmt.Sprint(name, "-", n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					for _, cut := range []int{2, 0} {
						r.Messages = all[:max(len(all)-cut, 1)]
						if _, err := body(r); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
	}
}
