package catalog

import (
	"math"
	"math/bits"

	"stave/internal/model"
)

const million = 1_000_000

// Cost is what a call cost, in micro-dollars, rounded up once. Counts below
// zero count as zero, and what says it came from a cache is believed up to the
// size of the input.
func (i Info) Cost(u model.Usage) int64 {
	input := max(u.InputTokens, 0)
	read := min(max(u.CachedTokens, 0), input)
	written := min(max(u.CacheWriteTokens, 0), input-read)
	p := i.Prices
	if i.LongOver > 0 && input > i.LongOver {
		p = i.Long
	}
	var s sum
	s.add(input-read-written, p.Input)
	s.add(read, p.CacheRead)
	s.add(written, p.CacheWrite)
	s.add(u.OutputTokens, p.Output)
	return s.micro()
}

// WorstCase is the most a call can cost, in micro-dollars, whose prompt has at
// most so many tokens and whose answer is at most so long. An answer without a
// limit of its own, 0, is as long as the model can make it.
func (i Info) WorstCase(inputTokens, maxOutput int64) int64 {
	if maxOutput <= 0 {
		maxOutput = i.MaxOutput
	}
	p := i.Prices
	input, output := max(p.Input, p.CacheRead, p.CacheWrite), p.Output
	if i.LongOver > 0 && inputTokens > i.LongOver {
		input = max(input, i.Long.Input, i.Long.CacheRead, i.Long.CacheWrite)
		output = max(output, i.Long.Output)
	}
	var s sum
	s.add(inputTokens, input)
	s.add(maxOutput, output)
	return s.micro()
}

// sum adds tokens times prices in 128 bits, so that no count overflows it.
type sum struct{ high, low uint64 }

func (s *sum) add(tokens, price int64) {
	high, low := bits.Mul64(uint64(max(tokens, 0)), uint64(max(price, 0)))
	var carry uint64
	s.low, carry = bits.Add64(s.low, low, 0)
	s.high, _ = bits.Add64(s.high, high, carry)
}

// micro divides by the million that prices are for and rounds up.
func (s *sum) micro() int64 {
	if s.high >= million {
		return math.MaxInt64
	}
	q, rest := bits.Div64(s.high, s.low, million)
	if rest > 0 {
		q++
	}
	return int64(min(q, math.MaxInt64))
}
