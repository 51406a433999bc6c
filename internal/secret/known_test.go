package secret

import (
	"strings"
	"testing"
)

// The samples are put together here so that no scanner takes them for keys.
var (
	keyLetters = "Ab3dEf6hIj9lMn2pQr5tUv8xYz1Bc4eFg7Ij"
	pemLine    = strings.Repeat("MIIEvQIBADANBgkqhkiG", 3) + "9w0B"
	pemText    = "-----BEGIN " + "RSA PRIVATE KEY-----\n" + pemLine + "\n" + pemLine + "==\n-----END RSA " + "PRIVATE KEY-----"

	knownSamples = []string{
		"sk-" + keyLetters,
		"sk-ant-api03-" + keyLetters + "-" + keyLetters + "AA",
		"sk-or-v1-" + strings.Repeat("0a1b2c3d", 8),
		"AIza" + keyLetters[:35],
		"ghp_" + keyLetters,
		"github_pat_" + keyLetters + "_" + keyLetters,
		"AKIA" + strings.ToUpper(keyLetters[:16]),
		"xoxb-" + "1234567890-1234567890-" + keyLetters[:24],
		pemText,
		strings.ReplaceAll(pemText, "\n", `\n`),
	}
)

// TestKnown shows that well-known keys are hidden only when asked for, whatever
// surrounds them.
func TestKnown(t *testing.T) {
	s, off := &Set{Known: true}, &Set{}
	for _, key := range knownSamples {
		for _, around := range [][2]string{{"", ""}, {"key=", "\n"}, {`"`, `"`}, {" ", " and more"}, {"(", ")."}} {
			text := around[0] + key + around[1]
			if got, want := s.Redact(text), around[0]+Mark+around[1]; got != want {
				t.Errorf("%q became %q, want %q", text, got, want)
			}
			if off.Redact(text) != text || off.Contains(text) {
				t.Errorf("%q was hidden though nobody asked", text)
			}
			for size := 1; size < 30; size += 7 {
				checkChunks(t, s, text, func() int { return size })
			}
		}
	}
	if got := s.Redact("log: " + pemText[:len(pemText)/2]); got != "log: "+Mark {
		t.Errorf("a key that was cut off became %q", got)
	}
}

// TestNotKnown shows what looks a little like a key and is none.
func TestNotKnown(t *testing.T) {
	s := &Set{Known: true}
	for _, text := range []string{
		"sk-learn-and-other-names-joined-by-hyphens-2",
		"task-" + keyLetters,
		"risk-0123456789012345678901234567890",
		"sk-short1",
		"sk-" + strings.Repeat("a1", 200), // longer than any key
		"AIza is how they begin, AIza" + keyLetters[:20],
		"AIza" + keyLetters + keyLetters,
		"AKIAIOSFODNN",
		"AKIA" + strings.ToUpper(keyLetters[:16]) + "lower",
		"xAKIA" + strings.ToUpper(keyLetters[:16]),
		"ghp_example",
		"xoxb-your-token-goes-here-please",
		"-----BEGIN " + "PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
		"-----BEGIN " + "PRIVATE KEY----- is the first line of such a file, and it goes on for quite some time after it",
		"-----BEGIN " + "PUBLIC KEY-----\n" + pemLine + "\n-----END PUBLIC KEY-----",
		"-----BEGIN CERTIFICATE-----\n" + pemLine,
		strings.Repeat("-", 100),
	} {
		if got := s.Redact(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
		checkChunks(t, s, text, func() int { return 3 })
	}
}

// TestKnownHoldsLittle shows that a stream does not wait for ever for the end of
// a key.
func TestKnownHoldsLittle(t *testing.T) {
	st := (&Set{Known: true}).Stream()
	st.Write("-----BEGIN " + "PRIVATE KEY-----\n")
	for range 400 {
		st.Write(pemLine + "\n")
		if len(st.held) > maxPEM {
			t.Fatalf("holds %d bytes", len(st.held))
		}
	}
}
