package calibrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/nullserver"
	"sweep.dev/sweep/load/openai"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/result"
)

// asServer makes this test binary the null server, asParent a process that
// starts one and waits.
const (
	asServer = "SWEEP_TEST_NULL_SERVER"
	asParent = "SWEEP_TEST_PARENT"
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(asServer) == "talks":
		fmt.Println("hello")
	case os.Getenv(asServer) == "dies":
		os.Exit(3)
	case os.Getenv(asServer) != "":
		if err := nullserver.Process(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case os.Getenv(asParent) != "":
		s, err := serve(context.Background(), server1("yes")(), nil)
		if err != nil {
			panic(err)
		}
		fmt.Println(s.cmd.Process.Pid)
		select {}
	default:
		goleak.VerifyTestMain(m)
	}
}

func server1(as string) func() *exec.Cmd {
	return func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), asServer+"="+as, asParent+"=")
		cmd.Stderr = os.Stderr
		return cmd
	}
}

func std(c wire.Config, _ string) (Driver, error) { return openai.New(c) }

func TestRun(t *testing.T) {
	for _, shape := range []Shape{{Streams: 1, Rate: 50, Client: "std"}, {Streams: 8, Rate: 100, Client: "std"}} {
		t.Run(fmt.Sprint(shape.Streams), func(t *testing.T) {
			const took = 500 * time.Millisecond
			r, err := Run(t.Context(), Config{
				Machine: ThisMachine("test"), Shape: shape, Driver: std, Server: server1("yes"), Time: took,
			})
			if err != nil {
				t.Fatal(err)
			}
			for name, p := range map[string]Pattern{"random": r.Random, "bursts": r.Bursts} {
				want := shape.Streams * max(2, int(patternShare*took.Seconds()*shape.Rate))
				if p.Chunks != want || p.Failed != 0 || p.Error.N != want {
					t.Errorf("%s: %d chunks, %d held against the truth, %d failed; want %d", name, p.Chunks, p.Error.N, p.Failed, want)
				}
				e := p.Error
				if e.P50 <= 0 || e.P50 > e.P99 || e.P99 > e.P999 || e.P999 > r.Took {
					t.Errorf("%s: errors %+v of a calibration of %v", name, e, r.Took)
				}
			}
			if r.Error() != max(r.Random.Error.P99, r.Bursts.Error.P99) {
				t.Error(r.Error())
			}
			if r.Timer.N != int(timerShare*took.Seconds()*timerRate) || r.Timer.P99 > r.Took {
				t.Errorf("timer %+v", r.Timer)
			}
			if r.Driver != "std" || r.Stamp == "" || r.ClientCPUs < 1 {
				t.Errorf("%+v", r)
			}
			if r.Ceiling.Chunks < 0 || r.Ceiling.By == "" {
				t.Errorf("ceiling %+v", r.Ceiling)
			}
			t.Log(strings.Join(r.Lines(), "\n"))
		})
	}
}

// After a calibration the process may use all of its CPUs again.
func TestRun_freesItsCPUs(t *testing.T) {
	before := allowed()
	if _, err := Run(t.Context(), Config{Shape: Shape{Streams: 1, Rate: 50}, Driver: std, Server: server1("yes"), Time: 200 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, allowed()); diff != "" {
		t.Errorf("CPUs (-before +after):\n%s", diff)
	}
}

func TestRun_errors(t *testing.T) {
	broken := errors.New("no such client")
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("changed my mind"))
	for _, c := range []struct {
		name string
		ctx  context.Context
		c    Config
		want string
	}{
		{"no server", t.Context(), Config{Server: func() *exec.Cmd { return exec.Command("/nonexistent/sweep") }, Driver: std}, "no such file"},
		{"a server that says something else", t.Context(), Config{Server: server1("talks"), Driver: std}, `"hello" in place of its URL`},
		{"a server that dies", t.Context(), Config{Server: server1("dies"), Driver: std}, "exit status 3"},
		{"no driver", t.Context(), Config{Server: server1("yes"), Driver: func(wire.Config, string) (Driver, error) { return nil, broken }}, "no such client"},
		{"cancelled", cancelled, Config{Server: server1("yes"), Driver: std}, "cancel"},
		{"a driver that receives nothing", t.Context(), Config{Server: server1("yes"), Driver: func(wire.Config, string) (Driver, error) { return deaf{}, nil }}, "no chunk came: timeout nothing heard"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.c.Time = 200 * time.Millisecond
			r, err := Run(c.ctx, c.c)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "calibrate: ") {
				t.Errorf("%+v, %v; want %q", r, err, c.want)
			}
		})
	}
}

