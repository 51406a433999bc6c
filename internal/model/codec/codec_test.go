package codec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stave/internal/model"
)

// A string reads back as package json would have written it.
func TestString(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	texts := []string{"", "plain", "\"\\/\b\f\n\r\t\x00\x1f\x7f", "ü漢🎵\u2028\u2029", "\xff", "a\xc3", "\xed\xa0\x80x", "<&>"}
	for range 500 {
		b := make([]byte, chance.IntN(20))
		for i := range b {
			b[i] = byte(chance.Uint32())
		}
		texts = append(texts, string(b))
	}
	for _, s := range texts {
		whole, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var want, got string
		if err := json.Unmarshal(whole, &want); err != nil {
			t.Fatal(err)
		}
		text := String(nil, s)
		if err := json.Unmarshal(text, &got); err != nil || got != want {
			t.Errorf("%q is written %s and read %q, error %v", s, text, got, err)
		}
	}
}

func TestFields(t *testing.T) {
	b := Field([]byte{'{'}, "a", "x")
	b = IntField(b, "b", -5)
	b = BoolField(b, "c", true)
	b = append(append(Base64(append(Name(b, "d"), '"'), []byte{1, 2, 3}), '"'), '}')
	if want := `{"a":"x","b":-5,"c":true,"d":"AQID"}`; string(b) != want {
		t.Errorf("got %s, want %s", b, want)
	}
	if got, err := Raw([]byte("x"), json.RawMessage(` { "a" : 1 } `)); err != nil || string(got) != `x{"a":1}` {
		t.Errorf("got %s and %v", got, err)
	}
	if got, err := Raw([]byte("x"), json.RawMessage(`{`)); err == nil || string(got) != "x" {
		t.Errorf("got %s and no error", got)
	}
}

// retell walks through a text and says it again.
func retell(s *Scanner) any {
	switch s.peek() {
	case '{':
		m := map[string]any{}
		s.Object(func(name []byte) { m[string(name)] = retell(s) })
		return m
	case '[':
		l := []any{}
		s.List(func() { l = append(l, retell(s)) })
		return l
	case '"':
		return s.Text()
	}
	var v any
	if json.Unmarshal(s.Value(), &v) != nil {
		s.Fail()
	}
	return v
}

// What the scanner takes is JSON and says what package json reads of it.
func checkScan(t *testing.T, data []byte) (taken bool) {
	t.Helper()
	s := Scan(data)
	s.Value()
	if s.Ok() && !json.Valid(data) {
		t.Fatalf("%q was taken and is not JSON", data)
	}
	s = Scan(data)
	got := retell(&s)
	if !s.Ok() {
		return false
	}
	var want any
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatalf("%q was taken: %v", data, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%q (-json +scanner):\n%s", data, diff)
	}
	return true
}

var scanned = []string{
	`{"a":1,"b":[true,false,null,-0.5e+10,"x\ny\u00e9\ud83c\udfb5"],"c":{"d":{}},"e":[],"f":""}`,
	` [ 1 , "two" , { "three" : 3 } ] `, `"ü漢🎵"`, `0`, `-1`, `1e5`, `null`,
}

func FuzzScan(f *testing.F) {
	for _, text := range scanned {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) { checkScan(t, data) })
}

// The same with bytes of known texts changed, the same way every time.
func TestScan(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	for _, text := range scanned {
		if !checkScan(t, []byte(text)) {
			t.Errorf("%s was not taken", text)
		}
		for range 5000 {
			data := bytes.Clone([]byte(text))
			for range 1 + chance.IntN(3) {
				data[chance.IntN(len(data))] = pickByte(chance)
			}
			checkScan(t, data[:len(data)-chance.IntN(2)])
		}
	}
	for _, text := range []string{``, `{`, `{"a"}`, `{"a":1,}`, `[1,]`, `[,1]`, `01`, `1.`, `-`, `+1`, `"\x"`, `"\u12"`, "\"\n\"", `nul`, `1 2`, `"`, strings.Repeat("[", 1000)} {
		if s := Scan([]byte(text)); s.Value() != nil && s.Ok() {
			t.Errorf("%q was taken", text)
		}
	}
}

func pickByte(chance *rand.Rand) byte {
	const likely = "{}[]:,\"\\ 0159.-+eE\x00\n\xffntuabf"
	return likely[chance.IntN(len(likely))]
}

// Taken is taken: a value has one owner at a time, and the least used go first.
func TestCache(t *testing.T) {
	c := Cache[int]{Most: 100}
	if _, ok := c.Take("a"); ok {
		t.Error("something was there")
	}
	c.Put("a", 1, 40)
	c.Put("b", 2, 40)
	if v, ok := c.Take("a"); !ok || v != 1 {
		t.Errorf("a is %d, %v", v, ok)
	}
	if _, ok := c.Take("a"); ok {
		t.Error("a was there twice")
	}
	c.Put("a", 3, 40) // now b is the oldest
	c.Put("c", 4, 40)
	if _, ok := c.Take("b"); ok {
		t.Error("b was kept past the limit")
	}
	c.Put("c", 5, 10)
	for key, want := range map[string]int{"a": 3, "c": 5} {
		if v, ok := c.Take(key); !ok || v != want {
			t.Errorf("%s is %d, %v", key, v, ok)
		}
	}
	c.Put("huge", 6, 101)
	if _, ok := c.Take("huge"); ok || c.size != 0 || c.order.Len() != 0 || len(c.byKey) != 0 {
		t.Errorf("%d bytes are left", c.size)
	}
}

