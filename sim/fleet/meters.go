package fleet

import (
	"fmt"
	"strings"
	"time"
)

// meters are the frontend's series for one request.
type meters struct {
	f       *frontend
	c       *call
	model   []string
	up      []*series // gauges that count the request while it is here
	queued  *series   // until the first token
	gap     *series
	out     *series
	tokens  int
	first   time.Time
	last    time.Time
	cached  int
	phases  []*choice
	waiting bool
}

func (f *frontend) meters(c *call) *meters {
	m := &meters{f: f, c: c, model: []string{"model", strings.ToLower(c.body.Model)}, waiting: true}
	m.up = []*series{m.of("inflight_requests"), m.of("active_requests")}
	m.queued, m.gap, m.out = m.of("queued_requests"), m.of("inter_token_latency_seconds"), m.of("output_tokens_total")
	for _, s := range m.up {
		s.add(1)
	}
	m.queued.add(1)
	m.of("requests_started_total", "endpoint", c.endpoint(), "request_type", c.kind()).add(1)
	m.of("input_sequence_tokens").observe(float64(len(c.prompt)))
	for _, name := range []string{"audio_per_request", "images_per_request", "videos_per_request"} {
		m.of(name).observe(0)
	}
	took := time.Since(c.arrived)
	f.board.get("dynamo_frontend_tokenize_seconds").observe(took.Seconds())
	f.board.get("dynamo_frontend_template_seconds").observe(0)
	f.board.get("dynamo_frontend_tokenizer_latency_ms", "operation", "tokenize").observe(1e3 * took.Seconds())
	f.board.get("dynamo_frontend_tokenizer_cache_misses_total").add(1)
	m.of("tokenizer_cache_uncached_tokens_total").add(float64(len(c.prompt)))
	m.stage("preprocess", took)
	return m
}

func (m *meters) of(name string, more ...string) *series {
	return m.f.board.get("dynamo_frontend_"+name, append(more, m.model...)...)
}

func (m *meters) stage(name string, took time.Duration) {
	m.f.board.get("dynamo_frontend_stage_duration_seconds", "stage", name).observe(took.Seconds())
}

// router returns a series of the router.
func (m *meters) router(name string, more ...string) *series {
	return m.f.board.get("dynamo_component_router_"+name, append(more, m.model...)...)
}

// chosen counts that the router has chosen.
func (m *meters) chosen(c *choice, took time.Duration) {
	m.phases = append(m.phases, c)
	m.stage("route", took)
	m.router("requests_started_total").add(1)
	m.router("input_sequence_tokens", "phase", c.phase).observe(float64(len(m.c.prompt)))
	for _, name := range []string{"total", "scheduling"} {
		m.f.board.get("dynamo_router_overhead_" + name + "_ms").observe(1e3 * took.Seconds())
	}
	if m.f.router.kv {
		kind := workerType(c.Mode)
		m.of("router_admission_received_total", "worker_type", kind).add(1)
		m.router("kv_hit_rate").observe(float64(c.overlap) / float64(c.held))
		m.router("kv_selected_cached_prefix_tokens_total", "phase", c.phase).add(float64(c.overlap * c.BlockSize))
		m.router("kv_best_eligible_cached_prefix_tokens_total", "phase", c.phase).add(float64(c.best * c.BlockSize))
		if c.best > c.overlap && kind == prefill {
			m.router("non_max_overlap_selections_total", "worker_type", kind).add(1)
			m.router("overlap_blocks_lost", "worker_type", kind).observe(float64(c.best - c.overlap))
		}
	}
	m.loads(c)
}

// loads publishes what a worker has to do.
func (m *meters) loads(c *choice) {
	if !m.f.router.kv {
		return
	}
	_, pending, blocks := c.load()
	m.peer("active_prefill_tokens", c).set(float64(pending))
	m.peer("active_decode_blocks", c).set(float64(blocks))
}

func (m *meters) peer(name string, c *choice) *series {
	return m.f.board.get("dynamo_frontend_worker_"+name, "peer", fmt.Sprint(c.ID), "worker_type", workerType(c.Mode), "dp_rank", m.f.rank())
}

// token counts one that has come.
func (m *meters) token(now time.Time) {
	m.tokens++
	m.out.add(1)
	if m.tokens == 1 {
		m.first = now
		m.unqueue()
		ttft := now.Sub(m.c.arrived).Seconds()
		m.of("time_to_first_token_seconds").observe(ttft)
		m.router("time_to_first_token_seconds").observe(ttft)
		m.peer("last_time_to_first_token_seconds", m.phases[0]).set(ttft)
		m.peer("last_input_sequence_tokens", m.phases[0]).set(float64(len(m.c.prompt)))
	} else {
		m.gap.observe(now.Sub(m.last).Seconds())
	}
	m.last = now
}

func (m *meters) unqueue() {
	if m.waiting {
		m.waiting = false
		m.queued.add(-1)
	}
}

// end counts the request as ended.
func (m *meters) end(status, reason string) {
	m.unqueue()
	for _, s := range m.up {
		s.add(-1)
	}
	for _, c := range m.phases {
		m.router("requests_total").add(1)
		m.loads(c)
	}
	m.of("requests_total", "endpoint", m.c.endpoint(), "request_type", m.c.kind(), "status", status, "error_type", reason).add(1)
	m.of("request_duration_seconds").observe(time.Since(m.c.arrived).Seconds())
	if m.tokens == 0 {
		return
	}
	m.of("output_sequence_tokens").observe(float64(m.tokens))
	m.of("cached_tokens").observe(float64(m.cached))
	m.router("output_sequence_tokens").observe(float64(m.tokens))
	m.f.board.get("dynamo_frontend_detokenize_token_count").add(float64(m.tokens))
	if m.tokens > 1 {
		gap := m.last.Sub(m.first).Seconds() / float64(m.tokens-1)
		m.router("inter_token_latency_seconds").observe(gap)
		m.peer("last_inter_token_latency_seconds", m.phases[len(m.phases)-1]).set(gap)
	}
}
