package statistics

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/report/capacity"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/summary"
	"sweep.dev/sweep/sim/core"
	"sweep.dev/sweep/test/statistics/models"
	"sweep.dev/sweep/test/statistics/tables"
)

// A scarce is a server of which one thing is scarce, and an objective that it misses at a
// load for that: the load is about a tenth above the highest that keeps it.
type scarce struct {
	name    string
	server  models.Served
	latency string           // ttft, tpot or e2e
	limit   int              // of its p95, in milliseconds
	load    float64          // requests a second, or of a closed loop at once
	polls   bool             // a thread of its host is busy without work too
	told    [len(views)]bool // by each view
}

// A view is what is watched of a server. Its engine always is.
type view struct {
	name   string   // "" for all
	hidden []string // columns that nobody measured
}

// views are what plans collect, and an engine that tells no times.
var views = [...]view{
	{},
	{"no GPU:", []string{col.MeanGPUUtil, col.MeanGPUMemoryBandwidthUtil}},
	{"gauges:", []string{
		col.MeanGPUUtil, col.MeanGPUMemoryBandwidthUtil, col.MeanServerQueueMs, col.MeanServerPrefillMs, col.MeanServerTTFTMs,
		col.P95ServerTTFTMs, col.P99ServerTTFTMs, col.MeanServerDecodeMs, col.MeanServerE2EMs, col.MeanServerTPOTMs,
	}},
}

// Views that tell.
var (
	everyView = [len(views)]bool{true, true, true}
	withTimes = [len(views)]bool{true, true, false}
	withGPU   = [len(views)]bool{true, false, false}
)

// A machine is a GPU or several with a model.
type machine struct {
	gpu     string
	gpus    int // 0 is 1
	model   string
	batched int // tokens of a step; 0 is 2,048
}

// Machines of the table: a large card, a small one, and several of which each step is long.
var (
	llama8  = machine{gpu: "h100", model: "meta-llama/Llama-3.1-8B-Instruct"}
	qwen7   = machine{gpu: "a100-80gb", model: "Qwen/Qwen2.5-7B-Instruct"}
	qwen1   = machine{gpu: "l4", model: "Qwen/Qwen2.5-1.5B-Instruct"}
	llama70 = machine{gpu: "h100", gpus: 4, model: "meta-llama/Llama-3.1-70B-Instruct", batched: 8192}
)

// serves returns a server of a machine to which requests of some length come, with something else.
func (m machine) serves(in, out int, changes ...func(*models.Served)) models.Served {
	s := models.Served{
		GPU: m.gpu, GPUs: m.gpus, Model: m.model, Batched: m.batched,
		Lengths: models.Lengths{Input: in, Output: out, Sigma: 0.5}, Constants: core.Chosen(),
	}
	for _, change := range changes {
		change(&s)
	}
	return s
}

// What is scarce, or else different from the machine's usual server.

func slots(n int) func(*models.Served) {
	return func(s *models.Served) { s.Slots = n }
}

func cache(tokens int) func(*models.Served) {
	return func(s *models.Served) { s.KVTokens = tokens }
}

func away(rtt time.Duration) func(*models.Served) {
	return func(s *models.Served) { s.RTT = rtt }
}

func lossy(s *models.Served)  { s.Loss = 0.06 }
func closed(s *models.Served) { s.Closed = true }

func host(step, start time.Duration) func(*models.Served) {
	return func(s *models.Served) { s.Constants.Step, s.Constants.Start = step, start }
}

