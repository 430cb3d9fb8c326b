package sim

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/backendtest"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/internal/polltest"
)

// roles returns a deployment of these roles, as NAME or NAMExREPLICAS.
func roles(t *testing.T, engine string, list ...string) backends.Spec {
	s := spec(t)
	s.Engine, s.GPUs, s.Roles = engine, 1, nil
	s.Args = map[string]any{"max-num-seqs": int64(16)}
	dir := t.TempDir()
	for _, item := range list {
		name, replicas := item, 1
		if i := strings.LastIndexByte(item, 'x'); i > 0 {
			if _, err := fmt.Sscanf(item[i:], "x%d", &replicas); err == nil {
				name = item[:i]
			}
		}
		s.Roles = append(s.Roles, backends.Role{
			Name: name, Replicas: replicas,
			LogPath: func(n int) string { return filepath.Join(dir, fmt.Sprintf("%s-%d.log", name, n)) },
		})
	}
	return s
}

// await waits until what is there answers with a text.
func await(t *testing.T, d backends.Deployment, h host.Host, path, want string) {
	t.Helper()
	var status int
	var body string
	if !polltest.Within(polltest.Patience, func() bool {
		select {
		case <-d.Done():
			t.Fatalf("ended: %v\n%s", d.Err(), logs(t, h))
		default:
		}
		status, body = get(h.URL() + path)
		return status == 200 && strings.Contains(body, want)
	}) {
		t.Fatalf("%s is %d %s\n%s", path, status, body, logs(t, h))
	}
}

func complete(t *testing.T, url string) {
	t.Helper()
	resp, err := client.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"sweep/tiny","messages":[{"role":"user","content":"x"}],"max_tokens":3,"ignore_eos":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Errorf("status %d", resp.StatusCode)
	}
}

func TestDynamo(t *testing.T) {
	s := roles(t, "dynamo", "frontend", "workerx2")
	d := launch(t, backend(t, nil), s)
	f := d.Host("frontend", 0)
	await(t, d, f, "/v1/models", "sweep/tiny")
	for n := range 2 {
		await(t, d, d.Host("worker", n), "/health", "ready")
	}
	await(t, d, f, "/health", "instances")
	for range 4 {
		complete(t, f.URL())
	}
	await(t, d, f, "/metrics", `dynamo_frontend_output_tokens_total{model="sweep/tiny"} 12`)
	_, a := get(d.Host("worker", 0).URL() + "/metrics")
	_, b := get(d.Host("worker", 1).URL() + "/metrics")
	for _, body := range []string{a, b} {
		if !strings.Contains(body, `dynamo_component_requests_total{dynamo_component="backend",dynamo_endpoint="generate"`) || !strings.Contains(body, "vllm:kv_cache_usage_perc") {
			t.Error("a worker has not Dynamo's series and vLLM's")
		}
	}
	if _, err := d.Host("worker", 1).Exec(t.Context(), "nvidia-smi", "--query-gpu=name", "--format=csv,noheader"); err != nil {
		t.Errorf("a worker's GPU: %v", err)
	}
	if _, err := f.Exec(t.Context(), "nvidia-smi", "--query-gpu=name", "--format=csv,noheader"); !errors.Is(err, host.ErrNotSupported) {
		t.Errorf("a frontend's GPU: %v", err)
	}

	// A worker that is killed ends the deployment.
	pid := d.Host("worker", 1).(host.Processor).PIDs()[0]
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	select {
	case <-d.Done():
	case <-ctx.Done():
		t.Fatal("goes on without a worker")
	}
	var exit *backends.Exit
	if !errors.As(d.Err(), &exit) || exit.Role != "worker" || exit.Replica != 1 || exit.Signal != "killed" {
		t.Errorf("%v", d.Err())
	}
}

func TestDynamo_prefillApart(t *testing.T) {
	s := roles(t, "dynamo-disagg", "prefill", "decode", "frontend")
	s.Roles[2].Argv = func(at backends.Address) ([]string, error) {
		return []string{"python3", "-m", "dynamo.frontend", "--router-mode", "kv"}, nil
	}
	d := launch(t, backend(t, nil), s)
	f := d.Host("frontend", 0)
	await(t, d, f, "/v1/models", "sweep/tiny")
	await(t, d, f, "/metrics", `worker_type="prefill"} 1`)
	complete(t, f.URL())
	if text := logs(t, f); !strings.Contains(text, "worker_type=prefill") || !strings.Contains(text, "worker_type=decode") {
		t.Errorf("log:\n%s", text)
	}
}

