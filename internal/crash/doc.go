// Package crash holds the tests that kill the real program, fill its disk and
// count what is left: nothing it showed is lost, nothing it did is done twice.
package crash
