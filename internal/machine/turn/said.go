package turn

import (
	"encoding/json"
	"strings"
)

// Said is what the model has said in the present attempt: a list that grows at
// its end without copying, because a turn is a value and deltas are many.
type Said struct {
	before *Said
	text   string
	size   int
}

func (s *Said) plus(text string) *Said {
	size := len(text)
	if s != nil {
		size += s.size
	}
	return &Said{s, text, size}
}

// String joins the fragments.
func (s *Said) String() string {
	if s == nil {
		return ""
	}
	parts := make([]string, 0, 16)
	for at := s; at != nil; at = at.before {
		parts = append(parts, at.text)
	}
	var b strings.Builder
	b.Grow(s.size)
	for i := len(parts) - 1; i >= 0; i-- {
		b.WriteString(parts[i])
	}
	return b.String()
}

// MarshalJSON writes the joined text.
func (s *Said) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// UnmarshalJSON reads the joined text.
func (s *Said) UnmarshalJSON(b []byte) error {
	*s = Said{}
	if err := json.Unmarshal(b, &s.text); err != nil {
		return err
	}
	s.size = len(s.text)
	return nil
}
