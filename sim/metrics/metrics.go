// Package metrics writes the metrics of a simulated engine under the names of the
// engine that it plays.
package metrics

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"sweep.dev/sweep/sim/core"
	"sweep.dev/sweep/sim/live"
)

// A Snapshot is an engine at the moment of a scrape.
type Snapshot struct {
	core.Stats
	Counts  live.Counts
	Config  core.Config
	Quiet   bool   // nothing of the engine's own (vLLM's --disable-log-stats)
	Model   string // as it is served
	Started time.Time
	Now     time.Time
	CPU     float64 // seconds of this process
	Busy    float64 // real seconds in steps
	// Last is the scrape before this one, for gauges that mean over the time
	// between two; nil for the first.
	Last *Snapshot

	HTTP []Traffic

	KVDType        string
	BlocksOverride int
	TimeScale      float64
}

// Traffic counts the requests to one path by the first digit of their status.
type Traffic struct {
	Path     string
	Requests [6]int
	Bytes    int64 // of the bodies of requests
}

// An exposition writes the text format 0.0.4 in one of the ways in which
// engines write it.
type exposition struct {
	w      io.Writer
	labels string // of every series, without braces
	// several is the way of a Python client in several processes: the sum
	// comes first, and le stands among the labels in their order.
	several bool
	// digits is how many a value has; 0 is as many as it needs, with ".0", and
	// -1 without.
	digits int
}

func (e *exposition) family(name, kind, help string) {
	fmt.Fprintf(e.w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

func (e *exposition) series(name, more string, v float64) {
	labels := e.labels
	if more != "" {
		if labels != "" {
			labels += ","
		}
		labels += more
	}
	if e.several {
		labels = sorted(labels)
	}
	if labels != "" {
		labels = "{" + labels + "}"
	}
	fmt.Fprintf(e.w, "%s%s %s\n", name, labels, e.number(v))
}

// sorted puts labels, of which no value has a comma between quotes, in order.
func sorted(labels string) string {
	if labels == "" {
		return ""
	}
	list := strings.Split(labels, `",`)
	for i := range len(list) - 1 {
		list[i] += `"`
	}
	slices.Sort(list)
	return strings.Join(list, ",")
}

func (e *exposition) gauge(name, help string, v float64) {
	e.family(name, "gauge", help)
	e.series(name, "", v)
}

func (e *exposition) counter(name, help string, v float64) {
	e.family(name, "counter", help)
	e.series(name, "", v)
}

func (e *exposition) histogram(name, help string, h live.Histogram, more ...string) {
	e.family(name, "histogram", help)
	e.forms(name, h, more...)
}

// forms writes the series of one histogram of a family.
func (e *exposition) forms(name string, h live.Histogram, more ...string) {
	with := strings.Join(more, ",")
	and := with
	if and != "" {
		and += ","
	}
	if e.several {
		e.series(name+"_sum", with, h.Sum)
	}
	var n uint64
	for i, c := range h.Counts {
		n += c
		le := math.Inf(1)
		if i < len(h.Bounds) {
			le = h.Bounds[i]
		}
		e.series(name+"_bucket", and+`le="`+e.number(le)+`"`, float64(n))
	}
	e.series(name+"_count", with, float64(n))
	if !e.several {
		e.series(name+"_sum", with, h.Sum)
	}
}

// number prints a float as Python does, 1.0 and not 1; as C++ does by default,
// with six digits; or as Rust does, without an exponent.
func (e *exposition) number(v float64) string {
	switch {
	case math.IsInf(v, 1):
		return "+Inf"
	case math.IsNaN(v):
		return "nan"
	case e.digits < 0:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case e.digits > 0:
		return strconv.FormatFloat(v, 'g', e.digits, 64)
	}
	s := strconv.FormatFloat(v, 'g', -1, 64)
	if !strings.ContainsAny(s, ".eE") {
		s += ".0"
	}
	return s
}

func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}

// finished returns how many requests have ended, whatever their end.
func (s *Snapshot) finished() (n int) {
	for _, k := range s.Counts.Finished {
		n += k
	}
	return n
}

// rate returns the output since the last scrape in tokens a second; 0 at first.
func (s *Snapshot) rate() float64 {
	if s.Last == nil {
		return 0
	}
	return ratio(float64(s.GenerationTokens-s.Last.GenerationTokens), s.Now.Sub(s.Last.Now).Seconds())
}

// ratio returns a / b, and 0 of nothing.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// Simulated writes what only a simulator has, in names of its own.
func Simulated(w io.Writer, s *Snapshot) {
	plain, cfg := &exposition{w: w}, &s.Config
	plain.family("sim_info", "gauge", "What is simulated.")
	plain.series("sim_info", fmt.Sprintf(`gpu=%s,gpus="%d",model=%s,dtype=%s,seed="%d",time_scale="%v"`,
		quote(cfg.GPU.Name), cfg.GPUs, quote(cfg.Model.Name), quote(cfg.DType), cfg.Seed, s.TimeScale), 1)
	plain.histogram("sim_timer_error_seconds", "How late the pacer ended the engine's steps.", s.Counts.Late)
	plain.gauge("sim_timer_error_max_seconds", "The largest of them.", s.Counts.Latest)
	plain.counter("sim_clock_resyncs_total", "How often the simulated clock was set anew after a pause of this process.", float64(s.Counts.Resyncs))
	plain.counter("sim_steps_total", "Steps of the engine.", float64(s.Steps))
	plain.counter("sim_busy_seconds_total", "Real time in steps.", s.Busy)
}
