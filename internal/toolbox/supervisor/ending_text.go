package supervisor

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// The text of an ending is JSON, on the way to a client and on record. Most are
// nothing but numbers, and those are written and read by hand: somebody waits.

// endingNumbers stand before the numbers of a plain ending.
var endingNumbers = [...]string{`{"code":`, `,"output_bytes":`, `,"kept_bytes":`}

func (e Ending) plain() bool {
	return e.Signal == "" && !e.TimedOut && !e.Cancelled && !e.Orphans &&
		len(e.Tail) == 0 && e.KeepError == "" && e.Failure == ""
}

func (e Ending) text() []byte {
	if !e.plain() {
		return asJSON(e)
	}
	var b []byte
	for i, n := range []int64{int64(e.Code), e.OutputBytes, e.KeptBytes} {
		b = strconv.AppendInt(append(b, endingNumbers[i]...), n, 10)
	}
	return append(b, '}')
}

// readEnding reads any text of an ending.
func readEnding(text []byte) (e Ending, err error) {
	if n, plain := readNumbers(text); plain {
		return Ending{Code: int(n[0]), OutputBytes: n[1], KeptBytes: n[2]}, nil
	}
	err = json.Unmarshal(text, &e)
	return e, err
}

// readNumbers reads the text of a plain ending; it says no to all others.
func readNumbers(text []byte) (n [len(endingNumbers)]int64, plain bool) {
	for i, before := range endingNumbers {
		rest, found := bytes.CutPrefix(text, []byte(before))
		digits := rest[:len(rest)-len(bytes.TrimLeft(rest, "0123456789"))]
		var err error
		if n[i], err = strconv.ParseInt(string(digits), 10, 64); err != nil || !found {
			return n, false
		}
		text = rest[len(digits):]
	}
	return n, string(text) == "}"
}
