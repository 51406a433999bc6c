package catalog

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"stave/internal/model"
)

func TestCost(t *testing.T) {
	i := Info{
		Prices:   Prices{Input: 3_000_000, Output: 15_000_000, CacheRead: 300_000, CacheWrite: 3_750_000},
		LongOver: 1000, Long: Prices{Input: 6_000_000, Output: 22_500_000, CacheRead: 600_000, CacheWrite: 7_500_000},
		MaxOutput: 100,
	}
	for _, c := range []struct {
		usage model.Usage
		want  int64
	}{
		{model.Usage{}, 0},
		{model.Usage{InputTokens: 1000, OutputTokens: 10}, 3000 + 150},
		{model.Usage{InputTokens: 1, CachedTokens: 1}, 1}, // 0.3, rounded up
		{model.Usage{InputTokens: 100, CachedTokens: 50, CacheWriteTokens: 20, OutputTokens: 1, ReasoningTokens: 1}, 90 + 15 + 75 + 15},
		{model.Usage{InputTokens: 1001, OutputTokens: 2}, 6006 + 45},
		{model.Usage{InputTokens: 10, CachedTokens: 99, CacheWriteTokens: 99}, 3},
		{model.Usage{InputTokens: -5, OutputTokens: -5, CachedTokens: -5}, 0},
		{model.Usage{InputTokens: math.MaxInt64, OutputTokens: math.MaxInt64}, math.MaxInt64},
	} {
		if got := i.Cost(c.usage); got != c.want {
			t.Errorf("%+v costs %d, want %d", c.usage, got, c.want)
		}
	}
	if got := i.WorstCase(1000, 10); got != 3750+150 {
		t.Errorf("the worst case is %d", got)
	}
	if got := i.WorstCase(1001, 0); got != 7508+2250 {
		t.Errorf("the worst case of a long prompt and the longest answer is %d", got)
	}
}

func tokens(most int64) *rapid.Generator[int64] { return rapid.Int64Range(0, most) }

func infos(t *rapid.T) Info {
	prices := func() Prices {
		p := rapid.Int64Range(0, maxPrice)
		return Prices{p.Draw(t, "input"), p.Draw(t, "output"), p.Draw(t, "read"), p.Draw(t, "write")}
	}
	return Info{Prices: prices(), LongOver: tokens(1_000_000).Draw(t, "over"), Long: prices()}
}

// The cost is exact: what a calculation without any limit says, rounded up.
func TestCostIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		i := infos(t)
		u := model.Usage{InputTokens: tokens(model.MaxUsageTokens).Draw(t, "in"), OutputTokens: tokens(model.MaxUsageTokens).Draw(t, "out")}
		u.CachedTokens = tokens(u.InputTokens).Draw(t, "cached")
		u.CacheWriteTokens = tokens(u.InputTokens-u.CachedTokens).Draw(t, "written")
		p := i.Prices
		if i.LongOver > 0 && u.InputTokens > i.LongOver {
			p = i.Long
		}
		all := new(big.Int)
		for _, x := range [][2]int64{
			{u.InputTokens - u.CachedTokens - u.CacheWriteTokens, p.Input},
			{u.CachedTokens, p.CacheRead},
			{u.CacheWriteTokens, p.CacheWrite},
			{u.OutputTokens, p.Output},
		} {
			all.Add(all, new(big.Int).Mul(big.NewInt(x[0]), big.NewInt(x[1])))
		}
		all.Add(all, big.NewInt(million-1)).Div(all, big.NewInt(million))
		want := int64(math.MaxInt64)
		if all.IsInt64() {
			want = all.Int64()
		}
		if got := i.Cost(u); got != want {
			t.Fatalf("%+v costs %d, want %d", u, got, want)
		}
	})
}

// What is set aside for a call is never less than what the call costs.
func TestWorstCaseIsEnough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		i := infos(t)
		input, output := tokens(10_000_000).Draw(t, "input"), rapid.Int64Range(1, 1_000_000).Draw(t, "output")
		u := model.Usage{InputTokens: tokens(input).Draw(t, "in"), OutputTokens: tokens(output).Draw(t, "out")}
		u.CachedTokens = tokens(u.InputTokens).Draw(t, "cached")
		u.CacheWriteTokens = tokens(u.InputTokens-u.CachedTokens).Draw(t, "written")
		if worst, cost := i.WorstCase(input, output), i.Cost(u); cost > worst {
			t.Fatalf("%+v costs %d and the worst case is %d", u, cost, worst)
		}
	})
}
