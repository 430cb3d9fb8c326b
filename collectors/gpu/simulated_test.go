package gpu_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sweep.dev/sweep/collectors/collectortest"
	"sweep.dev/sweep/collectors/gpu"
	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
	"sweep.dev/sweep/sim"
)

type log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// simulate starts a simulated engine on a simulated GPU and returns its URL.
func simulate(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, done := new(log), make(chan int, 1)
	args = append([]string{"--port", "0", "--model", "sweep/tiny", "--jitter", "0", "--time-scale", "0.1", "--gpu-memory-utilization", "0.5"}, args...)
	go func() { done <- sim.Main(ctx, args, io.Discard, out) }()
	t.Cleanup(func() { cancel(); <-done })
	listening := regexp.MustCompile(`server 0 on (http://\S+)`)
	var m []string
	if !polltest.Within(polltest.Patience, func() bool {
		m = listening.FindStringSubmatch(out.String())
		return m != nil
	}) {
		t.Fatalf("does not listen:\n%s", out)
	}
	return m[1]
}

func get(ctx context.Context, t *testing.T, method, address, body string) (int, []byte) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	r, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(r)
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body) // a load that is ended is cut
	return resp.StatusCode, b
}

// Every source sees the same simulated GPU at work.
func TestSimulated(t *testing.T) {
	t.Parallel()
	common := []string{
		"mean_gpu_util", "max_gpu_util", "max_gpu_memory_used_bytes", "gpu_memory_total_bytes", "min_gpu_memory_free_bytes", "gpu_memory_idle_bytes", "gpu_util_idle",
		"mean_gpu_memory_bandwidth_util", "mean_gpu_power_w", "gpu_energy_j", "mean_gpu_clock_mhz", "max_gpu_temp_c", "gpu_uuid",
	}
	const query = "/sim/nvidia-smi?format=csv&query=index,uuid,driver_version,utilization.gpu,utilization.memory,memory.used,memory.total,memory.free,power.draw,temperature.gpu,clocks.sm,name"
	for name, tt := range map[string]struct {
		config gpu.Config
		args   []string
		more   []string
		energy string
	}{
		"auto":           {gpu.Config{}, nil, []string{"driver_version", "gpu_throttled_ms", "gpu_foreign_processes", "min_gpu_power_limit_w", "min_gpu_clock_limit_mhz"}, "integrated"},
		"XML":            {gpu.Config{Source: gpu.NvidiaSMIXML}, nil, []string{"driver_version", "gpu_throttled_ms", "gpu_foreign_processes", "min_gpu_power_limit_w", "min_gpu_clock_limit_mhz"}, "integrated"},
		"DCGM":           {gpu.Config{Source: gpu.Exporter, URL: "/sim/dcgm"}, nil, []string{"driver_version"}, "counter"},
		"DCGM since 4.6": {gpu.Config{Source: gpu.Exporter, URL: "/sim/dcgm?names=new"}, nil, []string{"driver_version"}, "counter"},
		"wrapper":        {gpu.Config{Source: gpu.HTTP, URL: query}, nil, []string{"driver_version"}, "integrated"},
		"AMD":            {gpu.Config{}, []string{"--gpu", "mi300x"}, []string{"gpu_throttled_ms", "gpu_foreign_processes"}, "counter"},
		"a stranger":     {gpu.Config{}, []string{"--fault", "gpu-busy=2"}, []string{"gpu_foreign_processes"}, "integrated"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := simulate(t, slices.Concat([]string{"--gpu", "l4", "--tensor-parallel-size", "2"}, tt.args)...)
			h := &collectortest.Host{Base: address, Pids: func() []int { return []int{os.Getpid()} }, Run: func(ctx context.Context, argv ...string) ([]byte, error) {
				q := url.Values{}
				switch {
				case argv[0] == "amd-smi":
					q.Set("command", argv[1])
				case argv[1] == "-q":
					q.Set("xml", "1")
				default:
					q.Set("query", strings.TrimPrefix(argv[1], "--query-gpu="))
				}
				status, b := get(ctx, t, http.MethodGet, address+"/sim/"+argv[0]+"?"+q.Encode(), "")
				if status != http.StatusOK {
					return b, fmt.Errorf("status %d", status)
				}
				return b, nil
			}}
			tt.config.Interval = 200 * time.Millisecond
			c, err := gpu.New(tt.config)
			if err != nil {
				t.Fatal(err)
			}
			sink := new(collectortest.Sink)
			session, err := c.Start(t.Context(), collectortest.Trial(h), sink)
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			var load sync.WaitGroup
			load.Go(func() {
				get(ctx, t, http.MethodPost, address+"/v1/chat/completions", `{"model":"sweep/tiny","stream":true,"max_tokens":8000,"ignore_eos":true,"messages":[{"role":"user","content":"on and on"}]}`)
			})
			busy := func() (looks int) { // at a busy GPU
				for _, s := range sink.Samples() {
					if s.Name == "utilization" && s.Value > 90 {
						looks++
					}
				}
				return looks
			}
			polltest.Within(polltest.Patience, func() bool { return busy() >= 3 })
			row, err := session.Finish(t.Context())
			stop()
			load.Wait()
			if err != nil {
				t.Fatal(err)
			}
			for _, column := range append(common, tt.more...) {
				if row[column] == nil {
					t.Errorf("%s was not measured", column)
				}
			}
			collectortest.Want(t, row, result.Row{"gpu_energy_source": tt.energy})
			if v, _ := row["max_gpu_util"].(float64); v <= 90 {
				t.Errorf("utilisation %v", v)
			}
			used, total := row["max_gpu_memory_used_bytes"].(int64), row["gpu_memory_total_bytes"].(int64)
			if used < total*4/10 || used > total*7/10 {
				t.Errorf("%d of %d bytes in use, of which the engine may have half", used, total)
			}
			if n := strings.Count(row["gpu_uuid"].(string), ","); n != 1 {
				t.Errorf("GPUs: %v", row["gpu_uuid"])
			}
			var want []finding.Code
			if name == "a stranger" {
				want = []finding.Code{finding.GPUForeign}
				collectortest.Want(t, row, result.Row{"gpu_foreign_processes": int64(1)})
			}
			if codes := sink.Codes(); !slices.Equal(codes, want) {
				t.Errorf("findings: %v", sink.Notes())
			}
		})
	}
}

