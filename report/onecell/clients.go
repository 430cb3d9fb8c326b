package onecell

import (
	"fmt"
	"slices"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
)

// clients returns tables of the clients of the trials that several sent: of all of them if
// details are asked for, else of those that are INVALID for what a client did.
func (v *view) clients() []draw.Grid {
	var grids []draw.Grid
	for _, t := range v.measured() {
		if len(t.Outcome.Clients) > 0 && (v.o.Verbose || blamed(t)) {
			grids = append(grids, v.clientGrid(t))
		}
	}
	return grids
}

// blamed reports whether a trial is INVALID for what one of its clients did.
func blamed(t conclude.Trial) bool {
	return slices.ContainsFunc(t.Outcome.Invalid, func(f result.Finding) bool {
		switch f.Code {
		case finding.ClientLost, finding.ClientSkew, finding.ClientClock, finding.ClientThrottled, finding.ClientsDiffer,
			finding.ClientCPU, finding.ClientLoop, finding.ClientStalled, finding.ScheduleLag:
			return true
		}
		return false
	})
}

func (v *view) clientGrid(t conclude.Trial) draw.Grid {
	g := draw.Grid{
		Name: "clients, times in ms", Down: "client",
		Values: []string{"nearest bound", "requests", "began late", "p99 lag", "CPU, %", "throttled", "stall", "clock error"},
	}
	if len(v.p.Trials) > 1 {
		g.Name = fmt.Sprintf("clients of trial %d, times in ms", t.Trial)
	}
	if limiting, ok := t.Outcome.Row.Number(col.LimitingClient); ok {
		g.Name += fmt.Sprintf("; client %.0f came nearest to a bound of validity, or passed it", limiting)
	}
	for _, c := range t.Outcome.Clients {
		throttled := "-"
		if c.ThrottledPeriods != nil {
			throttled = fmt.Sprint(*c.ThrottledPeriods)
		}
		g.Rows = append(g.Rows, draw.Fields(
			fmt.Sprint(c.Client), nearest(c), fmt.Sprint(c.Requests), figure(c.LateMS, 1), figure(c.P99ScheduleLagMS, 1), figure(c.CPU, 100),
			throttled, figure(c.MaxStallMS, 1), humanize.Figure(c.OffsetErrorMS)))
	}
	return g
}

// figure returns a value times a factor; - if it is not known.
func figure(v *float64, factor float64) string {
	if v == nil {
		return "-"
	}
	return humanize.Figure(*v * factor)
}

// nearest returns the bound that a client came nearest to, and by how much. Why one was lost
// is in the reason of INVALID.
func nearest(c result.ClientHealth) string {
	name := plaintext.Line(c.Nearest)
	switch {
	case c.Lost != "":
		return name
	case c.Share == nil:
		return name + " passed"
	case *c.Share >= 10:
		return name + " passed by far"
	}
	return fmt.Sprintf("%s %.0f %%", name, 100**c.Share)
}
