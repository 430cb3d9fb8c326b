package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/cmd/sweep/internal/vocabulary"
	"sweep.dev/sweep/load/calibrate"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/planfile"
)

var testShape = calibrate.Shape{Streams: 64, Rate: 50, Client: plan.ClientStd}

func calibratedAt(at time.Time) *calibrate.Result {
	return &calibrate.Result{
		Machine: calibrate.ThisMachine(version()), Shape: testShape, At: at.UTC().Round(0),
		Ceiling: calibrate.Ceiling{Chunks: 5000, By: calibrate.ByCoalesced},
	}
}

// An app whose own program is not there: it cannot start a server.
func appWithoutServer(t *testing.T) (*app, *bytes.Buffer) {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	var said bytes.Buffer
	return &app{out: io.Discard, err: &said, env: os.LookupEnv, exe: filepath.Join(t.TempDir(), "none")}, &said
}

// A cached calibration is not measured again, and a missing one needs a null server.
func TestCalibration_cached(t *testing.T) {
	a, _ := appWithoutServer(t)
	if _, err := a.calibration(t.Context(), testShape, false); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Fatalf("nothing is known, and there is no server: %v", err)
	}
	want := calibratedAt(time.Now().Add(-calibrationAge + time.Hour))
	if err := a.calibrations().keep(want); err != nil {
		t.Fatal(err)
	}
	got, err := a.calibration(t.Context(), calibrate.Shape{Streams: 33, Rate: 50, Client: plan.ClientStd}, false)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := a.calibration(t.Context(), testShape, true); err == nil {
		t.Error("--fresh took what is known")
	}
}

