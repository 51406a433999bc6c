package supervisor

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// FuzzSpec shows that a command arrives as it was sent, that one that breaks off or
// goes on is refused, and that no bytes break the reader.
func FuzzSpec(f *testing.F) {
	f.Add([]byte{0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, "id", "a", int64(1))
	f.Add([]byte{}, "", "", int64(0))
	f.Fuzz(func(t *testing.T, noise []byte, one, other string, when int64) {
		if s, err := readSpec(noise); err == nil && len(s.Env) > len(noise) {
			t.Errorf("%d variables out of %d bytes", len(s.Env), len(noise))
		}
		sent := Spec{
			ID: one, Argv: []string{one, "", other}, Dir: other, Env: []string{one + "=" + other}, Session: when%2 == 0,
			Hold: []string{other}, Wrapped: when%3 == 0, Inner: []string{one}, Collect: []string{other, one},
		}
		if when != 0 {
			sent.Deadline = time.Unix(0, when)
			sent.Files = []File{{Path: one + "/"}, {Data: []byte(other + "\n")}}
			sent.Walls = []byte(one + "{}")
		}
		body := sent.append(nil)
		got, err := readSpec(body)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(sent, got); diff != "" {
			t.Error(diff)
		}
		if len(body) < 1<<10 {
			for n := range body {
				if _, err := readSpec(body[:n]); err == nil {
					t.Errorf("%d bytes of %d were taken for all", n, len(body))
				}
			}
		}
		if _, err := readSpec(append(body, 0)); err == nil {
			t.Error("a byte too many was taken")
		}
	})
}
