package runelog

import (
	"fmt"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// AppendMeta appends m as JSON. Stores write the metadata with every batch, so
// this is done by hand; reading it back is ordinary JSON.
func AppendMeta(dst []byte, m *Meta) ([]byte, error) {
	if math.IsNaN(m.CostUSD) || math.IsInf(m.CostUSD, 0) {
		return nil, fmt.Errorf("%w: metadata cost %v", ErrInvalid, m.CostUSD)
	}
	w := writer{dst: dst}
	w.text(`{"log":`, m.Log)
	w.text(`,"kind":`, m.Kind)
	w.text(`,"state":`, m.State)
	w.text(`,"title":`, m.Title)
	w.raw(`,"created_ms":`)
	w.dst = strconv.AppendInt(w.dst, m.CreatedMs, 10)
	w.raw(`,"updated_ms":`)
	w.dst = strconv.AppendInt(w.dst, m.UpdatedMs, 10)
	if m.WaitsFor != "" {
		w.text(`,"waits_for":`, m.WaitsFor)
	}
	w.raw(`,"cost_usd":`)
	w.dst = jsontext.AppendFloat(w.dst, m.CostUSD, 64)
	w.number(`,"seq":`, m.Seq)
	if m.Sealed {
		w.raw(`,"sealed":true`)
	}
	if m.Archived {
		w.raw(`,"archived":true`)
	}
	w.raw(`}`)
	if w.bad != "" {
		return nil, fmt.Errorf("%w: metadata member %s is not UTF-8", ErrInvalid, w.bad)
	}
	return w.dst, nil
}