// scarceServers returns those of the table.
func scarceServers() []scarce {
	const tick = time.Millisecond
	return []scarce{
		{name: "8B, slots, TTFT", server: llama8.serves(512, 128, slots(16)), latency: "ttft", limit: 500, load: 19.5, told: withTimes},
		{name: "8B, long prompts, TTFT", server: llama8.serves(3000, 32), latency: "ttft", limit: 500, load: 9, told: withTimes},
		{name: "8B, prompts, TTFT", server: llama8.serves(500, 16), latency: "ttft", limit: 500, load: 88},
		{name: "8B, prompts, TPOT", server: llama8.serves(1500, 128), latency: "tpot", limit: 15, load: 12.5, told: withTimes},
		{name: "8B, KV cache, TTFT", server: llama8.serves(512, 512, cache(20_000)), latency: "ttft", limit: 500, load: 6.2, told: everyView},
		{name: "8B, decoding, TPOT", server: llama8.serves(100, 256), latency: "tpot", limit: 6, load: 48, told: withTimes},
		{name: "8B, decoding, TTFT", server: llama8.serves(100, 256), latency: "ttft", limit: 14, load: 55},
		{name: "8B, decoding far away, TPOT", server: llama8.serves(100, 256, away(100*tick)), latency: "tpot", limit: 6, load: 48, told: withTimes},
		{name: "8B, host, TPOT", server: llama8.serves(128, 128, host(15*tick, 5*tick)), latency: "tpot", limit: 30, load: 43, told: withGPU},
		{name: "8B, round trip, TTFT", server: llama8.serves(512, 64, away(120*tick)), latency: "ttft", limit: 160, load: 25, told: withTimes},
		{name: "8B, slots and prompts, E2E", server: llama8.serves(1500, 64, slots(8)), latency: "e2e", limit: 1500, load: 12.4},
		{name: "8B, lost packets, TTFT", server: llama8.serves(512, 64, lossy), latency: "ttft", limit: 200, load: 10, told: withTimes},
		{name: "8B, slots, lost packets, TTFT", server: llama8.serves(512, 128, slots(16), lossy), latency: "ttft", limit: 1000, load: 20.5, told: withTimes},

		{name: "1.5B, slots, TTFT", server: qwen1.serves(512, 128, slots(16)), latency: "ttft", limit: 1000, load: 9.3, told: withTimes},
		{name: "1.5B, slots, E2E", server: qwen1.serves(512, 128, slots(8)), latency: "e2e", limit: 8000, load: 6.5, told: withTimes},
		{name: "1.5B, slots of short answers, TTFT", server: qwen1.serves(64, 64, slots(64)), latency: "ttft", limit: 500, load: 125},
		{name: "1.5B, slots of shorter answers, TTFT", server: qwen1.serves(64, 32, slots(48)), latency: "ttft", limit: 500, load: 235},
		{name: "1.5B, KV cache of few long requests, TTFT", server: qwen1.serves(2000, 512, cache(20_000)), latency: "ttft", limit: 4000, load: 0.7, told: everyView},
		{name: "1.5B, long prompts, TTFT", server: qwen1.serves(3000, 32), latency: "ttft", limit: 1200, load: 5.85, told: withTimes},
		{name: "1.5B, prompts, TPOT", server: qwen1.serves(1500, 128), latency: "tpot", limit: 40, load: 9.6, told: withTimes},
		{name: "1.5B, KV cache, E2E", server: qwen1.serves(512, 512, cache(20_000)), latency: "e2e", limit: 18_000, load: 3.5, told: everyView},
		{name: "1.5B, decoding, TPOT", server: qwen1.serves(100, 256), latency: "tpot", limit: 14, load: 30, told: withTimes},
		{name: "1.5B, host that polls, TPOT", server: qwen1.serves(128, 128, host(30*tick, 5*tick)), polls: true, latency: "tpot", limit: 50, load: 20.7, told: withGPU},
		{name: "1.5B, round trip, host that polls, TTFT", server: qwen1.serves(512, 64, away(150*tick), host(5*tick, 0)), polls: true, latency: "ttft", limit: 250, load: 19, told: withTimes},

		{name: "7B, slots, E2E", server: qwen7.serves(512, 128, slots(8)), latency: "e2e", limit: 8000, load: 8.1, told: withTimes},
		{name: "7B, prompts, TTFT", server: qwen7.serves(500, 16), latency: "ttft", limit: 1000, load: 27.5},
		{name: "7B, long prompts, E2E", server: qwen7.serves(3000, 32), latency: "e2e", limit: 4000, load: 2.7},
		{name: "7B, slots and prompts, closed loop, E2E", server: qwen7.serves(1500, 64, slots(8), closed), latency: "e2e", limit: 3000, load: 11},
		{name: "7B, decoding, TPOT", server: qwen7.serves(100, 256), latency: "tpot", limit: 14, load: 42},

		{name: "70B, slots, closed loop, TTFT", server: llama70.serves(512, 128, slots(16), closed), latency: "ttft", limit: 1500, load: 27, told: withTimes},
		{name: "70B, long prompts, TTFT", server: llama70.serves(3000, 32), latency: "ttft", limit: 1800, load: 3.7, told: withTimes},
		{name: "70B, prompts, closed loop, TTFT", server: llama70.serves(1500, 32, closed), latency: "ttft", limit: 1500, load: 36, told: withTimes},
		{name: "70B, KV cache, TTFT", server: llama70.serves(512, 512, cache(20_000)), latency: "ttft", limit: 1500, load: 2.7, told: everyView},
		{name: "70B, decoding, TPOT", server: llama70.serves(100, 256), latency: "tpot", limit: 21, load: 68},
		{name: "70B, host, TTFT", server: llama70.serves(128, 128, host(30*tick, 20*tick)), latency: "ttft", limit: 300, load: 20, told: withGPU},
	}
}

