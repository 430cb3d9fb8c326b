//go:build bench

package benchmarks

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

var peerStreams = flag.String("streams", "16,100,256,500", "numbers of streams for the table of peers")

// truthQuery is what every client is asked to measure: 200 tokens each 10 ms, the
// first after 50 ms and a phase by chance of up to 10 ms.
const truthQuery = "n=200&itl=10000&ttft=50000&mode=0"

// A reading is what a load generator prints of one run.
type reading struct {
	ttft, p50, p99 float64 // ms: mean TTFT, gaps between chunks
	throughput     float64 // tokens/s
	note           string
	wall, cpu      float64 // seconds, of the whole command
	err            error
}

// A peer is a load generator as people start it.
type peer struct {
	name string
	argv func(p *place, streams int) []string
	read func(p *place) (reading, error)
}

// A place is where one run of a peer writes.
type place struct{ root, dir, url, sweep, core string }

func (p *place) engine(parts ...string) string {
	return filepath.Join(append([]string{p.root, ".engines"}, parts...)...)
}

// TestPeers prints sweep beside other load generators: the same server, which is
// pinned to one core, and each client on the other core, two requests a stream.
func TestPeers(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	b := start(t)
	dir := t.TempDir()
	sweep := filepath.Join(dir, "sweep")
	if out, err := exec.Command("go", "build", "-o", sweep, "../../cmd/sweep").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	table := newTable("Load generators side by side: 200 tokens a request, 2 requests a stream, server on one core, client on the other",
		"streams", "client", "mean TTFT ms", "p50 gap ms", "p99 gap ms", "tokens/s", "CPU s", "wall s", "")
	for n := range strings.SplitSeq(*peerStreams, ",") {
		streams, err := strconv.Atoi(n)
		if err != nil {
			t.Fatal(err)
		}
		// A stream's two requests last 2 x (55 + 199 x 10) ms.
		table.row(n, "truth", "50 to 60", "10.00", "10.00", fmt.Sprintf("%.0f", 400*float64(streams)/4.09), "", "", "")
		for _, p := range peers() {
			at := &place{root: root, core: "1", dir: filepath.Join(dir, fmt.Sprintf("%s-%d", strings.ReplaceAll(p.name, " ", "-"), streams)), url: b.url, sweep: sweep}
			if err := os.MkdirAll(at.dir, 0o755); err != nil {
				t.Fatal(err)
			}
			r := runPeer(t, p, at, streams)
			if r.err != nil {
				t.Errorf("%s, %d streams: %v", p.name, streams, r.err)
				table.row(n, p.name, "-", "-", "-", "-", f1(r.cpu), f1(r.wall), "failed")
				continue
			}
			table.row(n, p.name, f1(r.ttft), f2(r.p50), f2(r.p99), fmt.Sprintf("%.0f", r.throughput), f1(r.cpu), f1(r.wall), r.note)
		}
	}
	table.print(os.Stdout)
}

func runPeer(t *testing.T, p peer, at *place, streams int) reading {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	argv := p.argv(at, streams)
	if at.core != "" {
		argv = append([]string{"taskset", "-c", at.core}, argv...)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = at.dir
	cmd.Env = append(os.Environ(), "VLLM_NO_USAGE_STATS=1", "HF_HUB_DISABLE_TELEMETRY=1", "SWEEP_CALIBRATE=never")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = 5 * time.Second
	from := time.Now()
	err := cmd.Run()
	wall := time.Since(from).Seconds()
	var r reading
	// sweep ends with another status where it finds its own numbers wanting.
	if exit := (*exec.ExitError)(nil); err == nil || p.name[:5] == "sweep" && errors.As(err, &exit) {
		r, err = p.read(at)
	}
	if err != nil {
		tail := out.Bytes()
		err = fmt.Errorf("%w\n%s", err, tail[max(0, len(tail)-2000):])
	}
	r.err, r.wall = err, wall
	if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		r.cpu = time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
	}
	return r
}

