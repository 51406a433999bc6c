package wire

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// requests are conversations of two messages and a tool, in every dialect; %s
// is where they differ.
var requests = map[string]string{
	"/v1/messages":                           `{"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","content":%s}],"tools":[{"name":"t","input_schema":{}}]}`,
	"/v1/chat/completions":                   `{"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","content":%s}],"tools":[{"function":{"name":"t"}}]}`,
	"/v1/responses":                          `{"model":"m","input":[{"role":"user","content":"a"},{"role":"assistant","content":%s}],"tools":[{"name":"t"}]}`,
	"/v1beta/models/m:streamGenerateContent": `{"contents":[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"text":%s}]}],"tools":[{"functionDeclarations":[{"name":"t"}]}]}`,
}

// A request is read alike by who has read its pieces before and by who has not,
// and a bad one is refused by both.
func TestKnown(t *testing.T) {
	for path, request := range requests {
		r := httptest.NewRequest(http.MethodPost, path, nil)
		var used known
		for _, said := range []string{`"b"`, `"b"`, `"c"`, `"\u00e9\n"`, `"b"`} {
			body := fmt.Appendf(nil, request, said)
			got, err := dialectOf(path, &used).read(r, body)
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			want, err := dialectOf(path, &known{}).read(r, body)
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(call{})); diff != "" || len(got.request.Messages) != 2 || len(got.request.Tools) != 1 {
				t.Errorf("%s with %s (-new +used):\n%s", path, said, diff)
			}
		}
		for _, said := range []string{``, `7`, `"b"}`, `"b`} {
			if _, err := dialectOf(path, &used).read(r, fmt.Appendf(nil, request, said)); err == nil {
				t.Errorf("%s with %s was understood", path, said)
			}
		}
	}
}

// A memo does not grow without end.
func TestMemoLimit(t *testing.T) {
	var m memo[string]
	long := strings.Repeat("x", 1<<20)
	for i := range 40 {
		if _, err := m.read(fmt.Appendf(nil, `"%s%d"`, long, i)); err != nil {
			t.Fatal(err)
		}
	}
	if m.bytes > maxKnownBytes || len(m.seen) > maxKnownBytes>>20 {
		t.Errorf("%d texts of %d bytes are remembered", len(m.seen), m.bytes)
	}
}
