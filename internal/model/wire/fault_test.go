package wire_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"stave/internal/model/wire"
)

const talkative = `replies: [{deltas: ["Some plain words first. ", "Grüße. ", "And an end."], usage: {input_tokens: 1, output_tokens: 1}}]`

// Every fault does what it says, in every dialect, asked for in any of the ways.
func TestFaults(t *testing.T) {
	url := serve(t, parse(t, talkative), wire.Options{})
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			whole, err := io.ReadAll(post(t, t.Context(), url+d.path, d.body).Body)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range []string{"0", "1", "100", "100000"} {
				got, err := io.ReadAll(post(t, t.Context(), url+d.path, d.body, wire.FaultHeader, "cut="+n).Body)
				if !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("cut=%s: got %v after %d bytes", n, err, len(got))
				}
				if n == "100" && len(got) != 100 || n == "100000" && len(got) < len(whole)*9/10 {
					t.Errorf("cut=%s: %d bytes came, of %d", n, len(got), len(whole))
				}
			}
			got, err := io.ReadAll(post(t, t.Context(), url+d.path+"?fault=midrune", d.body).Body)
			if last, _ := utf8.DecodeLastRune(got); !errors.Is(err, io.ErrUnexpectedEOF) || last != utf8.RuneError {
				t.Errorf("midrune: got %v after %q", err, got)
			}
			resp := post(t, t.Context(), url+d.path, d.body, wire.FaultHeader, "status=429,90s")
			if resp.StatusCode != 429 || resp.Header.Get("Retry-After") != "90" {
				t.Errorf("status: got %s and %v", resp.Status, resp.Header)
			}
			resp = post(t, t.Context(), url+d.path, d.body, wire.FaultHeader, "html")
			if page, _ := io.ReadAll(resp.Body); resp.StatusCode != 200 || !bytes.Contains(page, []byte("<html>")) {
				t.Errorf("html: got %s and %q", resp.Status, page)
			}
			got, err = io.ReadAll(post(t, t.Context(), url+d.path, d.body, wire.FaultHeader, "drip=1us").Body)
			if err != nil || len(got) < len(whole)*9/10 {
				t.Errorf("drip: got %v after %d bytes of %d", err, len(got), len(whole))
			}
		})
	}
}

// Faults without an end last until the client leaves, and not longer.
func TestFaultsWithoutEnd(t *testing.T) {
	url := serve(t, parse(t, talkative), wire.Options{})
	for _, d := range dialects {
		for fault, bytesWanted := range map[string]int{"endless": 32 << 10, "pings": 8 << 10, "stall=50": 50} {
			ctx, leave := context.WithCancel(t.Context())
			body := post(t, ctx, url+d.path, d.body, wire.FaultHeader, fault).Body
			if n, err := io.CopyN(io.Discard, body, int64(bytesWanted)); err != nil {
				t.Errorf("%s, %s: %v after %d bytes", d.name, fault, err, n)
			}
			leave()
			if _, err := io.Copy(io.Discard, body); !errors.Is(err, context.Canceled) {
				t.Errorf("%s, %s: got %v, want it to go on until the client leaves", d.name, fault, err)
			}
		}
	}
}

// Faults of the options can depend on the number of the request.
func TestFaultsByNumber(t *testing.T) {
	url := serve(t, parse(t, talkative), wire.Options{Fault: func(n int64, _ *http.Request) wire.Fault {
		if n%2 == 1 {
			return wire.Fault{Kind: wire.Status, N: 500}
		}
		return wire.Fault{}
	}})
	for i := range 6 {
		d := dialects[i%len(dialects)]
		want := 200 + 300*((i+1)%2)
		if got := post(t, t.Context(), url+d.path, d.body).StatusCode; got != want {
			t.Errorf("request %d: %d, want %d", i+1, got, want)
		}
	}
}

// What is no fault is refused, and the refusal says what there is.
func TestParseFault(t *testing.T) {
	for _, bad := range []string{
		"cut", "cut=x", "cut=-1", "stall", "drip=fast", "drip=-1s", "status", "status=200", "status=429,soon", "html=1", "burn",
	} {
		if f, err := wire.ParseFault(bad); err == nil {
			t.Errorf("%q became %+v", bad, f)
		}
	}
	url := serve(t, parse(t, talkative), wire.Options{})
	resp := post(t, t.Context(), url+dialects[0].path, dialects[0].body, wire.FaultHeader, "burn")
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode != 400 || !strings.Contains(string(text), "midrune") {
		t.Errorf("an unknown fault gets %s: %s", resp.Status, text)
	}
}
