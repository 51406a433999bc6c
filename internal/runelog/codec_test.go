package runelog

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var ignoreInternals = cmpopts.IgnoreUnexported(Rune{})

// full returns a rune with every member set and every kind of character.
func full() Rune {
	return Rune{
		V: 1, Seq: 7, ID: "run_1", Log: "conv_1", Path: `agent:"ä"/turn:1`, Kind: "turn.started", From: "idle\n", To: "streaming\u2028",
		Visibility: Internal, TSMs: 1_700_000_000_000, By: "user:\\anna\x01", Cause: 6, Job: "job 😀",
		Payload: jsontext.Value(`{"a":[1,-2,true,null,"x"],"b":{"c":1.5}}`), Tags: []string{"t1", "ß"}, Prev: strings.Repeat("ab", 32),
	}
}

// Encode is what a general RFC 8785 implementation makes of the same struct.
func TestEncodeIsCanonical(t *testing.T) {
	small := Rune{V: 1, Seq: 1, Log: "l", Kind: "k", Visibility: Public, Payload: jsontext.Value(`{}`)}
	negative := small
	negative.TSMs = -5
	for _, r := range []Rune{full(), small, negative} {
		got, err := Encode(r)
		if err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := (*jsontext.Value)(&want).Canonicalize(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		back, err := Decode(got)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r, back, ignoreInternals); diff != "" {
			t.Errorf("decoded (-want +got):\n%s", diff)
		}
		if !bytes.Equal(back.Raw(), got) {
			t.Error("raw bytes differ")
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	for name, change := range map[string]func(*Rune){
		"no version":         func(r *Rune) { r.V = 0 },
		"later version":      func(r *Rune) { r.V = Version + 1 },
		"no kind":            func(r *Rune) { r.Kind = "" },
		"no log":             func(r *Rune) { r.Log = "" },
		"no visibility":      func(r *Rune) { r.Visibility = "" },
		"unknown visibility": func(r *Rune) { r.Visibility = "loud" },
		"huge seq":           func(r *Rune) { r.Seq = MaxNumber + 1 },
		"huge time":          func(r *Rune) { r.TSMs = -MaxNumber - 1 },
		"bad text":           func(r *Rune) { r.By = "\xff" },
		"bad tag":            func(r *Rune) { r.Tags = []string{"\xff"} },
	} {
		r := full()
		change(&r)
		if _, err := Encode(r); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	r := full()
	r.Path = strings.Repeat("x", MaxRaw)
	if _, err := Encode(r); !errors.Is(err, ErrTooLarge) {
		t.Errorf("huge rune: %v", err)
	}
	for _, payload := range []string{"", "{", `{"a":1,"a":2}`, `"\ud800"`, "{}{}", "\xff"} {
		r := full()
		r.Payload = jsontext.Value(payload)
		if raw, err := Encode(r); err == nil {
			t.Errorf("payload %q became %s", payload, raw)
		}
	}
}

// canonicalCases maps JSON to its canonical form.
var canonicalCases = map[string]string{
	`{}`:                    `{}`,
	`{"b":1,"a":2}`:         `{"a":2,"b":1}`,
	` [ 1 , 2 ] `:           `[1,2]`,
	`1.0`:                   `1`,
	`1e3`:                   `1000`,
	`0.1`:                   `0.1`,
	`1E400`:                 `1.7976931348623157e+308`,
	`9007199254740993`:      `9007199254740993`,
	`-12345678901234567890`: `-12345678901234567890`,
	`"\u0041\/\u00e9\u001F\u0008\ud83d\ude00"`: "\"A/é\\u001f\\b😀\"",
	"\"\u2028\x7f\"":                               "\"\u2028\x7f\"",
	`{"\ud83d\ude00":1,"\ufb33":2}`:                "{\"😀\":1,\"\ufb33\":2}",
	`{"a":{"d":[],"c":{}},"":null}`:                `{"":null,"a":{"c":{},"d":[]}}`,
	`{"a":1,"ab":2,"a\"":3}`:                       `{"a":1,"a\"":3,"ab":2}`,
	`{"b":[{"z":1,"y":{"q":"\n","p":-7}}],"a":[]}`: `{"a":[],"b":[{"y":{"p":-7,"q":"\n"},"z":1}]}`,
	`false`: `false`,
}

func TestCanonicalize(t *testing.T) {
	for in, want := range canonicalCases {
		got, err := Canonicalize(jsontext.Value(in))
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v; want %s", in, got, err, want)
			continue
		}
		again, err := Canonicalize(got)
		if err != nil || string(again) != want {
			t.Errorf("%s is not stable: %s, %v", want, again, err)
		}
	}
	deep := jsontext.Value(strings.Repeat("[", 500) + strings.Repeat("]", 500))
	if got, err := Canonicalize(deep); err != nil || !bytes.Equal(got, deep) {
		t.Errorf("a deep value: %d bytes, %v", len(got), err)
	}
}

// Decode takes exactly what Encode writes.
func TestDecodeRefuses(t *testing.T) {
	raw, err := Encode(full())
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for name, change := range map[string][2]string{
		"white space":      {`,"v":1`, `, "v":1`},
		"duplicate member": {`,"v":1`, `,"v":1,"v":1`},
		"unknown member":   {`,"v":1`, `,"u":1,"v":1`},
		"missing member":   {`,"seq":7`, ``},
		"member order":     {`,"seq":7,"tags":["t1","ß"]`, `,"tags":["t1","ß"],"seq":7`},
		"leading zero":     {`"seq":7`, `"seq":07`},
		"float":            {`"seq":7`, `"seq":7.0`},
		"negative":         {`"seq":7`, `"seq":-7`},
		"huge number":      {`"seq":7`, `"seq":99999999999999999999`},
		"explicit zero":    {`"cause":6`, `"cause":0`},
		"explicit empty":   {`"job":"job 😀"`, `"job":""`},
		"empty tags":       {`"tags":["t1","ß"]`, `"tags":[]`},
		"other escape":     {`idle\n`, `idle\u000a`},
		"needless escape":  {`"t1"`, `"\u00741"`},
		"payload space":    {`{"a":[1`, `{"a": [1`},
		"payload order":    {`"b":{"c":1.5}`, `"A":{"c":1.5}`},
		"payload number":   {`1.5`, `1.50`},
		"visibility":       {`internal`, `loud`},
		"version zero":     {`"v":1`, `"v":0`},
		"trailing bytes":   {`"visibility":"internal"}`, `"visibility":"internal"} `},
		"cut":              {`"visibility":"internal"}`, `"visibility":"internal"`},
		"wrong type":       {`"seq":7`, `"seq":"7"`},
		"bad UTF-8":        {"ß", "\xff"},
	} {
		changed := strings.Replace(text, change[0], change[1], 1)
		if changed == text {
			t.Fatalf("%s: nothing changed", name)
		}
		r, err := Decode([]byte(changed))
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", name, err)
		}
		if string(r.Raw()) != changed {
			t.Errorf("%s: raw bytes are lost", name)
		}
	}
	for _, raw := range []string{"", "null", "[]", "{}", "{", strings.Repeat(" ", MaxRaw+1)} {
		if _, err := Decode([]byte(raw)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%.20q: %v, want ErrCorrupt", raw, err)
		}
	}
}

// A rune of a later version is not damage: its bytes are kept for who knows it.
func TestLaterVersion(t *testing.T) {
	raw, err := Encode(full())
	if err != nil {
		t.Fatal(err)
	}
	for _, later := range []string{
		strings.Replace(string(raw), `"v":1`, `"v":2`, 1),
		`{"new":{},"v":900}`,
	} {
		r, err := Decode([]byte(later))
		if !errors.Is(err, ErrVersion) || errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v, want ErrVersion alone", later, err)
		}
		if string(r.Raw()) != later || r.V < 2 || r.Hash() == (Hash{}) {
			t.Errorf("%s: raw %s, version %d", later, r.Raw(), r.V)
		}
	}
}

