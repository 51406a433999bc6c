package anthropic

import (
	"io"
	"net/http"
	"testing"
)

// Calls one after another share a connection, though an answer is complete
// before its body is: most of them at least, on a machine that has no time.
func TestConnectionIsKept(t *testing.T) {
	from, heard := map[string]bool{}, make(chan bool)
	s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		from[r.RemoteAddr] = true
		startStream(w)
		_, _ = io.WriteString(w, events(hello, text0, stop0, ended, bye))
		w.(http.Flusher).Flush() //nolint:forcetypeassert // every server's can
		<-heard
	})
	p := s.provider()
	const calls = 10
	for range calls {
		for ev, err := range p.Stream(t.Context(), question()) {
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
}
