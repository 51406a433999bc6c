package memory_test

import (
	"testing"

	"stave/internal/conformance"
	"stave/internal/runelog"
	"stave/internal/runelog/memory"
)

func TestConformance(t *testing.T) {
	conformance.Log(t, func(*testing.T) runelog.Log { return memory.New() }, conformance.LogHooks{})
}
