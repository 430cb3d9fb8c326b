package source

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"sweep.dev/sweep/load/draw"
)

// rng returns a stream of its own for each purpose.
func (c *Config) rng(purpose string) *draw.Rand { return draw.New(c.digest(purpose)) }

// digest is what sets this trial's purpose apart from every other.
func (c *Config) digest(purpose string) (hi, lo uint64) {
	h := sha256.Sum256(fmt.Appendf(nil, "sweep load\n%d\n%q\n%d\n%q", c.Seed, c.Cell, c.Trial, purpose))
	return binary.BigEndian.Uint64(h[:]), binary.BigEndian.Uint64(h[8:])
}
