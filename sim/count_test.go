package sim

import "testing"

func TestCount(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"0": 0, "4096": 4096, "4k": 4000, "4K": 4096, "25.6k": 25600, "2m": 2_000_000, "1M": 1 << 20, "-1": -1} {
		var c count
		if err := c.Set(text); err != nil || int(c) != want {
			t.Errorf("%q: %d, %v; want %d", text, c, err, want)
		}
	}
	for _, text := range []string{"", "k", "K", "4.5K", "90%", "1e400k", "9t", "9999999T", "NaNk", "4 k"} {
		var c count
		if err := c.Set(text); err == nil {
			t.Errorf("%q: %d, want an error", text, c)
		}
	}
}
