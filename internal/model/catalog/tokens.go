package catalog

import (
	"math"
	"unicode/utf8"

	"stave/internal/model"
)

// What a request costs besides its text. Each is more than any service was seen to add.
const (
	requestTokens = 64   // around a request
	toolsTokens   = 1024 // what a service tells the model about tools as such
	toolTokens    = 32   // around one tool
	messageTokens = 16   // around a message or one of its parts
	imageTokens   = 5000 // a picture; large ones are made smaller by the services
	opaqueBytes   = 3    // bytes of encrypted thought for one of its tokens
)

// Tokens is an upper estimate of the tokens of a request's prompt, for setting
// money aside before a call.
//
// Services count with tokenizers of their own, which change from model to model
// and are not all public. A token is never shorter than a byte, but to take
// every byte for a token would set four times too much aside. So the bytes are
// counted by what they are, each at the rate of the least favourable tokenizer:
// a run of letters at one token for three, digits, signs and line ends at one
// each, other writing by the length of its UTF-8 form, and a tenth is added to
// it all. That is meant to be enough for prose, code and data of every usual
// kind, at the price of setting up to three times too much aside. The margin: a
// text made to be hard to split, like a run of random letters, may have more
// tokens than this says, but never four times as many, because none is shorter
// than a byte.
func Tokens(r model.Request) int64 {
	t := tally{half: requestTokens * 2}
	t.text(r.System)
	if len(r.Tools) > 0 {
		t.add(toolsTokens)
	}
	for _, tool := range r.Tools {
		t.add(toolTokens)
		t.text(tool.Name)
		t.text(tool.Description)
		t.text(string(tool.Schema))
	}
	if r.Output != nil {
		t.add(toolTokens)
		t.text(string(r.Output.Schema))
	}
	for _, m := range r.Messages {
		t.add(messageTokens)
		for _, p := range m.Parts {
			t.part(p)
		}
	}
	return t.tokens()
}

// tally counts in halves of tokens.
type tally struct{ half int64 }

func (t *tally) add(tokens int64) { t.half += 2 * tokens }

func (t *tally) tokens() int64 {
	n := t.half/2 + t.half%2
	if n > math.MaxInt64/2 {
		return math.MaxInt64 / 2
	}
	return n + n/10
}

func (t *tally) part(p model.Part) {
	t.add(messageTokens)
	t.text(p.Text)
	if p.Image != nil {
		t.add(imageTokens)
	}
	if r := p.Reasoning; r != nil {
		hidden := tally{half: 2 * int64(len(r.Opaque)/opaqueBytes)}
		var shown tally
		shown.text(r.Text)
		t.half += max(hidden.half, shown.half)
	}
	if c := p.Call; c != nil {
		t.add(toolTokens)
		t.text(c.Name)
		t.text(string(c.Args))
	}
	if r := p.Result; r != nil {
		t.add(toolTokens)
		t.text(r.Text)
		t.add(imageTokens * int64(len(r.Images)))
	}
}

// text counts the tokens of a text.
func (t *tally) text(s string) {
	run := 0 // letters of the run so far
	var last byte
	end := func() {
		t.add(int64(run+2) / 3)
		run = 0
	}
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			end()
			_, width := utf8.DecodeRuneInString(s[i:])
			t.add(int64(max(width-1, 1)))
			last, i = c, i+width
			continue
		}
		switch {
		case lower(c):
			run++
		case upper(c):
			if lower(last) {
				end() // camelCase is split here
			}
			run++
			t.half++ // capitals are rarer, and so are the words of them
		case c == ' ' && last != ' ':
			end()
			if next := s[min(i+1, len(s)-1)]; !lower(next) && !upper(next) {
				t.add(1) // it belongs to the word that follows, and none does
			}
		case c == ' ':
			t.half++ // indentation
		default:
			end()
			t.add(1)
		}
		last = c
		i++
	}
	end()
}

func lower(c byte) bool { return c >= 'a' && c <= 'z' }
func upper(c byte) bool { return c >= 'A' && c <= 'Z' }
