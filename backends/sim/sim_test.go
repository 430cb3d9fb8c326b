package sim

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/backendtest"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/guard"
	"sweep.dev/sweep/internal/layout"
	engine "sweep.dev/sweep/sim"
)

// The test binary is sweep: a guard, or `sweep sim`.
func TestMain(m *testing.M) {
	guard.Main()
	if len(os.Args) > 1 && os.Args[1] == "sim" {
		os.Exit(engine.Main(context.Background(), os.Args[2:], os.Stdout, os.Stderr))
	}
	// The race detector has every process wait a second before it exits.
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	goleak.VerifyTestMain(m)
}

func backend(t *testing.T, change func(*Config)) *Backend {
	t.Helper()
	fx, err := effect.New("")
	if err != nil {
		t.Fatal(err)
	}
	b, err := Factory(fx).New(func(v any) error {
		if change != nil {
			change(v.(*Config))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.(*Backend)
}

func spec(t *testing.T) backends.Spec {
	dir := t.TempDir()
	return backends.Spec{
		Owner: "tester-" + t.Name(), RunID: "run", Pod: "d1-l01", Engine: "vllm", Model: "sweep/tiny", GPU: "l4", GPUs: 2, Seed: 7,
		Args:  map[string]any{"max-num-seqs": int64(16), "gpu-memory-utilization": 0.5, "enable-prefix-caching": false, "enforce-eager": false},
		Grace: 2 * time.Second,
		Roles: []backends.Role{{Name: "server", Replicas: 1, GPUs: 2, LogPath: func(n int) string { return filepath.Join(dir, fmt.Sprintf("server-%d.log", n)) }}},
	}
}

// launch starts spec and waits until it answers.
func launch(t *testing.T, b *Backend, s backends.Spec) backends.Deployment {
	t.Helper()
	d, err := b.Launch(t.Context(), s, &backendtest.Ledger{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := d.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return d
}

func ready(t *testing.T, d backends.Deployment) host.Host {
	t.Helper()
	h := d.Host("server", 0)
	await(t, d, h, "/health", "")
	return h
}

var client = http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func get(url string) (int, string) {
	resp, err := client.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

func logs(t *testing.T, h host.Host) string {
	t.Helper()
	r, err := h.Logs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestContract(t *testing.T) {
	backendtest.Run(t, func(t *testing.T) (backends.Backend, backends.Spec) { return backend(t, nil), spec(t) },
		backendtest.SpoilWith(func(s *backends.Spec) { s.GPU = "no-such-gpu" }))
}

func TestLaunch(t *testing.T) {
	b := backend(t, func(c *Config) { c.RequestLog = true })
	s := spec(t)
	d := launch(t, b, s)
	h := ready(t, d)

	resp, err := client.Post(h.URL()+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"sweep/tiny","messages":[{"role":"user","content":"x"}],"max_tokens":3,"ignore_eos":true}`))
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if resp.StatusCode != 200 || !strings.Contains(string(body), `"completion_tokens":3`) {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	_, metrics := get(h.URL() + "/metrics")
	for _, want := range []string{`gpu="l4",gpus="2"`, `seed="7"`, `enable_prefix_caching="False"`, `gpu_memory_utilization="0.5"`, `vllm:generation_tokens_total{engine="0",model_name="sweep/tiny"} 3.0`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics do not have %s", want)
		}
	}
	requests, err := os.ReadFile(layout.RequestLog(s.Roles[0].LogPath(0)))
	if err != nil || strings.Count(string(requests), "\n") != 2 {
		t.Errorf("request log: %v %s", err, requests)
	}
	if p, ok := h.(host.Processor); !ok || len(p.PIDs()) != 1 || p.PIDs()[0] == os.Getpid() {
		t.Errorf("the server is not a process of its own")
	}
	if !b.Simulated() {
		t.Error("not simulated")
	}
	refs, err := b.List(t.Context(), s.Owner)
	if err != nil || len(refs) != 1 || refs[0].Kind != Kind {
		t.Errorf("List: %v %v", refs, err)
	}
	if err := d.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if status, _ := get(h.URL() + "/health"); status != 0 {
		t.Errorf("answers %d after Stop", status)
	}
	if refs, _ := b.List(t.Context(), s.Owner); len(refs) != 0 {
		t.Errorf("left over: %v", refs)
	}
}

func TestExec_nvidiaSMI(t *testing.T) {
	d := launch(t, backend(t, nil), spec(t))
	h := ready(t, d)
	out, err := h.Exec(t.Context(), "nvidia-smi", "--query-gpu=index,name,utilization.gpu,memory.used", "--format=csv,noheader,nounits")
	if err != nil {
		t.Fatal(err)
	}
	r := csv.NewReader(strings.NewReader(string(out)))
	r.TrimLeadingSpace = true
	rows, err := r.ReadAll()
	if err != nil || len(rows) != 2 || rows[1][0] != "1" || rows[0][1] != "NVIDIA L4" || rows[0][2] != "0" {
		t.Errorf("%v %q", err, out)
	}
	if _, err := h.Exec(t.Context(), "nvidia-smi", "--query-gpu=index,warp.core"); err == nil || errors.Is(err, host.ErrNotSupported) || !strings.Contains(err.Error(), `Field "warp.core" is not a valid field to query.`) {
		t.Errorf("an unknown field: %v", err)
	}
	if out, err := h.Exec(t.Context(), "nvidia-smi", "-q", "-x"); err != nil || strings.Count(string(out), "<uuid>GPU-") != 2 {
		t.Errorf("XML: %v %s", err, out)
	}
	for _, argv := range [][]string{{"/opt/rocm/bin/rocm-smi"}, {"nvidia-smi", "-L"}, {"amd-smi", "metric", "--json"}} {
		if _, err := h.Exec(t.Context(), argv...); !errors.Is(err, host.ErrNotSupported) {
			t.Errorf("%v: %v", argv, err)
		}
	}
}

func TestDeployment_startFailure(t *testing.T) {
	s := spec(t)
	s.Model, s.GPUs = "meta-llama/Llama-3.1-70B-Instruct", 1
	d := launch(t, backend(t, nil), s)
	select {
	case <-d.Done():
	case <-time.After(time.Minute):
		t.Fatal("it starts")
	}
	var exit *backends.Exit
	if !errors.As(d.Err(), &exit) || exit.Code != 1 {
		t.Errorf("%v", d.Err())
	}
	if text := logs(t, d.Host("server", 0)); !strings.Contains(text, "torch.OutOfMemoryError: CUDA out of memory.") {
		t.Errorf("log:\n%s", text)
	}
}

func TestDeployment_fault(t *testing.T) {
	d := launch(t, backend(t, func(c *Config) { c.Faults = []string{"die-at-start=kill"} }), spec(t))
	<-d.Done()
	var exit *backends.Exit
	if !errors.As(d.Err(), &exit) || exit.Signal != "killed" || exit.OOMKilled {
		t.Errorf("%v", d.Err())
	}
}

func TestLaunch_refusesTheImpossible(t *testing.T) {
	b := backend(t, nil)
	for name, change := range map[string]func(*backends.Spec){
		"no gpu":       func(s *backends.Spec) { s.GPU = "" },
		"free label":   func(s *backends.Spec) { s.GPU = "my-laptop" },
		"other tongue": func(s *backends.Spec) { s.Engine = "cobol" },
		"scaled time":  func(s *backends.Spec) { s.Args = map[string]any{"time-scale": 10.0} },
		"scaled role":  func(s *backends.Spec) { s.Roles[0].Args = map[string]any{"time_scale": 10.0} },
	} {
		s := spec(t)
		change(&s)
		l := &backendtest.Ledger{}
		if _, err := b.Launch(t.Context(), s, l); !errors.Is(err, backends.ErrSpec) {
			t.Errorf("%s: %v", name, err)
		}
		if len(l.States()) != 0 {
			t.Errorf("%s: %v", name, l.States())
		}
	}
}

func TestNew_saysEverythingThatIsWrong(t *testing.T) {
	_, err := New(nil, Config{TimeScale: -1, Jitter: 2, StartDelay: -time.Second, Faults: []string{"nonsense"}, CPUs: []int{-3}})
	for _, want := range []string{"time_scale", "jitter", "start_delay", `no fault "nonsense"`, "cpus"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %s in %v", want, err)
		}
	}
}

func TestFlags(t *testing.T) {
	got := strings.Join(flags(map[string]any{"max-model-len": int64(4096), "a": true, "b": false, "gpu-memory-utilization": 0.85, "big": 5e9, "name": "x y", "served-model-name": []any{"a", "b"}}), "|")
	if want := "--a|--big=5000000000|--gpu-memory-utilization=0.85|--max-model-len=4096|--name=x y|--no-b|--served-model-name=a,b"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// A port that only the real server has leads to the simulator's one port.
func TestHost_ports(t *testing.T) {
	s := spec(t)
	s.Roles[0].Ports = map[string]int{"metrics": 0}
	d := launch(t, backend(t, nil), s)
	h, ok := d.Host("server", 0).(host.Porter)
	if !ok || h.Addr("none") != "" {
		t.Fatalf("a Porter: %v", ok)
	}
	await(t, d, d.Host("server", 0), "/health", "")
	if status, body := get("http://" + h.Addr("metrics") + "/metrics"); status != 200 || !strings.Contains(body, "vllm:") {
		t.Errorf("metrics at %q: %d", h.Addr("metrics"), status)
	}
}
