package secret

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"testing"
)

func setOf(values ...string) *Set {
	s := &Set{}
	for _, v := range values {
		s.Add(v)
	}
	return s
}

// TestRedact pins what the text around a secret looks like afterwards.
func TestRedact(t *testing.T) {
	s := setOf("hunter2hunter2", "correct horse", "short", "horse battery", "  padded-value\n", "redacted")
	for text, want := range map[string]string{
		"":                            "",
		"nothing here":                "nothing here",
		"hunter2hunter2":              "[redacted]",
		"a hunter2hunter2 b":          "a [redacted] b",
		"hunter2hunter2hunter2":       "[redacted]",
		"correct horse battery now":   "[redacted] now",
		"hunter2hunter2correct horse": "[redacted][redacted]",
		"short is too short":          "short is too short",
		"hunter2hunter":               "hunter2hunter",
		"=padded-value=":              "=[redacted]=",
		"a redacted word":             "a redacted word",
	} {
		if got := s.Redact(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
		if got := s.Contains(text); got != (text != want) {
			t.Errorf("Contains(%q) = %t", text, got)
		}
	}
}

// encoded lists ways a value may be written, made by other means than the code
// under test.
func encoded(t testing.TB, value string) map[string]string {
	t.Helper()
	list := map[string]string{
		"raw":         value,
		"hex":         hex.EncodeToString([]byte(value)),
		"HEX":         strings.ToUpper(hex.EncodeToString([]byte(value))),
		"query":       url.QueryEscape(value),
		"path":        url.PathEscape(value),
		"query lower": strings.ToLower(url.QueryEscape(strings.ToLower(value))),
	}
	if value != strings.ToLower(value) {
		delete(list, "query lower")
	}
	for before := range 3 {
		for after := range 3 {
			whole := []byte("xyz"[:before] + value + "uvw"[:after])
			for name, enc := range map[string]*base64.Encoding{
				"std": base64.StdEncoding, "raw std": base64.RawStdEncoding, "url": base64.URLEncoding, "raw url": base64.RawURLEncoding,
			} {
				list[fmt.Sprint(name, " base64 ", before, after)] = enc.EncodeToString(whole)
			}
		}
	}
	once, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	twice, err := json.Marshal(string(once))
	if err != nil {
		t.Fatal(err)
	}
	list["json"], list["json in json"] = string(once), string(twice)
	return list
}

// TestEncodings shows that a value is found in every form, and that hardly a
// letter of it is left.
func TestEncodings(t *testing.T) {
	for _, value := range []string{
		"abcdefgh", "abcdefghi", "abcdefghij", "p4ss w&rd/<with>+\"every\\thing\"\n=é😀~", "sk-\x00\x01\x7f-key",
		strings.Repeat("0123456789", 1000),
	} {
		s := setOf(value)
		for form, text := range encoded(t, value) {
			got := s.Redact(text)
			if !strings.Contains(got, Mark) || !s.Contains(text) {
				t.Errorf("%.40q as %s passes: %.80q", value, form, got)
			}
			// In base64 a neighbour shares a letter on each side, and where a long
			// value is cut into parts, a few are left between them.
			parts := strings.Count(got, Mark)
			if left := len(got) - parts*len(Mark); left > 12*parts {
				t.Errorf("%.40q as %s leaves %d letters: %.80q", value, form, left, got)
			}
		}
	}
	s := setOf(`a/b"c/déé`)
	for _, text := range []string{`a\/b\"c\/déé`, `a/b\"c/d\u00e9\u00e9`, `a/b\"c/d\u00E9\u00E9`, "a%2fb%22c%2fd%c3%a9%c3%a9", "%61%2F%62%22%63%2F%64%C3%A9%C3%A9"} {
		if got := s.Redact(text); got != Mark {
			t.Errorf("%s became %s", text, got)
		}
	}
}

// TestInvalidText shows that a value that is no text does not hide what JSON puts
// in its place.
func TestInvalidText(t *testing.T) {
	s := setOf("\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8")
	text := strings.Repeat(`\ufffd`, 20)
	if got := s.Redact(text); got != text {
		t.Errorf("became %s", got)
	}
	if got := s.Redact("-\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8-"); got != "-[redacted]-" {
		t.Errorf("became %q", got)
	}
}

// TestStreamHoldsLittle shows that only what may begin a secret is held back,
// and only as long as it may.
func TestStreamHoldsLittle(t *testing.T) {
	st := setOf("hunter2hunter2").Stream()
	for _, step := range [][2]string{
		{"hello ", "hello "},
		{"hun", ""},
		{"ger ", "hunger "},
		{"say hunter2", "say "},
		{"hunter", ""},
		{"2, ok", "[redacted], ok"},
		{" hunter2hunter2", " [redacted]"},
		{"hunter2", ""}, // it may go on under the same mark
		{"!", "!"},
		{" hunter", " "},
	} {
		if got := st.Write(step[0]); got != step[1] {
			t.Errorf("%q gave %q, want %q", step[0], got, step[1])
		}
	}
	if got := st.Close(); got != "hunter" {
		t.Errorf("the rest is %q", got)
	}
	if got := st.Write("ter2hunter2 "); got != "ter2hunter2 " {
		t.Errorf("after the end: %q", got)
	}
	st = setOf("aaaaaaaa").Stream()
	all := ""
	for range 10_000 {
		all += st.Write("aaa")
		if len(st.held) > 8 {
			t.Fatalf("holds %d bytes", len(st.held))
		}
	}
	if all += st.Close(); all != Mark {
		t.Errorf("became %q", all)
	}
}

// TestAnyChunking shows that a stream gives what Redact gives, however the text
// is cut, and that a value added in the middle counts.
func TestAnyChunking(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 600 {
		letters := "ab"
		if rng.IntN(2) == 0 {
			letters = "abAIzask-_ghp0123=/+%\\\"-\n"
		}
		word := func(n int) string {
			b := make([]byte, n)
			for i := range b {
				b[i] = letters[rng.IntN(len(letters))]
			}
			return string(b)
		}
		s := &Set{Known: rng.IntN(2) == 0}
		var values []string
		for range 1 + rng.IntN(3) {
			values = append(values, word(8+rng.IntN(6)))
			s.Add(values[len(values)-1])
		}
		text := ""
		for range rng.IntN(12) {
			text += word(rng.IntN(20))
			forms := encodings(values[rng.IntN(len(values))])
			text += forms[rng.IntN(len(forms))]
			if rng.IntN(4) == 0 {
				text += knownSamples[rng.IntN(len(knownSamples))]
			}
		}
		checkChunks(t, s, text, func() int { return 1 + rng.IntN(9) })
	}
	s := setOf("aaaabbbb")
	st := s.Stream()
	got := st.Write("ccccddd aaaa")
	s.Add("aaaaeeee")
	if got += st.Write("eeee") + st.Close(); got != "ccccddd [redacted]" {
		t.Errorf("became %q", got)
	}
}

func checkChunks(t *testing.T, s *Set, text string, size func() int) {
	t.Helper()
	want := s.Redact(text)
	st, got := s.Stream(), ""
	for rest := text; rest != ""; {
		n := min(size(), len(rest))
		got += st.Write(rest[:n])
		rest = rest[n:]
	}
	if got += st.Close(); got != want {
		t.Fatalf("%q\nin pieces %q\nas a whole %q", text, got, want)
	}
	for _, p := range s.load().sorted {
		if !strings.ContainsAny(p, "[]") && strings.Contains(got, p) {
			t.Fatalf("%q survives in %q", p, got)
		}
	}
}

// FuzzSecret shows the same for what a fuzzer thinks of: no registered value and
// no form of it survives any chunking, and text without one stays as it is.
func FuzzSecret(f *testing.F) {
	f.Add("hunter2hunter2", "aaaaaaaab", "say hunter2hunter2 aaaaaaaaaaaaab", uint8(3), false)
	f.Add("p/ss w\"rd", "0123456789", "cC9zcyB3InJk p%2Fss+w%22rd 30313233343536373839", uint8(1), true)
	f.Add("abcdefgh", "efghabcd", "abcdefghabcdefgh -----BEGIN RSA PRIVATE KEY-----", uint8(7), true)
	f.Fuzz(func(t *testing.T, one, two, text string, size uint8, known bool) {
		s := setOf(one, two)
		s.Known = known
		forms := encodings(one)
		for _, text := range []string{text, one + text + two, text + forms[len(text)%len(forms)]} {
			checkChunks(t, s, text, func() int { return int(size) + 1 })
		}
		clean := true
		for _, p := range s.load().sorted {
			clean = clean && !strings.Contains(text, p)
		}
		if got := s.Redact(text); clean && !known && got != text {
			t.Fatalf("%q became %q", text, got)
		}
	})
}

// TestWhileAdding shows that values may be added while others look.
func TestWhileAdding(t *testing.T) {
	s := &Set{}
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			for n := range 12 {
				value := fmt.Sprintf("value-%d-%d", i, n)
				s.Add(value)
				if got := s.Redact("<" + value + ">"); got != "<[redacted]>" {
					t.Errorf("%s became %s", value, got)
				}
			}
		})
	}
	group.Wait()
}

func BenchmarkNoMatch(b *testing.B)      { benchmarkNoMatch(b, false) }
func BenchmarkNoMatchKnown(b *testing.B) { benchmarkNoMatch(b, true) }

func benchmarkNoMatch(b *testing.B, known bool) {
	s := setOf("sk-ant-0123456789abcdefghijklmnop", "hunter2hunter2", "ghp_ABCDEFGHIJKLMNOPQRSTUVWXYZ", "another secret value", "postgres://user:pass@host/db")
	s.Known = known
	text := strings.Repeat("The quick brown fox jumps over the lazy dog; func main() { fmt.Println(\"hello\") }\n", 50_000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if len(s.Redact(text)) != len(text) {
			b.Fatal("changed")
		}
	}
}

func BenchmarkBase64Text(b *testing.B) {
	s := setOf("sk-ant-0123456789abcdefghijklmnop", "hunter2hunter2", "ghp_ABCDEFGHIJKLMNOPQRSTUVWXYZ", "another secret value")
	raw := make([]byte, 3<<20)
	rng := rand.NewChaCha8([32]byte{})
	rng.Read(raw)
	text := base64.StdEncoding.EncodeToString(raw)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		s.Redact(text)
	}
}