// deaf records failures alone.
type deaf struct{}

func (deaf) Run(_ context.Context, src load.Source, rec load.Recorder, _ load.Options) (load.Health, error) {
	for slot := range src.Loop().Slots {
		j, _ := src.Next(slot, nil)
		r := wire.Unsent(&j, 0)
		r.ErrorClass, r.Error = result.ErrTimeout, "nothing heard"
		rec.Record(r)
	}
	return load.Health{}, nil
}

func (deaf) Close() {}

// The server ends when whatever started it was killed.
func TestServer_parentKilled(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asParent+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscan(out, &pid); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	polltest.Until(t, "the null server's end", func() bool {
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || zombie(pid)
	})
}

// zombie reports whether a process has ended and was not waited for: in a container
// without an init its last parent may never do that.
func zombie(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(b), ") ")
	return err == nil && strings.HasPrefix(rest, "Z")
}

func TestShape_bounded(t *testing.T) {
	for _, c := range []struct{ in, want Shape }{
		{Shape{}, Shape{Streams: 1, Rate: 10}},
		{Shape{Streams: 1, Rate: 50}, Shape{Streams: 1, Rate: 50}},
		{Shape{Streams: 3, Rate: 33.3333}, Shape{Streams: 4, Rate: 33}},
		{Shape{Streams: 64, Rate: 1234}, Shape{Streams: 64, Rate: 1200}},
		{Shape{Streams: 65, Rate: 1e9}, Shape{Streams: 128, Rate: 2000}},
		{Shape{Streams: 100_000, Rate: 20}, Shape{Streams: MaxStreams, Rate: 20}},
		{Shape{Streams: 100_000, Rate: 20, Client: "std"}, Shape{Streams: maxStreamsStd, Rate: 20, Client: "std"}},
	} {
		if got := c.in.Bounded(); got != c.want {
			t.Errorf("%+v: %+v, want %+v", c.in, got, c.want)
		}
		if got := c.want.Bounded(); got != c.want {
			t.Errorf("%+v is bounded, and becomes %+v", c.want, got)
		}
	}
}

func sample() *Result {
	return &Result{
		Machine: Machine{Host: "bench", CPU: "EPYC", CPUs: 2, Kernel: "Linux 6.18", Sweep: "v1"},
		Shape:   Shape{Streams: 256, Rate: 50, Client: "auto"},
		At:      time.Date(2026, 11, 22, 5, 0, 0, 0, time.UTC), Took: 4 * time.Second,
		Driver: "fast", Stamp: result.StampKernel, ClientCPUs: 1, ServerCPUs: 1,
		Random: Pattern{Chunks: 9, Error: Spread{9, 8 * time.Microsecond, 20 * time.Microsecond, 60 * time.Microsecond}, CPU: 11200 * time.Nanosecond},
		Bursts: Pattern{
			Chunks: 9, Error: Spread{9, 7200 * time.Nanosecond, 26 * time.Microsecond, 90 * time.Microsecond},
			Lag: Spread{9, 30 * time.Microsecond, 3100 * time.Microsecond, 12 * time.Millisecond}, CPU: 9300 * time.Nanosecond,
		},
		Ceiling: Ceiling{Chunks: 103_456, By: ByCoalesced},
		Timer:   Spread{400, 200 * time.Nanosecond, 23 * time.Microsecond, 40 * time.Microsecond},
	}
}

