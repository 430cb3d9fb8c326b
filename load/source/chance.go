package source

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"sweep.dev/sweep/load/arrivals"
	"sweep.dev/sweep/load/chance"
)

// rng returns a stream of its own for each purpose, which every cell of the same load
// has in common.
func (c *Config) rng(purpose string) *chance.Rand { return chance.New(c.common(purpose)) }

// common returns what sets a purpose apart in all cells that put the same load on their
// servers. Arrivals and lengths are the same there, so that a comparison of two
// servers is one of the servers and not of their luck: common random numbers (Law and
// Kelton, Simulation Modeling and Analysis, 11.2).
func (c *Config) common(purpose string) (hi, lo uint64) {
	most := 0.0
	if rates, ok := c.Pace.(arrivals.Rates); ok { // a recording has no chance in it
		for _, stage := range rates.Stages {
			most = max(most, stage.Rate)
		}
	}
	return c.digest(fmt.Appendf(nil, "%d %g", c.Concurrency, most), purpose)
}

// own returns what sets this cell's purpose apart from every other: no text is asked twice.
func (c *Config) own(purpose string) (hi, lo uint64) {
	return c.digest([]byte(c.Cell), purpose)
}

func (c *Config) digest(of []byte, purpose string) (hi, lo uint64) {
	h := sha256.Sum256(fmt.Appendf(nil, "sweep load\n%d\n%q\n%d\n%q", c.Seed, of, c.Trial, purpose))
	return binary.BigEndian.Uint64(h[:]), binary.BigEndian.Uint64(h[8:])
}