// Every changed bit of a rune is refused by Decode or changes its hash.
func TestEveryFlippedBit(t *testing.T) {
	raw, err := Encode(full())
	if err != nil {
		t.Fatal(err)
	}
	original, err := Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		for bit := range 8 {
			damaged := bytes.Clone(raw)
			damaged[i] ^= 1 << bit
			if r, err := Decode(damaged); err == nil && r.Hash() == original.Hash() {
				t.Fatalf("byte %d, bit %d went unnoticed", i, bit)
			}
		}
	}
}

// AppendMeta writes what the struct tags say; a field it forgets shows here.
func TestAppendMeta(t *testing.T) {
	var filled Meta
	v := reflect.ValueOf(&filled).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString(fmt.Sprintf("field \"%d\" ä\n", i))
		case reflect.Int64:
			f.SetInt(int64(-i))
		case reflect.Uint64:
			f.SetUint(uint64(i))
		case reflect.Float64:
			f.SetFloat(float64(i) / 7)
		case reflect.Bool:
			f.SetBool(true)
		default:
			t.Fatalf("field of kind %s", f.Kind())
		}
	}
	for _, meta := range []Meta{filled, {}, {CostUSD: 1e-9}} {
		got, err := AppendMeta(nil, &meta)
		if err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(meta)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if _, err := AppendMeta(nil, &Meta{Title: "\xff"}); !errors.Is(err, ErrInvalid) {
		t.Errorf("bad text: %v", err)
	}
}

