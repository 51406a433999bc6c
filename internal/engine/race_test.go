//go:build race

package engine_test

// crowd is how many agents spend from one budget; the race detector makes each
// ten times as expensive.
const crowd = 60
