package script

import (
	"fmt"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"stave/internal/model"
)

func (d *decoder) faults(n *yaml.Node) []fault {
	var all []fault
	d.each(n, "faults", MaxFaults, func(n *yaml.Node) { all = append(all, d.fault(n)) })
	return all
}

// faultNames are the fields that say what a fault is; it has exactly one.
var faultNames = []string{"error", "cut", "endless", "stall", "panic"}

func (d *decoder) fault(n *yaml.Node) fault {
	var (
		f          fault
		failure    model.Error
		retryable  *bool
		silent     bool
		retryAfter time.Duration
	)
	before := len(d.problems)
	seen := d.fields(n, "a fault", fields{
		"error":       func(n *yaml.Node) { f.kind, failure.Kind = fails, choice(d, n, errorKinds) },
		"cut":         func(n *yaml.Node) { f.kind, f.after = fails, d.number(n, 0, model.MaxResponseEvents) },
		"endless":     func(n *yaml.Node) { f.kind = endless; d.onlyTrue(n) },
		"stall":       func(n *yaml.Node) { f.kind = stalls; d.onlyTrue(n) },
		"panic":       func(n *yaml.Node) { f.kind, f.text = panics, d.someText(n) },
		"after":       func(n *yaml.Node) { f.after = d.number(n, 0, model.MaxResponseEvents) },
		"message":     func(n *yaml.Node) { failure.Message = d.someText(n) },
		"retryable":   func(n *yaml.Node) { retryable = new(d.flag(n)) },
		"retry_after": func(n *yaml.Node) { retryAfter = d.duration(n, MaxRetry) },
		"silent":      func(n *yaml.Node) { silent = d.flag(n) },
	})
	if len(d.problems) > before {
		return f
	}
	d.checkFault(n, seen)
	switch {
	case seen["cut"] && silent:
		f.kind = ends
	case seen["cut"]:
		f.err = &model.Error{Kind: model.ErrStream, Message: fmt.Sprintf("the stream was cut after %d events", f.after), Retryable: true}
	case seen["error"]:
		failure.RetryAfter = retryAfter
		failure.Retryable = failure.Kind.Transient()
		if retryable != nil {
			failure.Retryable = *retryable
		}
		if failure.Message == "" {
			failure.Message = "the script says so"
		}
		f.err = &failure
	}
	return f
}

// checkFault finds what is wrong between the fields of a fault.
func (d *decoder) checkFault(n *yaml.Node, seen map[string]bool) {
	var named []string
	for _, name := range faultNames {
		if seen[name] {
			named = append(named, name)
		}
	}
	if len(named) != 1 {
		d.fail(n, "a fault is exactly one of %s; this one has %d of them", strings.Join(faultNames, ", "), len(named))
		return
	}
	for _, name := range []string{"message", "retryable", "retry_after"} {
		if seen[name] && !seen["error"] {
			d.fail(n, "`%s` belongs to `error`, and this fault is `%s`; leave it out", name, named[0])
		}
	}
	if seen["after"] && seen["cut"] {
		d.fail(n, "`cut` already says after how many events; leave `after` out")
	}
	if seen["silent"] && !seen["cut"] {
		d.fail(n, "`silent` belongs to `cut`, and this fault is `%s`; leave it out", named[0])
	}
}

func (d *decoder) onlyTrue(n *yaml.Node) {
	before := len(d.problems)
	if !d.flag(n) && len(d.problems) == before {
		d.fail(n, "write true, or leave the fault out")
	}
}
