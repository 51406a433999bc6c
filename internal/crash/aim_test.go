package crash

import (
	"path/filepath"
	"strings"
	"time"

	"stave/internal/runelog"
)

// Reaches of the random moments.
const (
	startReach = 80 * time.Millisecond  // a process starts and opens its store
	wholeReach = 900 * time.Millisecond // a conversation runs
	runeReach  = 10 * time.Millisecond  // behind a rune
)

// watched are runes right behind which it is worth to kill, more often than
// chance would.
var watched = []string{
	"session.created", "turn.retried", "tool.approved", "tool.progress", "tool.restarted", "session.recovered", "turn.completed", "session.unsuspended",
}

// aim chooses when the next process dies, or lets it live.
func (v *victim) aim() aim {
	if v.rng == nil || len(v.kills) >= maxKills {
		return never
	}
	a := aim{after: v.soon()}
	if v.rng.IntN(3) == 0 && (v.plan == nil || !v.plan.holds) {
		a.all = v.files
	}
	if v.hounded && v.log != "" {
		a.kind, a.runes = "session.", 1 // it recovers, gives up, or is set going again
		return a
	}
	switch v.rng.IntN(10) {
	case 0:
		a.after = time.Duration(v.rng.Int64N(int64(startReach)))
	case 1:
		a.heads, a.after = filepath.Join(v.data, "heads"), 0
	case 2, 3:
		a.kind, a.runes = v.watched[v.rng.IntN(len(v.watched))], 1
	case 4:
		a.after = time.Duration(v.rng.Int64N(int64(wholeReach)))
	case 5:
		return never
	default:
		a.runes = 1 + v.rng.IntN(v.reach)
	}
	return a
}

// soon is a moment behind a rune: mostly right behind it.
func (v *victim) soon() time.Duration {
	x := v.rng.Float64()
	return time.Duration(x * x * x * float64(runeReach))
}

// seqOf returns the number of a rune that a process showed, 0 if it is none.
func seqOf(raw string) uint64 {
	r, err := runelog.Decode([]byte(strings.TrimSpace(raw)))
	if err != nil {
		return 0
	}
	return r.Seq
}
