package supervisor

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestEndingText shows that the text of an ending is its JSON, whichever way it is
// written and read, and that nothing which is no ending is taken for a plain one.
func TestEndingText(t *testing.T) {
	for _, e := range []Ending{
		{},
		{Code: 3, OutputBytes: 12, KeptBytes: 11},
		{Code: 255, OutputBytes: math.MaxInt64, KeptBytes: MaxKept},
		{Code: -1, OutputBytes: 1, KeptBytes: 1},
		{Code: 137, Signal: "SIGKILL"},
		{TimedOut: true},
		{Cancelled: true, OutputBytes: 1},
		{Orphans: true},
		{Tail: []byte("end"), OutputBytes: 9},
		{KeepError: "full"},
		{Failure: "no such program"},
	} {
		text, want := e.text(), asJSON(e)
		if string(text) != string(want) {
			t.Errorf("%+v is written as %s, want %s", e, text, want)
		}
		if got, err := readEnding(text); err != nil || !cmp.Equal(e, got) {
			t.Errorf("%s is read as %+v, %v", text, got, err)
		}
		if _, plain := readNumbers(text); plain != (e.plain() && e.Code >= 0) {
			t.Errorf("%s is read as plain: %v", text, plain)
		}
	}
	for _, text := range []string{
		``, `{`, `{"code":`, `{"code":1`, `{"code":1}`, `{"code":,"output_bytes":1,"kept_bytes":1}`,
		`{"code":1,"output_bytes":2,"kept_bytes":3`, `{"code":1,"output_bytes":2,"kept_bytes":3}}`,
		`{"code":1,"output_bytes":2,"kept_bytes":3,"orphans":true}`, `{"code":1,"output_bytes":99999999999999999999,"kept_bytes":3}`,
	} {
		if n, plain := readNumbers([]byte(text)); plain {
			t.Errorf("%q is read as %v", text, n)
		}
		var e Ending
		if _, err := readEnding([]byte(text)); (err == nil) != (json.Unmarshal([]byte(text), &e) == nil) {
			t.Errorf("%q: error %v", text, err)
		}
	}
}