func TestLaunch_refusesRoles(t *testing.T) {
	b := backend(t, nil)
	for _, s := range []backends.Spec{roles(t, "dynamo", "frontend", "worker", "cook"), roles(t, "sglang-router", "router", "server")} {
		if _, err := b.Launch(t.Context(), s, &backendtest.Ledger{}); !errors.Is(err, backends.ErrSpec) {
			t.Errorf("%s: %v", s.Engine, err)
		}
	}
}

// The plan's arguments of one role are for that role, and a frontend gets none of
// the engine's arguments.
func TestCommand_ofRoles(t *testing.T) {
	b := backend(t, func(c *Config) { c.Faults = []string{"every=3"} })
	s := roles(t, "dynamo-disagg", "prefill", "decode", "frontend")
	s.Roles[0].Args = map[string]any{"max-num-seqs": int64(4)}
	at := func(port int) backends.Address { return backends.Address{Host: "127.0.0.1", Port: port} }
	peers := map[string][]backends.Address{"prefill": {at(1)}, "decode": {at(2)}, "frontend": {at(3)}}
	for i, want := range []string{
		"--engine=dynamo --role=prefill --model=sweep/tiny --gpu=l4 --host=127.0.0.1 --port=1 --inner=vllm --seed=7 --time-scale=1 --jitter=0.01 --fault=every=3 --max-num-seqs=4",
		"--engine=dynamo --role=decode --model=sweep/tiny --gpu=l4 --host=127.0.0.1 --port=2 --inner=vllm --seed=7 --time-scale=1 --jitter=0.01 --fault=every=3 --max-num-seqs=16",
		"--engine=dynamo --role=frontend --host=127.0.0.1 --port=3 --worker-urls=http://127.0.0.1:1,http://127.0.0.1:2 --min-initial-workers=2",
	} {
		a := at(i + 1)
		a.Peers = peers
		argv, err := b.argv(s, s.Roles[i], a)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(argv[2:], " "); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", s.Roles[i].Name, got, want)
		}
	}
}

// An argument in a settings file is not on the command line too.
func TestCommand_settings(t *testing.T) {
	b := backend(t, nil)
	s := roles(t, "trtllm", "server")
	s.Args = map[string]any{"max_batch_size": int64(8), "return_perf_metrics": true, "kv_cache_config.enable_block_reuse": false}
	s.Roles[0].Argv = func(backends.Address) ([]string, error) {
		return []string{"trtllm-serve", "serve", "M", "--max_batch_size", "8", "--extra_llm_api_options", "/x/args.yaml"}, nil
	}
	argv, err := b.argv(s, s.Roles[0], backends.Address{Host: "127.0.0.1", Port: 1})
	if err != nil {
		t.Fatal(err)
	}
	want := "--engine=trtllm --model=sweep/tiny --gpu=l4 --host=127.0.0.1 --port=1 --config=/x/args.yaml --seed=7 --time-scale=1 --jitter=0.01 --max_batch_size=8"
	if got := strings.Join(argv[2:], " "); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func TestCommands(t *testing.T) {
	list, err := backend(t, nil).Commands(roles(t, "llm-d", "prefill", "decodex2", "sidecarx2", "epp", "gateway"))
	if err != nil || len(list) != 7 {
		t.Fatalf("%d commands, %v", len(list), err)
	}
	for i, want := range map[int]string{
		4: "--role=sidecar --host=127.0.0.1 --port=8004 --worker-urls=http://127.0.0.1:8002",
		5: "--role=epp --host=127.0.0.1 --port=8005 --worker-urls=http://127.0.0.1:8003,http://127.0.0.1:8004 --prefill-urls=http://127.0.0.1:8000",
		6: "--role=gateway --host=127.0.0.1 --port=8006 --epp-url=http://127.0.0.1:8005",
	} {
		if got := strings.Join(list[i], " "); !strings.HasSuffix(got, want) {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}