// A message is the same while it says the same, wherever it lies, and another
// once any of it was changed, even in place.
func TestMessages(t *testing.T) {
	made := func() []model.Message {
		return []model.Message{{Role: model.RoleTool, Parts: []model.Part{
			{Text: "t"},
			{Reasoning: &model.Reasoning{Text: "r"}},
			{Call: &model.ToolCall{ID: "c", Args: json.RawMessage(`{"a":1}`)}},
			{Result: &model.ToolResult{ID: "c", Text: "x"}},
		}}}
	}
	var m Messages
	m.Remember(0, made())
	if m.Same(made()) != 1 || m.Len() != 1 || m.Size() < 10 {
		t.Error("the same message elsewhere is another")
	}
	for i, change := range []func(*model.Message){
		func(m *model.Message) { m.Role = model.RoleUser },
		func(m *model.Message) { m.Parts[0].Text = "u" },
		func(m *model.Message) { m.Parts[1].Reasoning.Opaque = "o" },
		func(m *model.Message) { m.Parts[2].Call.Args[1] = 'b' },
		func(m *model.Message) { m.Parts[3].Result.IsError = true },
		func(m *model.Message) { m.Parts[3].Result.Images = []model.Image{{}} },
		func(m *model.Message) { m.Parts[3].Result = nil },
		func(m *model.Message) { m.Parts = m.Parts[:3] },
	} {
		messages := made()
		m.Remember(0, messages)
		change(&messages[0])
		if m.Same(messages) != 0 {
			t.Errorf("change %d was not seen", i)
		}
	}
}

// A list writes what is new, and what has changed with all that follows it.
func TestList(t *testing.T) {
	var l List
	say := func(texts ...string) []model.Message {
		var all []model.Message
		for _, s := range texts {
			all = append(all, model.Message{Parts: []model.Part{{Text: s}}})
		}
		return all
	}
	follow := func(reuse int, messages []model.Message) string {
		wrote := ""
		text, err := l.Follow(messages, reuse, func(b []byte, i, before int) ([]byte, error) {
			s := messages[i].Parts[0].Text
			if s == "bad" {
				return nil, fmt.Errorf("cannot be written")
			}
			if s == "" {
				return b, nil
			}
			wrote += fmt.Sprint(" ", i, "<", before)
			return append(Comma(b), s...), nil
		})
		if err != nil {
			return err.Error()
		}
		return string(text) + wrote
	}
	for _, c := range []struct {
		reuse int
		texts []string
		want  string
	}{
		{9, []string{"a", "", "b"}, "a,b 0<-1 2<0"},
		{9, []string{"a", "", "b", "c"}, "a,b,c 3<2"},
		{9, []string{"a", "x", "b"}, "a,x,b 1<0 2<1"},
		{9, []string{"a"}, "a"},
		{0, []string{"a", "b"}, "a,b 0<-1 1<0"},
		{9, []string{"a", "bad"}, "cannot be written"},
		{9, []string{"a"}, "a 0<-1"},
		{9, nil, ""},
	} {
		if got := follow(c.reuse, say(c.texts...)); got != c.want {
			t.Errorf("%q: got %q, want %q", c.texts, got, c.want)
		}
	}
}

// Tools are written once while they stay the same.
func TestTools(t *testing.T) {
	var tools Tools
	wrote := 0
	text := func(specs []model.ToolSpec) {
		if got, err := tools.Text(specs, func(s []model.ToolSpec) ([]byte, error) {
			wrote++
			return fmt.Appendf(nil, "%s", s), nil
		}); err != nil || string(got) != fmt.Sprintf("%s", specs) {
			t.Errorf("got %s and %v", got, err)
		}
	}
	specs := []model.ToolSpec{{Name: "a", Schema: json.RawMessage(`{}`)}}
	text(specs)
	text([]model.ToolSpec{{Name: "a", Schema: json.RawMessage(`{}`)}})
	if wrote != 1 {
		t.Errorf("written %d times", wrote)
	}
	specs[0].Schema[0] = '['
	text(specs)
	text(nil)
	if wrote != 3 {
		t.Errorf("written %d times", wrote)
	}
}

// A name that package json could take for another is not passed over, and a
// null is taken only where it stands.
func TestOther(t *testing.T) {
	for text, want := range map[string]bool{
		`{"a_1":{"B":2}}`: true, `{"a-b":[1]}`: true, `{"aB":1}`: false, `{"\u017f":1}`: false, `{"ſ":1}`: false, `{"a":}`: false,
	} {
		s := Scan([]byte(text))
		s.Object(s.Other)
		if s.Ok() != want {
			t.Errorf("%s: taken %v", text, s.Ok())
		}
	}
	s := Scan([]byte(`[null,1,"n",nul]`))
	var nulls []bool
	s.List(func() {
		null := s.TakeNull()
		nulls = append(nulls, null)
		if !null {
			s.Value()
		}
	})
	if diff := cmp.Diff([]bool{true, false, false, true}, nulls); diff != "" || s.Ok() {
		t.Errorf("taken %v, nulls (-want +got):\n%s", s.Ok(), diff)
	}
}
