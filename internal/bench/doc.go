// Package bench measures the whole program against bare ones that do the same
// work and nothing else, in one run, so that ratios hold on any machine.
package bench
