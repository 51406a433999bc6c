//go:build !race

package engine_test

// crowd is how many agents spend from one budget.
const crowd = 1000
