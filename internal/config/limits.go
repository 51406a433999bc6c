package config

import (
	"errors"
	"time"
)

// Limits bound what one command of an agent uses up. Zero is the usual.
type Limits struct {
	Processes int64         `yaml:"processes"` // more than run on the machine when it starts
	OpenFiles int64         `yaml:"open_files"`
	FileMB    int64         `yaml:"file_mb"`   // size of one file
	MemoryMB  int64         `yaml:"memory_mb"` // of one process; usually none
	CPU       time.Duration `yaml:"cpu"`       // of one process; usually none
}

// UsualLimits hold where a person sets none. A project may go below them as well.
var UsualLimits = Limits{Processes: 4096, OpenFiles: 16384, FileMB: 16 << 10}

func (l Limits) check() error {
	if min(l.Processes, l.OpenFiles, l.FileMB, l.MemoryMB, int64(l.CPU)) < 0 {
		return errors.New("limits: a limit is not below zero")
	}
	if l.CPU > 0 && l.CPU < time.Second {
		return errors.New("limits: cpu is at least 1s")
	}
	return nil
}

// OrUsual fills in what is not set.
func (l Limits) OrUsual() Limits {
	return Limits{
		Processes: first(l.Processes, UsualLimits.Processes), OpenFiles: first(l.OpenFiles, UsualLimits.OpenFiles),
		FileMB: first(l.FileMB, UsualLimits.FileMB), MemoryMB: first(l.MemoryMB, UsualLimits.MemoryMB), CPU: first(l.CPU, UsualLimits.CPU),
	}
}

// within is the stricter of what a person and a project set, one by one.
func (l Limits) within(p Limits) Limits {
	if p == (Limits{}) {
		return l
	}
	l = l.OrUsual()
	return Limits{
		Processes: stricter(l.Processes, p.Processes), OpenFiles: stricter(l.OpenFiles, p.OpenFiles),
		FileMB: stricter(l.FileMB, p.FileMB), MemoryMB: stricter(l.MemoryMB, p.MemoryMB), CPU: stricter(l.CPU, p.CPU),
	}
}

func first[N int64 | time.Duration](value, usual N) N {
	if value == 0 {
		return usual
	}
	return value
}

func stricter[N int64 | time.Duration](a, b N) N {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}
