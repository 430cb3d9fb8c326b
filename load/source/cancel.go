package source

import (
	"errors"
	"fmt"
	"math"
	"time"

	"sweep.dev/sweep/load/chance"
	"sweep.dev/sweep/result"
)

// Cancel is the share of the measured requests, 0 to 1, that are given up After
// their send, if they have not ended by then. Which ones follows from the seed:
// one, at a place drawn by chance, of each run of 1/Share requests, so that any
// first so many of the load hold their share of them to within one.
type Cancel struct {
	Share float64
	After time.Duration
}

func (c Cancel) check() error {
	switch {
	case !(c.Share >= 0 && c.Share <= 1):
		return fmt.Errorf("a share of %g requests to cancel is not between 0 and 1", c.Share)
	case c.After < 0, c.Share > 0 && c.After == 0:
		return errors.New("requests are to be cancelled after a time that is not above 0")
	case c.Share == 0 && c.After > 0:
		return errors.New("a time after which requests are cancelled has no meaning without their share")
	}
	return nil
}

// A picker picks a share of all numbers.
type picker struct {
	Cancel
	key uint64
}

func (c *Config) picker(phase result.Phase) picker {
	if phase != "" {
		return picker{}
	}
	key, _ := c.common("cancel")
	return picker{c.Cancel, key}
}

// after returns when request id is given up, 0 if it is not.
func (p *picker) after(id int) time.Duration {
	// A share above one half is what a share below it leaves.
	few := p.Share <= 0.5
	share := p.Share
	if !few {
		share = 1 - share
	}
	if p.picks(id, share) == few {
		return p.After
	}
	return 0
}

// picks reports whether id is the one of its run. Run k is the ids from
// ceil(k/share) to before ceil((k+1)/share), which are two at the least.
func (p *picker) picks(id int, share float64) bool {
	if share <= 0 {
		return false
	}
	start := func(k int) int { return int(min(math.Ceil(float64(k)/share), 1<<53)) }
	k := int(float64(id) * share)
	// Rounding may have missed the run by one.
	for id < start(k) {
		k--
	}
	for id >= start(k+1) {
		k++
	}
	size := start(k+1) - start(k)
	return id-start(k) == int(chance.Scramble(p.key^uint64(k))%uint64(size))
}