func TestResult_lines(t *testing.T) {
	want := []string{
		"Client (fast, times are stamped by the kernel): at 256 streams of 50 chunks/s it adds 7.2 us to a time (p50), p99 26 us, p99.9 90 us; without kernel stamps p99 3.1 ms more",
		"Calibrated 2026-11-22 05:00 on bench: 9.3 us CPU a chunk, ceiling 103,000 chunks/s, open-loop timer p50 0.2 us, p99 23 us late",
	}
	if diff := cmp.Diff(want, sample().Lines()); diff != "" {
		t.Error(diff)
	}
	r := sample()
	r.ServerCPUs, r.Stamp, r.Bursts.Lag, r.Ceiling.By = 0, result.StampUser, Spread{}, ByOffered
	text := strings.Join(r.Lines(), "\n")
	for _, part := range []string{"there are no kernel stamps here", "at least 103,000", "shared its CPUs"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in:\n%s", part, text)
		}
	}
}

func TestResult_warning(t *testing.T) {
	r := sample()
	if w := r.Warning(72_000); w != "" {
		t.Error(w)
	}
	if w := r.Warning(73_000); !strings.Contains(w, "73,000 chunks/s") || !strings.Contains(w, "103,000 at 256 streams") {
		t.Error(w)
	}
	r.Ceiling.By = ByOffered // a lower bound: the ceiling is unknown
	if w := r.Warning(1e9); w != "" || r.Limit() != 0 {
		t.Error(w, r.Limit())
	}
	// A disturbed one judges no trial, and knows what it carries all the same.
	for why, disturb := range map[string]func(*Result){
		"did not run for 11ms (bound 10ms)": func(r *Result) { r.Stall = 11 * time.Millisecond },
		"less than 0.5 of a CPU":            func(r *Result) { r.Ceiling.By = ByDisturbed },
	} {
		r := sample()
		disturb(r)
		for _, text := range []string{r.Disturbance(), r.Lines()[1]} {
			if !strings.Contains(text, why) {
				t.Errorf("%q is not in: %s", why, text)
			}
		}
		if r.Warning(72_000) != "" || !strings.Contains(r.Warning(73_000), "only knows that 72,400 are safe") || !strings.Contains(r.Lines()[1], "no trial is judged by it") {
			t.Errorf("%q, %s\n%s", r.Warning(72_000), r.Warning(73_000), r.Lines()[1])
		}
		if text := r.Stands(); !strings.Contains(text, why) || !strings.Contains(text, "up to 72,400 chunks/s at 256 streams are safe") {
			t.Error(text)
		}
	}
	if why := sample().Disturbance() + sample().Stands(); why != "" {
		t.Error(why)
	}
}

// A ceiling is the client's only if the client was at work when it was met.
func TestCeiling_climb(t *testing.T) {
	up := func(rate float64, coalesced int, cpu float64) step {
		return step{n: int(rate / 6), rate: rate, coalesced: coalesced, cpu: cpu}
	}
	for name, c := range map[string]struct {
		steps []step
		want  Ceiling
	}{
		"read late by its own work": {
			[]step{up(40_000, 1, 0.4), up(64_000, 30, 0.7), up(102_000, 900, 0.9)}, Ceiling{64_000, ByCoalesced},
		},
		"no CPU left":      {[]step{up(40_000, 0, 0.4), up(64_000, 0, 0.97)}, Ceiling{40_000, ByCPU}},
		"no more was sent": {[]step{up(40_000, 0, 0.4), {}}, Ceiling{40_000, ByOffered}},
		"read late at leisure": {
			[]step{up(1000, 0, 0.01), up(1211, 1, 0.01), up(1600, 9, 0.01), up(2560, 30, 0.02)}, Ceiling{1211, ByDisturbed},
		},
		"late once, and then no more": {
			[]step{up(1000, 9, 0.01), up(1600, 0, 0.02), up(64_000, 900, 0.9)}, Ceiling{1600, ByCoalesced},
		},
	} {
		got := Ceiling{By: ByOffered}
		for _, s := range c.steps {
			got.climb(s, 1)
		}
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestResult_json(t *testing.T) {
	b, err := json.Marshal(sample())
	if err != nil {
		t.Fatal(err)
	}
	var got Result
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(&got, sample()) {
		t.Error(cmp.Diff(sample(), &got))
	}
	var flat map[string]any
	if err := json.Unmarshal(b, &flat); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"host", "cpu", "kernel", "sweep", "streams", "chunks_per_s_per_stream", "at"} {
		if _, ok := flat[name]; !ok {
			t.Errorf("%s is not at the top of %s", name, b)
		}
	}
}