// eased returns the server with twice of what a limit names, or with half of what it takes.
func eased(s models.Served, limit string) models.Served {
	switch limit {
	case "queue":
		s.Slots *= 2
		if s.Slots == 0 {
			s.Slots = 512
		}
	case "kv_cache":
		s.KVTokens *= 2 // 0 is all of the memory
	case "prefill":
		s.Constants.Compute *= 2
		s.Constants.Start /= 2
	case "decode":
		s.Constants.Memory *= 2
		s.Constants.Step /= 2
	case "decode_bandwidth":
		s.Constants.Memory *= 2
	case "host_cpu":
		s.Constants.Step /= 2
		s.Constants.Start /= 2
	case "link":
		s.RTT /= 2
		s.Loss /= 2
	}
	return s
}

// Each look at a load is of so many trials of so many requests.
const (
	limitTrials   = 2
	limitRequests = 200
)

// trials returns the rows of some trials, and whether their requests together keep the objective.
func (s scarce) trials(server models.Served, seed uint64) (rows []result.Row, kept bool) {
	var values []float64
	for i := range uint64(limitTrials) {
		requests, look, err := server.Run(limitTrials*seed+i, s.load, limitRequests)
		rows = append(rows, counted(must(requests, err), look, s, server.RTT))
		for k := range requests {
			values = summary.AppendValues(values, &requests[k], s.latency, true)
		}
	}
	slices.Sort(values)
	return rows, result.Quantile(values, 0.95) < float64(s.limit)
}

// counted returns the columns of counters of a trial of a server whose engine waits for the GPU
// in a loop, and one that polls for requests in a loop too.
func counted(requests []result.Request, l models.Look, s scarce, rtt time.Duration) result.Row {
	took := l.Took.Seconds()
	thread := l.Busy.Seconds() / took
	if s.polls {
		thread = 1
	}
	return result.Row{
		col.Requests: int64(len(requests)), col.RequestThroughput: float64(len(requests)) / took,
		col.MeanRequestsRunning: l.MeanRunning, col.MaxRequestsRunning: float64(l.MaxRunning), col.MeanRequestsWaiting: l.MeanWaiting,
		col.MaxKVCacheUsage: l.MaxKVUsage, col.Preemptions: int64(l.Preemptions),
		col.MeanServerQueueMs: ms(l.Queue), col.MeanServerPrefillMs: ms(l.Prefill), col.MeanServerTTFTMs: ms(l.TTFT),
		col.P95ServerTTFTMs: ms(l.P95TTFT), col.P99ServerTTFTMs: ms(l.P99TTFT),
		col.MeanServerDecodeMs: ms(l.Decode), col.MeanServerE2EMs: ms(l.E2E), col.MeanServerTPOTMs: ms(l.TPOT),
		col.MeanGPUUtil: 100 * l.GPU.Seconds() / took, col.MeanGPUMemoryBandwidthUtil: 100 * l.Memory.Seconds() / took,
		col.ServerBusiestThreadCPU: thread,
		col.TCPRetransmits:         int64(l.Resends), col.P50RTTMs: ms(rtt),
	}
}

