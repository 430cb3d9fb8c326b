package executor

import (
	"errors"
	"fmt"
	"strings"

	"sweep.dev/sweep/executor/outcome"
	"sweep.dev/sweep/executor/serving"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// ErrDrift is a server that is not the software that the committed trials of its
// deployment have measured: what is measured with it must not stand beside them.
var ErrDrift = errors.New("the server is not the one that was measured before")

// known is what the committed trials of a deployment recorded of its servers, by
// column: the first value of each, and the trial that has it.
type known map[string]struct {
	value any
	trial string
}

// remember takes in the row of a committed trial.
func (d *deployment) remember(row result.Row) {
	if d.known == nil {
		d.known = known{}
	}
	for _, r := range result.Recorded {
		k := d.known[r.Column]
		if k.value == nil && row[r.Column] != nil {
			k.value, k.trial = row[r.Column], fmt.Sprintf("trial %v of cell %v", row[col.Trial], row[col.CellID])
			d.known[r.Column] = k
		}
	}
}

// Accept says in what a server differs from those of the committed trials; nil
// if it does not, as far as both are known.
func (d *deployment) Accept(s *serving.Server) error {
	now := outcome.Recorded(s.Terms(), s.Version, d.of.Server.ModelRevision)
	var differ []string
	for _, r := range result.Recorded {
		k := d.known[r.Column]
		if k.value != nil && now[r.Column] != nil && k.value != now[r.Column] {
			differ = append(differ, fmt.Sprintf("its %s is %v, %s has %v", r.Name, now[r.Column], k.trial, k.value))
		}
	}
	if len(differ) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w: %s; nothing was measured with it: put the earlier one back and resume (engines.%s.image: NAME@sha256:... keeps an image), or start a new run",
		d.label, ErrDrift, strings.Join(differ, "; "), d.of.Cells[0].Server.Engine)
}
