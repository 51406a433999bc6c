package model

import "math"

// Amount is what work costs, or what it may cost at most. In a limit, zero means
// that there is none.
type Amount struct {
	MicroUSD   int64 `json:"micro_usd,omitzero"`
	Tokens     int64 `json:"tokens,omitzero"` // in and out together
	ModelCalls int64 `json:"model_calls,omitzero"`
	ToolCalls  int64 `json:"tool_calls,omitzero"`
	Agents     int64 `json:"agents,omitzero"` // descendants
	WallMs     int64 `json:"wall_ms,omitzero"`
}

// fields lists an amount's parts with what people call them. The order is the
// one in which a shortage is reported.
func (a *Amount) fields() [6]struct {
	name  string
	value *int64
} {
	return [6]struct {
		name  string
		value *int64
	}{
		{"money", &a.MicroUSD},
		{"tokens", &a.Tokens},
		{"model calls", &a.ModelCalls},
		{"tool calls", &a.ToolCalls},
		{"agents", &a.Agents},
		{"wall time", &a.WallMs},
	}
}

// Plus adds two amounts.
func (a Amount) Plus(b Amount) Amount { return a.combine(b, 1) }

// Minus takes b from a; no part goes below zero.
func (a Amount) Minus(b Amount) Amount { return a.combine(b, -1) }

func (a Amount) combine(b Amount, sign int64) Amount {
	sum, add := a.fields(), b.fields()
	for i := range sum {
		have, more := *sum[i].value, sign*(*add[i].value)
		if more > 0 && have > math.MaxInt64-more {
			*sum[i].value = math.MaxInt64 // never so much that it looks like little
			continue
		}
		*sum[i].value = max(0, have+more)
	}
	return a
}

// Over names the first part of a that is more than the limit allows, "" if none.
func (a Amount) Over(limit Amount) string {
	have, most := a.fields(), limit.fields()
	for i := range have {
		if *most[i].value > 0 && *have[i].value > *most[i].value {
			return have[i].name
		}
	}
	return ""
}

// Left returns what a limit leaves after used: a part without a limit is 0, and
// one that is used up is -1, so that it cannot be taken for one without.
func (limit Amount) Left(used Amount) Amount {
	left, have := limit.fields(), used.fields()
	for i := range left {
		if *left[i].value > 0 {
			if *left[i].value -= *have[i].value; *left[i].value <= 0 {
				*left[i].value = -1
			}
		}
	}
	return limit
}

// Within returns the limit that holds both: the smaller where both have one.
func (limit Amount) Within(other Amount) Amount {
	mine, theirs := limit.fields(), other.fields()
	for i := range mine {
		if m, t := mine[i].value, *theirs[i].value; *m == 0 || t != 0 && t < *m {
			*m = t
		}
	}
	return limit
}
