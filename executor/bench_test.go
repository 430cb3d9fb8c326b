package executor

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/executor/observe"
)

// The time between two cells of one deployment: everything but the warm-up, the
// load and its drain. It holds the last looks of the collectors, the judging,
// the files of the trial with their fsyncs, the commit, the next attempt's line
// in the journal, the cache reset and the collectors' first looks. The metric
// ms/gap is its median; the target is 20.
func BenchmarkBetweenCells(b *testing.B) {
	withoutGPUs := slices.DeleteFunc(realCollectors(b), func(n observe.Named) bool { return n.Kind == "gpu" })
	var gaps []time.Duration
	for b.Loop() {
		w := newWorld(b, nil,
			`matrix: {engine: sim, concurrency: [4], max_tokens: {from: 10, to: 29, step: 1}}`,
			`load: {requests: 16, warmup: {requests: `+strconv.Itoa(warmups)+`}, prompts: {input_tokens: 100}}`)
		w.dir = filepath.Join(b.TempDir(), "run")
		w.collectors = withoutGPUs
		w.must()
		gaps = append(gaps, w.gaps()...)
	}
	slices.Sort(gaps)
	b.ReportMetric(float64(gaps[len(gaps)/2])/1e6, "ms/gap")
	b.ReportMetric(float64(gaps[len(gaps)*95/100])/1e6, "p95-ms/gap")
	b.ReportMetric(0, "ns/op") // the whole run of 20 cells says nothing
}

// warmups is how many requests of the benchmark's trials are the warm-up's.
const warmups = 4

// gaps is, for each trial but the first, the time in which the server had
// nothing to do: from the trial before it to its warm-up, and from that to its
// load.
func (w *world) gaps() (list []time.Duration) {
	var all []asked
	for _, s := range w.backend.list() {
		all = append(all, s.prompts()...)
	}
	var busy time.Time // the end of what has been answered so far
	trial, warm := "", false
	for _, q := range all {
		id, n, _ := strings.Cut(q.id, "-s0-n")
		number, err := strconv.Atoi(n)
		if err != nil {
			w.t.Fatal(err)
		}
		idle := q.from.Sub(busy)
		switch {
		case id != trial && trial == "":
			trial, warm = id, false // the first, which has a launch before it
		case id != trial:
			trial, warm = id, true
			list = append(list, idle)
		case warm && number >= warmups:
			warm = false
			list[len(list)-1] += idle
		}
		if q.to.After(busy) {
			busy = q.to
		}
	}
	return list
}
