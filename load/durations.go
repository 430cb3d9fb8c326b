package load

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A Durations counts durations in bounded memory, with three significant
// digits, from 1 ns to an hour. It is for what the client knows of itself;
// results are exact samples. The zero value is empty and ready. It is for one
// goroutine.
type Durations struct{ h *hdrhistogram.Histogram }

const longest = int64(time.Hour)

// Add counts d; what is below 0 counts as 0. It allocates once.
func (d *Durations) Add(v time.Duration) {
	if d.h == nil {
		d.h = hdrhistogram.New(1, longest, 3)
	}
	// In range by its bounds, so there is no error.
	_ = d.h.RecordValue(min(max(0, int64(v)), longest))
}

// Merge adds what other counts.
func (d *Durations) Merge(other Durations) {
	if other.h == nil {
		return
	}
	if d.h == nil {
		d.h = hdrhistogram.New(1, longest, 3)
	}
	d.h.Merge(other.h)
}

// N returns how many were counted.
func (d Durations) N() int64 {
	if d.h == nil {
		return 0
	}
	return d.h.TotalCount()
}

// Quantile returns the value at p, 0 to 1, to three digits; 0 if there is none.
func (d Durations) Quantile(p float64) time.Duration {
	if d.h == nil {
		return 0
	}
	return time.Duration(d.h.ValueAtQuantile(100 * p))
}

// Max returns the largest, to three digits; 0 if there is none.
func (d Durations) Max() time.Duration { return d.Quantile(1) }

// MarshalText implements [encoding.TextMarshaler]: all that was counted, compressed. It is
// "" for none.
func (d Durations) MarshalText() ([]byte, error) {
	if d.h == nil {
		return []byte{}, nil
	}
	return d.h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
}

// UnmarshalText implements [encoding.TextUnmarshaler]. It adds to what is counted.
func (d *Durations) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	h, err := hdrhistogram.Decode(text)
	if err != nil {
		return fmt.Errorf("histogram: %w", err)
	}
	d.Merge(Durations{h})
	return nil
}