// FuzzDecode: whatever Decode accepts, Encode writes again byte for byte.
func FuzzDecode(f *testing.F) {
	raw, err := Encode(full())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte(`{"v":2}`))
	f.Add([]byte(strings.Replace(string(raw), "idle", "id\xffle", 1)))
	for in := range canonicalCases {
		f.Add([]byte(strings.Replace(string(raw), `{"a":[1,-2,true,null,"x"],"b":{"c":1.5}}`, in, 1)))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := Decode(bytes.Clone(raw))
		if !bytes.Equal(r.Raw(), raw) {
			t.Fatal("raw bytes are lost")
		}
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		again, err := Encode(r)
		if err != nil || !bytes.Equal(again, raw) {
			t.Fatalf("%q became %q, %v", raw, again, err)
		}
	})
}

// FuzzCanonicalize: the quick ways never disagree with jsontext.
func FuzzCanonicalize(f *testing.F) {
	for in, out := range canonicalCases {
		f.Add([]byte(in))
		f.Add([]byte(out))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		slow := jsontext.Value(bytes.Clone(in))
		slowErr := slow.Canonicalize(jsontext.CanonicalizeRawInts(false))
		if end, ok := skipCanonical(in, 0, 0); ok && end == len(in) && (slowErr != nil || !bytes.Equal(slow, in)) {
			t.Fatalf("%q passes the quick check, jsontext says %q, %v", in, slow, slowErr)
		}
		before := bytes.Clone(in)
		got, err := Canonicalize(in)
		if (err == nil) != (slowErr == nil) || err == nil && !bytes.Equal(got, slow) {
			t.Fatalf("%q becomes %q, %v; jsontext says %q, %v", in, got, err, slow, slowErr)
		}
		if !bytes.Equal(in, before) {
			t.Fatalf("%q was changed to %q", before, in)
		}
	})
}

// Every byte is found at every place, and none is found too early.
func TestSkipPlain(t *testing.T) {
	special := func(c byte) bool { return c < ' ' || c == '"' || c == '\\' || c >= 0x80 }
	for n := range 20 {
		for at := range n {
			for c := range 256 {
				b := bytes.Repeat([]byte("~"), n)
				b[at] = byte(c)
				want := n
				if special(byte(c)) {
					want = at
					for k := at + 1; k < n; k++ {
						b[k] = byte(c*k + k) // whatever comes behind it
					}
				}
				if got := skipPlain(b, 0); got != want {
					t.Fatalf("%q: %d, want %d", b, got, want)
				}
			}
		}
	}
}
