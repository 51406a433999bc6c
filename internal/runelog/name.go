package runelog

import "fmt"

// MaxName is the longest name of a log.
const MaxName = 128

// CheckName reports why name cannot name a log. Names are used as file names, so
// they hold letters, digits, '_', '-' and '.' only and do not start with a dot.
func CheckName(name string) error {
	if name == "" || len(name) > MaxName {
		return fmt.Errorf("%w: log name of %d bytes, want 1 to %d", ErrInvalid, len(name), MaxName)
	}
	for i := range len(name) {
		c := name[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (c < '0' || c > '9') && c != '_' && c != '-' && (c != '.' || i == 0) {
			return fmt.Errorf("%w: log name %q holds %q", ErrInvalid, name, c)
		}
	}
	return nil
}
