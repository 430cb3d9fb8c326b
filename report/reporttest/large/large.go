// Package large makes run directories of many cells, for tests of reports. It is apart
// from reporttest because it writes Parquet, which is slow to link.
package large

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
	"sweep.dev/sweep/result/store"
	"sweep.dev/sweep/result/timeline"
	"sweep.dev/sweep/rundir"
)

// A Run is how large a run is.
type Run struct {
	Cells  int
	Points int // samples of all cells together
}

// The axes of a run of many cells, but for arg_max_num_seqs, which has as many values as it takes.
var (
	allEngines     = []string{"vllm", "sglang"}
	allGPUs        = []string{"l4", "a10g", "l40s", "a100-80gb", "h100"}
	allConcurrency = []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}
	allTokens      = []int{64, 128, 256, 512}
)

// allSeries are the samples of a trial.
var allSeries = []struct {
	source     result.Source
	name, unit string
	high       float64
}{
	{result.FromClient, timeline.InFlight, "requests", 64},
	{result.FromServer, "requests_running", "requests", 64},
	{result.FromServer, "requests_waiting", "requests", 20},
	{result.FromServer, "kv_cache_usage", "ratio", 1},
	{result.FromClient, timeline.OutputRate, "tokens/s", 3000},
	{result.FromClient, timeline.TTFT50, "ms", 400},
	{result.FromClient, timeline.TPOT, "ms", 30},
	{result.FromGPU, "power", "W", 700},
	{result.FromGPU, "utilization", "percent", 100},
}

