// Package house holds the tests that read the repository itself: who may import
// whom, how large a file may grow, and whether the documents still tell the truth.
package house