// A simulated engine that serves nothing holds its model all the same.
func TestSimulated_idle(t *testing.T) {
	t.Parallel()
	address := simulate(t, "--gpu", "l4")
	c, err := gpu.New(gpu.Config{Source: gpu.Exporter, URL: "/sim/dcgm", Interval: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	sink := new(collectortest.Sink)
	session, err := c.Start(t.Context(), collectortest.Trial(&collectortest.Host{Base: address}), sink)
	if err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "80 samples", func() bool { return len(sink.Samples()) >= 80 })
	if _, err := session.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	if codes := sink.Codes(); len(codes) != 0 {
		t.Errorf("findings: %v", sink.Notes())
	}
}

// Simulated servers beside each other are on GPUs of their own, which are summed.
func TestSimulated_servers(t *testing.T) {
	t.Parallel()
	c, err := gpu.New(gpu.Config{Source: gpu.Exporter, URL: "/sim/dcgm", Interval: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	trial := collectortest.Trial(&collectortest.Host{Base: simulate(t, "--gpu", "l4")})
	other := trial.Targets[0]
	other.Replica, other.Host = 1, &collectortest.Host{Base: simulate(t, "--gpu", "l4")}
	trial.Targets = append(trial.Targets, other)
	session, err := c.Start(t.Context(), trial, new(collectortest.Sink))
	if err != nil {
		t.Fatal(err)
	}
	row, err := session.Finish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	collectortest.Want(t, row, result.Row{"gpu_memory_total_bytes": int64(2 * 23034 << 20)})
	if uuids := strings.Split(row["gpu_uuid"].(string), ","); len(uuids) != 2 || uuids[0] == uuids[1] {
		t.Errorf("GPUs: %v", uuids)
	}
}
