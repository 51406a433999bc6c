package openai_test

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"stave/internal/model"
	"stave/internal/model/openai"
)

// cassette is traffic that was recorded once with a real service.
type cassette struct {
	Interactions []struct {
		Request struct {
			Body string `yaml:"body"`
			URL  string `yaml:"url"`
		} `yaml:"request"`
		Response struct {
			Body    string              `yaml:"body"`
			Headers map[string][]string `yaml:"headers"`
			Code    int                 `yaml:"code"`
		} `yaml:"response"`
	} `yaml:"interactions"`
}

// TestCassettes replays what real services answered: every recorded stream is
// complete, reports its usage, and its first answer calls the tool that was
// offered. The recordings are not part of this repository.
func TestCassettes(t *testing.T) {
	folder := os.Getenv("STAVE_CASSETTES")
	if folder == "" {
		folder = filepath.Join("..", "..", "..", "..", "shared", "cassettes")
	}
	files, _ := filepath.Glob(filepath.Join(folder, "OpenAI*streaming.yaml"))
	if len(files) == 0 {
		t.Log("there are no recordings here; STAVE_CASSETTES names the folder that has them")
		return
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			var c cassette
			if err := yaml.Unmarshal(data, &c); err != nil || len(c.Interactions) == 0 {
				t.Fatalf("found %d interactions: %v", len(c.Interactions), err)
			}
			for i, in := range c.Interactions {
				url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
					for name, values := range in.Response.Headers {
						w.Header()[name] = values
					}
					w.WriteHeader(in.Response.Code)
					_, _ = io.WriteString(w, in.Response.Body)
				})
				newProvider := openai.NewChat
				if strings.HasSuffix(in.Request.URL, "/responses") {
					newProvider = openai.NewResponses
				}
				r, err := attempt(t, newProvider(openai.Options{BaseURL: url}))
				if err != nil {
					t.Fatalf("answer %d: %v", i+1, err)
				}
				checkRecorded(t, r, in.Request.Body, i == len(c.Interactions)-1)
			}
		})
	}
}

func checkRecorded(t *testing.T, r model.Response, request string, last bool) {
	t.Helper()
	if !r.UsageReported || r.UsageClamped || r.Usage.InputTokens <= 0 || r.Usage.OutputTokens <= 0 {
		t.Errorf("the usage is %+v, reported %v", r.Usage, r.UsageReported)
	}
	if r.Repaired > 0 {
		t.Errorf("%d bytes were repaired", r.Repaired)
	}
	if last {
		if r.Stop != model.StopEnd || r.Text == "" || len(r.Calls) > 0 {
			t.Errorf("the last answer stops with %s, says %q and calls %v", r.Stop, r.Text, r.Calls)
		}
		return
	}
	if r.Stop != model.StopToolCalls || len(r.Calls) == 0 {
		t.Errorf("the answer stops with %s and %d calls", r.Stop, len(r.Calls))
	}
	for _, c := range r.Calls {
		if c.ID == "" || !strings.Contains(request, `"name":"`+c.Name+`"`) || !bytes.HasPrefix([]byte(c.Args), []byte("{")) {
			t.Errorf("the call %+v does not fit the request", c)
		}
	}
}