func TestCalibrationCache_find(t *testing.T) {
	a, _ := appWithoutServer(t)
	cache := a.calibrations()
	m := calibrate.ThisMachine(version())
	for name, c := range map[string]struct {
		change func(*calibrate.Result)
		cut    bool
		ok     bool
	}{
		"young":           {change: func(*calibrate.Result) {}, ok: true},
		"a week old":      {change: func(r *calibrate.Result) { r.At = r.At.Add(-calibrationAge) }},
		"disturbed":       {change: func(r *calibrate.Result) { r.Stall = time.Second }, ok: true},
		"disturbed, old":  {change: func(r *calibrate.Result) { r.Stall = time.Second; r.At = r.At.Add(-2 * disturbedAge) }},
		"of the future":   {change: func(r *calibrate.Result) { r.At = r.At.Add(time.Hour) }},
		"cut off":         {change: func(*calibrate.Result) {}, cut: true},
		"another kernel":  {change: func(r *calibrate.Result) { r.Kernel = "other" }},
		"another version": {change: func(r *calibrate.Result) { r.Sweep = "other" }},
		"another shape":   {change: func(r *calibrate.Result) { r.Streams = 128 }},
		"another client":  {change: func(r *calibrate.Result) { r.Client = plan.ClientAuto }},
	} {
		path := cache.path(m, testShape)
		_ = os.Remove(path) // of the case before
		r := calibratedAt(time.Now())
		c.change(r)
		if err := cache.keep(r); err != nil {
			t.Fatal(err)
		}
		if c.cut {
			if err := os.Truncate(path, 40); err != nil {
				t.Fatal(err)
			}
		}
		if got := cache.find(m, testShape); (got != nil) != c.ok {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A folder that cannot be written costs the next run a calibration, and this
// one nothing.
func TestCalibrationCache_unwritable(t *testing.T) {
	a, _ := appWithoutServer(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_CACHE_HOME", file)
	if err := a.calibrations().keep(calibratedAt(time.Now())); err == nil {
		t.Error("kept in a file")
	}
	if got := a.calibrations().find(calibrate.ThisMachine(version()), testShape); got != nil {
		t.Errorf("%+v", got)
	}
}

func TestDemandOf(t *testing.T) {
	no := false
	server := plan.Server{} // nothing known: 20 ms a token
	cells := func(loads ...plan.Load) []plan.Deployment {
		d := plan.Deployment{Server: server}
		for _, l := range loads {
			d.Cells = append(d.Cells, plan.Cell{Load: l})
		}
		return []plan.Deployment{d}
	}
	for _, c := range []struct {
		name  string
		loads []plan.Load
		want  demand
	}{
		{
			"the largest of a closed loop",
			[]plan.Load{{Concurrency: 4}, {Concurrency: 100}},
			demand{calibrate.Shape{Streams: 100, Rate: 50, Client: "auto"}, 5000},
		},
		{
			"an open loop with a bound",
			[]plan.Load{{RequestRate: 10, MaxInFlight: 30}},
			demand{calibrate.Shape{Streams: 30, Rate: 50, Client: "auto"}, 1500},
		},
		{
			"an open loop by Little's law: 10/s of 2 s",
			[]plan.Load{{RequestRate: 10, MaxTokens: 100}},
			demand{calibrate.Shape{Streams: 20, Rate: 50, Client: "auto"}, 1000},
		},
		{
			"the highest stage",
			[]plan.Load{{Stages: []plan.Stage{{Rate: 5}, {Rate: 20}, {Rate: 1}}, MaxTokens: 100}},
			demand{calibrate.Shape{Streams: 40, Rate: 50, Client: "auto"}, 2000},
		},
		{
			"a trace",
			[]plan.Load{{Trace: &plan.Trace{}, MaxTokens: 100}},
			demand{calibrate.Shape{Streams: openStreams, Rate: 50, Client: "auto"}, 50 * openStreams},
		},
		{
			"one cell wants the slower client",
			[]plan.Load{{Concurrency: 1, Client: "fast"}, {Concurrency: 2, Client: "std"}, {Concurrency: 1, Client: "fast"}},
			demand{calibrate.Shape{Streams: 2, Rate: 50, Client: "std"}, 100},
		},
		{
			"without streaming there are no chunks",
			[]plan.Load{{Concurrency: 8, Stream: &no}},
			demand{calibrate.Shape{Streams: 8, Client: "auto"}, 0},
		},
	} {
		if got := demandOf(cells(c.loads...), traits{scale: 1}); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	// A server whose clock runs ten times as fast sends ten times as much.
	if got := demandOf(cells(plan.Load{Concurrency: 4}), traits{scale: 10}); got.Rate != 500 || got.chunks != 2000 {
		t.Errorf("at ten times the speed: %+v", got)
	}
}

// A plan that asks for more than 70 % of what the client takes in is warned of.
func TestWarnOfDemand(t *testing.T) {
	a, said := appWithoutServer(t)
	if err := a.calibrations().keep(calibratedAt(time.Now())); err != nil {
		t.Fatal(err)
	}
	load := func(n int) []plan.Deployment {
		return []plan.Deployment{{Cells: []plan.Cell{{Load: plan.Load{Concurrency: n, Client: plan.ClientStd}}}}}
	}
	a.warnOfDemand(load(64), traits{scale: 1}) // 3,200 of 5,000
	if said.Len() > 0 {
		t.Errorf("said %q", said)
	}
	low := calibratedAt(time.Now())
	low.Ceiling.Chunks = 4000
	if err := a.calibrations().keep(low); err != nil {
		t.Fatal(err)
	}
	a.warnOfDemand(load(64), traits{scale: 1})
	if !strings.Contains(said.String(), "3,200 chunks/s") || !strings.Contains(said.String(), "4,000 at 64 streams") {
		t.Errorf("said %q", said)
	}
}

// A load through TLS or a tunnel is sent by net/http, so that client is calibrated.
func TestPlainTCP(t *testing.T) {
	for _, c := range []struct {
		backend string
		want    bool
	}{
		{"{kind: endpoint, url: 'http://127.0.0.1:1'}", true},
		{"{kind: endpoint, url: 'https://127.0.0.1:1'}", false},
		{"{kind: sim}", true},
	} {
		text := "version: 1\nname: x\nmodel: sweep/tiny\nmatrix: {engine: vllm, gpu: h100, concurrency: [1], max_tokens: [3]}\nload: {requests: 1, prompts: {kind: synthetic, input_tokens: 20}}\nbackend: " + c.backend + "\n"
		p, err := planfile.Parse("x.yaml", t.TempDir(), []byte(text), planfile.Options{Vocabulary: vocabulary.All(), MaxCells: 10, LookupEnv: os.LookupEnv})
		if err != nil {
			t.Fatalf("%s: %v", c.backend, err)
		}
		want := plan.ClientAuto
		if !c.want {
			want = plan.ClientStd
		}
		made, err := build(p, nil)
		if err != nil {
			t.Fatalf("%s: %v", c.backend, err)
		}
		if got := demandOf(p.Deployments(), made.traits()).Client; got != want {
			t.Errorf("%s: %s", c.backend, got)
		}
	}
}

// What is said of a disturbed calibration is said once, and not where it knows that the client
// carries the load.
func TestCalibrateRun_told(t *testing.T) {
	t.Setenv("SWEEP_CALIBRATE", calibrateAuto)
	a, said := appWithoutServer(t)
	busy := calibratedAt(time.Now())
	busy.Stall, busy.Ceiling.Chunks = time.Second, 4000
	if err := a.calibrations().keep(busy); err != nil {
		t.Fatal(err)
	}
	run := func(streams int) int {
		t.Helper()
		before := said.Len()
		deployments := []plan.Deployment{{Cells: []plan.Cell{{Load: plan.Load{Concurrency: streams, Client: plan.ClientStd}}}}}
		if _, err := a.calibrateRun(t.Context(), &cli.Command{}, &plan.Plan{}, deployments, traits{scale: 1}); err != nil {
			t.Fatal(err)
		}
		return said.Len() - before
	}
	if n := run(64); n == 0 || !strings.Contains(said.String(), "only knows that 2,800 are safe at 64 streams") { // 3,200 asked
		t.Errorf("said %q", said)
	}
	if n := run(64); n != 0 {
		t.Errorf("said again: %q", said)
	}
}
