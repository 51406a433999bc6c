package sandbox

import "encoding/json"

// Limits bound what one command uses up, at every level. Zero leaves a limit as
// it is. If any is set, no core is dumped.
type Limits struct {
	// Processes is how many more there may be than run on the machine when the
	// command starts: the kernel counts those of the user together, so a plain
	// number would hit whoever runs a lot. It does not hold for root.
	Processes   uint64 `json:"processes,omitempty"`
	OpenFiles   uint64 `json:"open_files,omitempty"`   // of one process
	FileBytes   uint64 `json:"file_bytes,omitempty"`   // size of one file
	MemoryBytes uint64 `json:"memory_bytes,omitempty"` // private memory of one process
	CPUSeconds  uint64 `json:"cpu_seconds,omitempty"`  // of one process
}

// Rlimit is one limit as the kernel knows it, soft and hard alike.
type Rlimit struct {
	Resource int    `json:"resource"` // RLIMIT_…
	Value    uint64 `json:"value"`
}

// DefaultLimits stop what runs away and are far from what work needs. Memory is
// not among them: programs that map more than they use are common.
func DefaultLimits() Limits {
	return Limits{Processes: 4096, OpenFiles: 16384, FileBytes: 16 << 30}
}

// Within is the stricter of two limits, one by one.
func (l Limits) Within(other Limits) Limits {
	return Limits{
		Processes: stricter(l.Processes, other.Processes), OpenFiles: stricter(l.OpenFiles, other.OpenFiles),
		FileBytes: stricter(l.FileBytes, other.FileBytes), MemoryBytes: stricter(l.MemoryBytes, other.MemoryBytes),
		CPUSeconds: stricter(l.CPUSeconds, other.CPUSeconds),
	}
}

// Text writes limits down for Bound. Those of memory and time are left out: they
// are for a command, not for who watches over it.
func (l Limits) Text() string {
	l.MemoryBytes, l.CPUSeconds = 0, 0
	b, err := json.Marshal(l)
	if err != nil {
		return "{}"
	}
	return string(b)
}

// Over is these limits where they are set, and others where they are not.
func (l Limits) Over(usual Limits) Limits {
	return Limits{
		Processes: set(l.Processes, usual.Processes), OpenFiles: set(l.OpenFiles, usual.OpenFiles),
		FileBytes: set(l.FileBytes, usual.FileBytes), MemoryBytes: set(l.MemoryBytes, usual.MemoryBytes),
		CPUSeconds: set(l.CPUSeconds, usual.CPUSeconds),
	}
}

// Beyond is what these limits demand of one who has others already: nothing where
// they are the same.
func (l Limits) Beyond(had Limits) Limits {
	other := func(a, b uint64) uint64 {
		if a == b {
			return 0
		}
		return a
	}
	return Limits{
		Processes: other(l.Processes, had.Processes), OpenFiles: other(l.OpenFiles, had.OpenFiles), FileBytes: other(l.FileBytes, had.FileBytes),
		MemoryBytes: l.MemoryBytes, CPUSeconds: l.CPUSeconds, // which nobody hands on
	}
}

func stricter(a, b uint64) uint64 {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

func set(value, usual uint64) uint64 {
	if value == 0 {
		return usual
	}
	return value
}