// Make makes a run directory of many cells, the same for the same scale, as a run makes
// it: each trial has all columns that a measured one has, requests and samples. Some are INVALID,
// some failed.
func (s Run) Make(t testing.TB, dir string) {
	t.Helper()
	cells := s.cells()
	columns := result.Columns(result.Extra{Axes: []result.Column{{Name: "arg_max_num_seqs", Type: result.Int, Nullable: true, Tier: result.Core}}, SLOs: []string{"responsive"}})
	resolved, err := json.Marshal(report.Resolved{Plan: json.RawMessage(`{"load":{}}`), Repeats: 1, Columns: columns, Cells: cells})
	if err != nil {
		t.Fatal(err)
	}
	fx, err := effect.New("")
	if err != nil {
		t.Fatal(err)
	}
	d, err := rundir.Create(fx, dir, rundir.Manifest{RunID: "5ca1e", Plan: "large", Method: result.Method, Trials: len(cells), CreatedAt: start()}, []byte("version: 1\n"), resolved)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range cells {
		if err := s.trial(t, d, i, c, columns); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Append(t.Context(), "run_finished", map[string]any{}); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// start returns when the run began.
func start() time.Time { return time.Unix(1_790_000_000, 0).UTC() }

// cells returns those of the run: the load varies fastest.
func (s Run) cells() []report.Cell {
	cells := make([]report.Cell, s.Cells)
	for i := range cells {
		n := i
		next := func(values int) int { at := n % values; n /= values; return at }
		tokens, concurrency := allTokens[next(len(allTokens))], allConcurrency[next(len(allConcurrency))]
		engine, gpu := allEngines[next(len(allEngines))], allGPUs[next(len(allGPUs))]
		c := report.Cell{ID: fmt.Sprintf("%012x", 0x9e3779b97f4a*uint64(i+1)&0xffffffffffff), Deployment: fmt.Sprintf("d%d", i/40), Digest: "29fbbd21438b"}
		c.Settings = []conclude.Setting{
			{Column: col.Engine, Server: true, Text: engine, Value: engine},
			{Column: col.GPU, Server: true, Text: gpu, Value: gpu},
			{Column: "arg_max_num_seqs", Server: true, Text: fmt.Sprintf("arg_max_num_seqs=%d", 8*(n+1)), Value: float64(8 * (n + 1))},
			{Column: col.Concurrency, Amount: true, Text: fmt.Sprintf("concurrency=%d", concurrency), Value: float64(concurrency)},
			{Column: col.MaxTokens, Text: fmt.Sprintf("max_tokens=%d", tokens), Value: float64(tokens)},
		}
		c.Label = c.Text(func(conclude.Setting) bool { return true })
		cells[i] = c
	}
	return cells
}

func (s Run) trial(t testing.TB, d *rundir.Dir, i int, c report.Cell, columns []result.Column) error {
	rng := rand.New(rand.NewPCG(1, uint64(i)))
	key := rundir.Key{Cell: c.ID, Trial: 1}
	a, err := d.Begin(t.Context(), key, 1)
	if err != nil {
		return err
	}
	write := func(name string, write func(io.Writer) error) error {
		f, err := a.Create(name)
		if err != nil {
			return err
		}
		if err := write(f); err != nil {
			return err
		}
		return f.Close()
	}
	ids := store.IDs{Run: "5ca1e", Cell: c.ID, Trial: 1, Attempt: 1, Anchor: result.Anchor{Start: start().Add(time.Duration(i) * 20 * time.Second)}}
	if err := write(layout.Requests, func(w io.Writer) error { return store.WriteRequests(w, ids, requests(rng)) }); err != nil {
		return err
	}
	samples := s.samples(rng, i)
	if err := write(layout.Samples, func(w io.Writer) error { return store.WriteSamples(w, ids, samples) }); err != nil {
		return err
	}
	return a.Commit(t.Context(), outcome(rng, i, c, columns), c.Digest)
}

// samples returns the part of the run's points that is the trial's.
func (s Run) samples(rng *rand.Rand, i int) []result.Sample {
	n := s.Points*(i+1)/s.Cells - s.Points*i/s.Cells
	samples := make([]result.Sample, 0, n)
	phase := rng.Float64()
	for k := range n {
		series, step := allSeries[k%len(allSeries)], k/len(allSeries)
		sample := result.Sample{
			T: time.Duration(step) * time.Second, Source: series.source, Name: series.name, Unit: series.unit, Role: "server",
			Value: series.high * (0.5 + 0.4*math.Sin(phase+float64(step)/3) + 0.1*rng.Float64()),
		}
		if series.source == result.FromClient {
			sample.Role = ""
		}
		samples = append(samples, sample)
	}
	return samples
}

func requests(rng *rand.Rand) []result.Request {
	list := make([]result.Request, 16)
	for n := range list {
		sent := time.Duration(n) * time.Second
		r := result.Request{
			N: n, Phase: result.Plateau, Scheduled: sent, Sent: sent, PromptTokens: 200, CompletionTokens: 16, TokenSource: "usage", MaxTokens: 16,
			TargetTokens: 200, FinishReason: "stop", HTTPStatus: 200, Status: result.Completed, ChunkUS: make([]int32, 16),
		}
		at := sent
		for k := range r.ChunkUS {
			r.ChunkUS[k] = int32(8000 + rng.IntN(2000))
			at += time.Duration(r.ChunkUS[k]) * time.Microsecond
			if k == 0 {
				r.FirstByte, r.FirstToken, r.FirstOutput = at, at, at
			}
		}
		r.LastToken, r.End = at, at
		list[n] = r
	}
	return list
}

// outcome has a value in every column of numbers: those of one latency grow with
// their percentile, and latencies grow with the load.
func outcome(rng *rand.Rand, i int, c report.Cell, columns []result.Column) *result.Outcome {
	at := start().Add(time.Duration(i) * 20 * time.Second)
	o := &result.Outcome{CellID: c.ID, Trial: 1, Row: result.Row{
		col.RunID: "5ca1e", col.Plan: "large", col.CellID: c.ID, col.SpecDigest: c.Digest, col.ConditionsDigest: "ba42857f5204", col.SubjectDigest: fmt.Sprintf("%012x", i/40*7919),
		col.Method: int64(result.Method), col.Trial: int64(1), col.Attempt: int64(1), col.StartedAt: at, col.FinishedAt: at.Add(19 * time.Second),
		col.Backend: "sim", col.Simulated: true, col.Engine: c.Value(col.Engine), col.GPU: c.Value(col.GPU), col.GPUCount: int64(1),
		col.EngineVersion: "0.32.0+sim", col.Model: "Qwen/Qwen2.5-7B-Instruct", col.Launch: int64(1), col.ClientHost: "vm", col.Client: "fast", col.NetworkPath: "direct", col.StampKind: "kernel",
	}}
	o.StartedAt, o.FinishedAt = at, at.Add(19*time.Second)
	for _, s := range c.Settings {
		if v, ok := s.Value.(float64); ok {
			o.Row[s.Column] = int64(v)
		}
	}
	load := conclude.Load(c)
	if i%97 == 96 {
		o.Row[col.Status], o.Row[col.ErrorClass], o.Row[col.Error] = result.StatusFailed, "oom", "CUDA out of memory. Tried to allocate 2.00 GiB"
		return o
	}
	o.Row[col.Status], o.Row[col.Valid] = result.StatusOK, true
	values := map[string]float64{}
	for _, column := range columns {
		if _, known := o.Row[column.Name]; known || column.Given || strings.HasPrefix(column.Name, "slo_") {
			continue
		}
		switch column.Type {
		case result.Float:
			o.Row[column.Name] = value(rng, values, column, load)
		case result.Int:
			o.Row[column.Name] = int64(math.Round(200 * (1 + rng.Float64()*load/64)))
		}
	}
	o.Row[col.ThroughputTokS] = 180 * math.Pow(load, 0.7) * (1 + 0.05*rng.Float64())
	o.Row[col.Completed], o.Row[col.PlateauRequests], o.Row[col.ErrorRate] = int64(200), int64(190), 0.0
	o.Row[col.Infinite], o.Row[col.LowConfidence] = nil, nil
	verdict := result.SLOPass
	if o.Row.Float(col.P95TTFTMs) > 300 {
		verdict = result.SLOFail
	}
	o.SLOs = []result.SLOResult{{Name: "responsive", Expr: "p95_ttft_ms < 300", Severity: "fail", Verdict: verdict, Values: result.Row{col.P95TTFTMs: o.Row[col.P95TTFTMs]}}}
	o.Row[col.OfSLO("responsive")] = verdict
	if i%50 == 49 {
		o.Row[col.Status], o.Row[col.Valid], o.Row[col.InvalidReasons] = result.StatusInvalid, false, finding.Coalesced.String()
		o.Invalid = []result.Finding{{Code: finding.Coalesced, Text: "4.3 % of the chunks came out of the same read as the one before"}}
	}
	return o
}

// value returns the value of a column, near those of its kin.
func value(rng *rand.Rand, values map[string]float64, c result.Column, load float64) float64 {
	name, _ := strings.CutSuffix(c.Name, col.WholeSuffix)
	name, _ = strings.CutSuffix(name, col.CompletedSuffix)
	if v, ok := values[name]; ok && name != c.Name { // nothing failed: the same, or nearly
		if strings.HasSuffix(c.Name, col.WholeSuffix) {
			v *= 0.99 + 0.01*rng.Float64()
		}
		return v
	}
	for _, end := range []struct {
		suffix string
		factor float64
	}{{col.LowSuffix, 0.98}, {col.HighSuffix, 1.02}} {
		if of, ok := strings.CutSuffix(name, end.suffix); ok && values[of] > 0 {
			return values[of] * end.factor
		}
	}
	v := 1 + rng.Float64()
	statistic, latency, _ := strings.Cut(name, "_")
	switch {
	case c.Unit == "ms":
		base := values["base_"+latency]
		if base == 0 {
			base = (5 + 3*rng.Float64()) * (1 + load/64)
			if strings.Contains(latency, "ttft") || strings.Contains(latency, "e2e") {
				base *= 4
			}
			values["base_"+latency] = base
		}
		v = base * map[string]float64{"mean": 1.02, "std": 0.1, "min": 0.8, "p50": 1, "p90": 1.2, "p95": 1.3, "p99": 1.6, "max": 2}[statistic] * (1 + 0.01*rng.Float64())
	case c.Unit == "ratio":
		v = rng.Float64() / 20
	case c.Unit == "tokens/s":
		v = 180 * math.Pow(load, 0.7) * (1 + 0.05*rng.Float64())
	}
	values[name] = v
	return v
}