// limits asks how often the limit that a search names is what limits the server.
func limits(l *Lab) tables.Table {
	t := tables.Table{
		What:  "The limit that a search names at a load about a tenth above the greatest at which p95 TTFT, TPOT or E2E keeps its bound, by the counters of two trials of 200 requests, with Poisson arrivals or in a closed loop. Servers are simulated, and one thing of each is made scarce: Llama 3.1 8B on an H100, Qwen2.5 1.5B on an L4 and 7B on an A100, all with 2,048 tokens a step, and Llama 3.1 70B on four H100 with 8,192. Lengths are LN 0.5. A thread of the server waits for the GPU in a loop, and one that polls is busy without requests too. Right: the same requests keep the objective on a server with twice of what is named. Wrong: they do not. For the rest nothing is named. The first two figures are by the counters of the engine, the GPU and the host, the next two without the GPU's, the last two also without the times that most engines tell, as with llama.cpp. A bound on the right ones stands where the counters tell.",
		Drawn: 1,
	}
	for _, v := range views {
		t.Columns = append(t.Columns, strings.TrimSpace(v.name+" right"), strings.TrimSpace(v.name+" wrong"))
	}
	servers, runs := scarceServers(), 40
	if l.Reduced { // TestLimits has all of them
		servers, runs = servers[:1], 4
	}
	for _, s := range servers {
		all := each(runs, func(seed uint64) []named { return s.named(seed) })
		all = slices.DeleteFunc(all, func(n []named) bool { return n == nil })
		var figures []tables.Figure
		for i := range views {
			is := func(wanted named) tables.Figure {
				return share(which(all, func(n []named) bool { return n[i] == wanted }))
			}
			right := tables.Bound{}
			if s.told[i] {
				right = atLeast(0.9)
			}
			figures = append(figures, is(rightly).Keep(right), is(wrongly).Keep(atMost(0.05)))
		}
		t.Add(s.name, len(all), figures...)
	}
	return t
}

// A named is what came of the name of a limit.
type named int

const (
	unnamed named = iota
	rightly       // twice of it keeps the objective
	wrongly
)

// named returns what comes of the name that each view leads to; nil if the load keeps the
// objective, so that a search would not ask.
func (s scarce) named(seed uint64) []named {
	rows, kept := s.trials(s.server, seed)
	if kept {
		return nil
	}
	right := map[string]named{capacity.UnknownLimit: unnamed}
	all := make([]named, len(views))
	for i, v := range views {
		seen := make([]result.Row, len(rows))
		for k, row := range rows {
			seen[k] = maps.Clone(row)
			for _, column := range v.hidden {
				delete(seen[k], column)
			}
		}
		by := capacity.LimitOf(seen, []result.SLOPart{{Expr: fmt.Sprintf("p95_%s_ms < %d", s.latency, s.limit), Limit: float64(s.limit)}}, 1).By
		if _, known := right[by]; !known {
			right[by] = wrongly
			if _, kept := s.trials(eased(s.server, by), seed); kept {
				right[by] = rightly
			}
		}
		all[i] = right[by]
	}
	return all
}
