package openai_test

import (
	"io"
	"net/http"
	"testing"

	"stave/internal/model/openai"
)

// Calls one after another share a connection, though an answer is complete
// before its body is: most of them at least, on a machine that has no time.
func TestConnectionIsKept(t *testing.T) {
	eachDialect(t, func(t *testing.T, d dialect) {
		from, heard := map[string]bool{}, make(chan bool)
		p := d.newProvider(openai.Options{BaseURL: serve(t, func(w http.ResponseWriter, r *http.Request) {
			from[r.RemoteAddr] = true
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, d.complete)
			w.(http.Flusher).Flush() //nolint:forcetypeassert // every server's can
			<-heard
		})})
		const calls = 10
		for range calls {
			for ev, err := range p.Stream(t.Context(), simpleRequest()) {
				if err != nil {
					t.Fatal(err)
				}
				if ev.Done != "" {
					heard <- true
				}
			}
		}
		if len(from) > calls/2 {
			t.Errorf("%d calls made %d connections", calls, len(from))
		}
	})
}