func peers() []peer {
	return []peer{
		{"sweep fast", sweepRun("fast"), readSweep("p50_icl_ms_whole")},
		{"sweep std", sweepRun("std"), readSweep("p50_icl_ms_whole")},
		{"vllm bench 0.32.0", func(p *place, streams int) []string {
			return []string{
				p.engine("vllm", "bin", "vllm"), "bench", "serve", "--backend", "openai-chat", "--base-url", p.url,
				"--endpoint", "/v1/chat/completions?" + truthQuery + "&p=/chat/completions", "--model", "tiny", "--tokenizer", p.engine("tiny-hf"),
				"--dataset-name", "random", "--random-input-len", "20", "--random-output-len", "200",
				"--num-prompts", strconv.Itoa(2 * streams), "--max-concurrency", strconv.Itoa(streams), "--ignore-eos",
				"--save-result", "--result-dir", p.dir, "--result-filename", "result.json",
				"--percentile-metrics", "ttft,tpot,itl", "--metric-percentiles", "50,99",
			}
		}, func(p *place) (reading, error) {
			var v struct {
				Mean       float64 `json:"mean_ttft_ms"`
				P50        float64 `json:"median_itl_ms"`
				P99        float64 `json:"p99_itl_ms"`
				Throughput float64 `json:"output_throughput"`
			}
			err := readJSON(filepath.Join(p.dir, "result.json"), &v)
			return reading{ttft: v.Mean, p50: v.P50, p99: v.P99, throughput: v.Throughput}, err
		}},
		{"aiperf 0.13.0", func(p *place, streams int) []string {
			return []string{
				p.engine("aiperf", "bin", "aiperf"), "profile", "--model", "tiny", "--url", p.url, "--endpoint-type", "chat",
				"--custom-endpoint", "/v1/chat/completions?" + truthQuery + "&p=/chat/completions", "--streaming",
				"--tokenizer", p.engine("tiny-hf"), "--use-server-token-count", "--ui", "none",
				"--concurrency", strconv.Itoa(streams), "--request-count", strconv.Itoa(2 * streams),
				"--synthetic-input-tokens-mean", "20", "--output-tokens-mean", "200", "--artifact-dir", p.dir,
			}
		}, func(p *place) (reading, error) {
			type stat struct{ Avg, P50, P99 float64 }
			var v struct {
				TTFT       stat `json:"time_to_first_token"`
				Gap        stat `json:"inter_chunk_latency"`
				Throughput stat `json:"output_token_throughput"`
			}
			err := readJSON(filepath.Join(p.dir, "profile_export_aiperf.json"), &v)
			return reading{ttft: v.TTFT.Avg, p50: v.Gap.P50, p99: v.Gap.P99, throughput: v.Throughput.Avg}, err
		}},
		{"guidellm 0.8.1", func(p *place, streams int) []string {
			return []string{
				p.engine("guidellm", "bin", "guidellm"), "run", "--backend", "kind=openai_http,target=" + p.url + ",model=tiny",
				"--tokenizer", "kind=huggingface_auto,model=" + p.engine("tiny-hf"),
				"--profile", fmt.Sprintf("kind=concurrent,streams=%d", streams), "--constraint", fmt.Sprintf("kind=max_requests,count=%d", 2*streams),
				"--data", "kind=synthetic_text,prompt_tokens=20,output_tokens=200", "--disable-console-interactive",
			}
		}, func(p *place) (reading, error) {
			type stat struct {
				Successful struct {
					Mean, Median float64
					Percentiles  struct{ P99 float64 }
				}
			}
			var v struct {
				Benchmarks []struct {
					Metrics struct {
						TTFT       stat `json:"time_to_first_token_ms"`
						ITL        stat `json:"inter_token_latency_ms"`
						Throughput stat `json:"output_tokens_per_second"`
					}
				}
			}
			if err := readJSON(filepath.Join(p.dir, "benchmarks.json"), &v); err != nil {
				return reading{}, err
			}
			if len(v.Benchmarks) == 0 {
				return reading{}, errors.New("no benchmark in benchmarks.json")
			}
			m := v.Benchmarks[0].Metrics
			return reading{
				ttft: m.TTFT.Successful.Mean, p50: m.ITL.Successful.Median, p99: m.ITL.Successful.Percentiles.P99,
				throughput: m.Throughput.Successful.Mean, note: "gaps: means of requests",
			}, nil
		}},
	}
}

func readJSON(path string, v any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

// sweepRun is sweep as people start it: a plan against a server that runs.
func sweepRun(client string) func(*place, int) []string {
	return func(p *place, streams int) []string {
		plan := fmt.Sprintf(`version: 1
name: peers
model: meta-llama/Llama-3.1-8B-Instruct
matrix: {engine: [generic-openai], concurrency: [%d], max_tokens: [200]}
backend: {kind: endpoint, url: %q}
load:
  client: %s
  requests: %d
  warmup: {requests: 0}
  prompts: {kind: synthetic, input_tokens: 20, length: words}
  output: natural
collect: []
sinks: [csv: {columns: full}]
`, streams, p.url, client, 2*streams)
		path := filepath.Join(p.dir, "plan.yaml")
		if err := os.WriteFile(path, []byte(plan), 0o644); err != nil {
			panic(err)
		}
		return []string{p.sweep, "run", "-o", filepath.Join(p.dir, "run"), path}
	}
}

// sweepRow returns the one row of a run's cells.csv, by column.
func sweepRow(p *place) (map[string]string, error) {
	f, err := os.Open(filepath.Join(p.dir, "run", "cells.csv"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(rows) != 2 {
		return nil, fmt.Errorf("%d lines in cells.csv", len(rows))
	}
	row := map[string]string{}
	for i, column := range rows[0] {
		row[column] = rows[1][i]
	}
	return row, nil
}

// readSweep takes gap for the median of what lies between two tokens.
func readSweep(gap string) func(*place) (reading, error) {
	return func(p *place) (reading, error) {
		row, err := sweepRow(p)
		if err != nil {
			return reading{}, err
		}
		number := func(name string) float64 {
			v, _ := strconv.ParseFloat(row[name], 64)
			return v
		}
		p50, err := strconv.ParseFloat(row[gap], 64)
		return reading{
			ttft: number("mean_ttft_ms_whole"), p50: p50, p99: number("p99_icl_ms_whole"), throughput: number("throughput_tok_s_whole"),
			note: strings.TrimSpace(row["status"] + " " + row["invalid_reasons"] + row["error"]),
		}, err
	}
}
