//go:build race

package world

const raceDetector = true
