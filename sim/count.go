package sim

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A count is an integer as vLLM's human_readable_int reads it: 1k, 2m, 3g and
// 4t are decimal and may have a fraction, 1K, 2M, 3G and 4T are binary.
type count int

func (c *count) String() string { return strconv.Itoa(int(*c)) }

func (c *count) Set(text string) error {
	if n, err := strconv.Atoi(text); err == nil {
		*c = count(n)
		return nil
	}
	wrong := fmt.Errorf("invalid human_readable_int value: %q", text)
	if text == "" {
		return wrong
	}
	number, unit := text[:len(text)-1], text[len(text)-1:]
	if i := strings.Index("kmgt", unit); i >= 0 {
		v, err := strconv.ParseFloat(number, 64)
		v *= math.Pow10(3 * (i + 1))
		if err != nil || !(math.Abs(v) <= math.MaxInt32) {
			return wrong
		}
		*c = count(v)
		return nil
	}
	if i := strings.Index("KMGT", unit); i >= 0 {
		n, err := strconv.ParseInt(number, 10, 32)
		if v := n << (10 * (i + 1)); err == nil && v>>(10*(i+1)) == n && v <= math.MaxInt32 {
			*c = count(v)
			return nil
		}
	}
	return wrong
}
