package policy

import (
	"iter"

	"stave/internal/machine/tool"
)

// Past is a call of an earlier day with what the gate knew and said then.
type Past struct {
	Posture Posture
	Call    tool.Call
	Verdict tool.Verdict
}

// Comparison is one call under the rules of then and of now.
type Comparison struct {
	Call     tool.Call    `json:"call"`
	Old      tool.Verdict `json:"old"`
	New      tool.Verdict `json:"new"`
	Differs  bool         `json:"differs"`  // the answer is another one
	Loosened bool         `json:"loosened"` // it lets more happen than before
}

// Replay asks other rules about calls of the past, one after another. Nothing
// else of the posture changes.
func Replay(rules Rules, past iter.Seq[Past]) iter.Seq[Comparison] {
	return func(yield func(Comparison) bool) {
		for p := range past {
			p.Posture.Rules = rules
			now := Judge(p.Posture, p.Call)
			if !yield(Comparison{
				Call: p.Call, Old: p.Verdict, New: now,
				Differs: now.Answer != p.Verdict.Answer, Loosened: rank(now.Answer) < rank(p.Verdict.Answer),
			}) {
				return
			}
		}
	}
}

// rank orders answers by how much they hold back; what is no answer holds back all.
func rank(a tool.Answer) int {
	switch a {
	case tool.Allow:
		return 0
	case tool.Ask:
		return 1
	}
	return 2
}
