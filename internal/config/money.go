package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

const (
	microDigits = 6
	maxDollars  = 1_000_000_000
)

// MicroUSD reads an amount of dollars exactly, in millionths. The empty text is 0.
func MicroUSD(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	whole, part, _ := strings.Cut(text, ".")
	if len(part) > microDigits {
		return 0, fmt.Errorf("%s: a millionth of a dollar is the smallest part", text)
	}
	digits := part + strings.Repeat("0", microDigits-len(part))
	dollars, err1 := strconv.ParseUint(whole, 10, 63)
	micros, err2 := strconv.ParseUint(digits, 10, 63)
	if err1 != nil || err2 != nil || strings.HasPrefix(whole, "+") {
		return 0, fmt.Errorf("%s: write dollars as 1.50", text)
	}
	if dollars > maxDollars {
		return 0, errors.New("that is more money than there is")
	}
	return int64(dollars)*1_000_000 + int64(micros), nil
}

// USD writes millionths of a dollar as people read them.
func USD(micro int64) string {
	const cents = 10_000
	if micro%cents == 0 {
		return fmt.Sprintf("$%d.%02d", micro/1_000_000, micro%1_000_000/cents)
	}
	return "$" + strings.TrimRight(fmt.Sprintf("%d.%06d", micro/1_000_000, micro%1_000_000), "0")
}
