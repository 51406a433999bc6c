package anthropic

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/packages/param"

	"stave/internal/model"
)

// turn is one message as the API wants it: user and assistant take turns.
type turn struct {
	assistant bool
	blocks    []sdk.ContentBlockParamUnion
	calls     []madeCall         // of the assistant, as they stand in blocks
	results   []model.ToolResult // of the user's side; blocks once they are paired
}

// madeCall is a call by our id and by the one it goes by at the API.
type madeCall struct{ id, wire string }

// turnsOf writes messages down as the API demands them: neighbours of one role
// are one turn, nothing is empty, and every call is answered at the beginning
// of the turn that follows it, in the order of the calls.
func turnsOf(messages []model.Message, thoughts bool) []turn {
	var turns []turn
	taken := map[string]bool{} // ids of calls
	for _, m := range messages {
		t := turn{assistant: m.Role == model.RoleAssistant}
		for _, part := range m.Parts {
			t.add(part, thoughts, taken)
		}
		t.trimThoughts()
		if len(t.blocks)+len(t.results) == 0 {
			continue
		}
		if n := len(turns); n > 0 && turns[n-1].assistant == t.assistant {
			turns[n-1].join(t)
		} else {
			turns = append(turns, t)
		}
	}
	if n := len(turns); n > 0 && len(turns[n-1].calls) > 0 {
		turns = append(turns, turn{})
	}
	for i := range turns {
		if !turns[i].assistant {
			var calls []madeCall
			if i > 0 {
				calls = turns[i-1].calls
			}
			turns[i].pair(calls)
		}
	}
	return turns
}

func (t *turn) add(part model.Part, thoughts bool, taken map[string]bool) {
	switch {
	case part.Reasoning != nil:
		if b, ok := thoughtBlock(*part.Reasoning); ok && t.assistant && thoughts {
			t.blocks = append(t.blocks, b)
		}
	case part.Call != nil && t.assistant:
		t.addCall(*part.Call, taken)
	case part.Result != nil && !t.assistant:
		t.results = append(t.results, *part.Result)
	case part.Image != nil:
		t.addImage(*part.Image)
	case strings.TrimSpace(part.Text) != "":
		t.blocks = append(t.blocks, sdk.NewTextBlock(part.Text))
	}
}

func (t *turn) addCall(c model.ToolCall, taken map[string]bool) {
	wire := c.ID
	if c.Origin == Origin && validID(c.Opaque) && !taken[c.Opaque] {
		wire = c.Opaque
	}
	wire = freeID(wire, taken)
	taken[wire] = true
	t.calls = append(t.calls, madeCall{c.ID, wire})
	t.blocks = append(t.blocks, sdk.NewToolUseBlock(wire, inputOf(c.Args), wireName(c.Name)))
}

func (t *turn) addImage(i model.Image) {
	if b, ok := imageBlock(i); ok && !t.assistant {
		t.blocks = append(t.blocks, sdk.ContentBlockParamUnion{OfImage: b})
		return
	}
	t.blocks = append(t.blocks, sdk.NewTextBlock(unseen(i)))
}

// trimThoughts takes thoughts from the end of a turn: the API refuses a turn
// that ends with one.
func (t *turn) trimThoughts() {
	for n := len(t.blocks); n > 0 && isThought(t.blocks[n-1]); n-- {
		t.blocks = t.blocks[:n-1]
	}
}

func (t *turn) join(next turn) {
	t.blocks = append(t.blocks, next.blocks...)
	t.calls = append(t.calls, next.calls...)
	t.results = append(t.results, next.results...)
}

// pair puts the results of the calls before everything else of the turn. A call
// without a result is answered with that; a result without a call, which the
// API would refuse, is told as text.
func (t *turn) pair(calls []madeCall) {
	answered := make(map[string]*model.ToolResult, len(calls))
	var spare turn
	for i, r := range t.results {
		asked := slices.ContainsFunc(calls, func(c madeCall) bool { return c.id == r.ID })
		if asked && answered[r.ID] == nil {
			answered[r.ID] = &t.results[i]
			continue
		}
		spare.blocks = append(spare.blocks, sdk.NewTextBlock("[the result of an earlier call]\n"+r.Text))
		for _, image := range r.Images {
			spare.addImage(image)
		}
	}
	var first []sdk.ContentBlockParamUnion
	for _, c := range calls {
		r := answered[c.id]
		if r == nil {
			r = &model.ToolResult{Text: "no result of this call is recorded", IsError: true}
		}
		first = append(first, sdk.ContentBlockParamUnion{OfToolResult: resultBlock(c.wire, *r)})
	}
	t.blocks = slices.Concat(first, t.blocks, spare.blocks)
	t.results = nil
}

func isThought(b sdk.ContentBlockParamUnion) bool {
	return b.OfThinking != nil || b.OfRedactedThinking != nil
}

// thoughtBlock gives back a thought as it came. One of another provider, or one
// that was cut before its signature, cannot be given back.
func thoughtBlock(r model.Reasoning) (sdk.ContentBlockParamUnion, bool) {
	if r.Origin != Origin || r.Opaque == "" {
		return sdk.ContentBlockParamUnion{}, false
	}
	if r.Redacted {
		return sdk.NewRedactedThinkingBlock(r.Opaque), true
	}
	return sdk.NewThinkingBlock(r.Opaque, r.Text), true
}

func hasThoughts(r model.Request) bool {
	for _, m := range r.Messages {
		for _, part := range m.Parts {
			if part.Reasoning != nil {
				if _, ok := thoughtBlock(*part.Reasoning); ok {
					return true
				}
			}
		}
	}
	return false
}

// inputOf gives arguments back as a JSON object, which is all the API takes.
func inputOf(args json.RawMessage) any {
	var fields map[string]json.RawMessage
	if json.Unmarshal(args, &fields) == nil && fields != nil {
		return args
	}
	if len(args) == 0 || !json.Valid(args) || string(args) == "null" {
		return json.RawMessage(`{}`)
	}
	return map[string]json.RawMessage{"value": args}
}

func resultBlock(id string, r model.ToolResult) *sdk.ToolResultBlockParam {
	b := &sdk.ToolResultBlockParam{ToolUseID: id}
	said := r.Text
	if r.IsError {
		b.IsError = param.NewOpt(true)
		if strings.TrimSpace(said) == "" && len(r.Images) == 0 {
			said = "failed without saying why" // the API refuses an error without words
		}
	}
	if strings.TrimSpace(said) != "" {
		b.Content = append(b.Content, textContent(said))
	}
	for _, image := range r.Images {
		if picture, ok := imageBlock(image); ok {
			b.Content = append(b.Content, sdk.ToolResultBlockParamContentUnion{OfImage: picture})
		} else {
			b.Content = append(b.Content, textContent(unseen(image)))
		}
	}
	return b
}

func textContent(s string) sdk.ToolResultBlockParamContentUnion {
	return sdk.ToolResultBlockParamContentUnion{OfText: &sdk.TextBlockParam{Text: s}}
}

func imageBlock(i model.Image) (*sdk.ImageBlockParam, bool) {
	switch i.MediaType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
	default:
		return nil, false
	}
	if len(i.Data) == 0 {
		return nil, false
	}
	return &sdk.ImageBlockParam{Source: sdk.ImageBlockParamSourceUnion{OfBase64: &sdk.Base64ImageSourceParam{
		Data: base64.StdEncoding.EncodeToString(i.Data), MediaType: sdk.Base64ImageSourceMediaType(i.MediaType),
	}}}, true
}

func unseen(i model.Image) string {
	return "[an image of type " + i.MediaType + ", which cannot be shown here]"
}
