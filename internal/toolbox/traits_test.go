package toolbox

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTraits pins what the gate is told about each tool. A trait that is lost
// lets data out unasked.
func TestTraits(t *testing.T) {
	for _, c := range []struct {
		tool  Tool
		want  []string
		files bool
	}{
		{Read(), []string{"private"}, false},
		{Glob(), []string{"private"}, false},
		{Grep(), []string{"private"}, false},
		{Edit(), []string{"private"}, true},
		{MultiEdit(), []string{"private"}, true},
		{Memory("", nil), []string{"private"}, false},
		{Fetch(), []string{"untrusted", "external"}, false},
		{Write(), nil, true},
		{Todo(), nil, false},
	} {
		if diff := cmp.Diff(c.want, c.tool.Traits); diff != "" {
			t.Errorf("%s: %s", c.tool.Name, diff)
		}
		if c.tool.Workspace != c.files {
			t.Errorf("%s changes files: %v, want %v", c.tool.Name, c.tool.Workspace, c.files)
		}
	}
}
