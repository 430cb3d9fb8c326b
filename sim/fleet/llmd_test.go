package fleet_test

import (
	"bufio"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"sweep.dev/sweep/internal/exposition"
	"sweep.dev/sweep/internal/recordtest"
)

// llmd is llm-d's roles: two decode servers with a sidecar each, and so many
// prefill servers.
type llmd struct {
	gateway, epp             *process
	prefill, decode, sidecar []*process
}

func startLLMD(t *testing.T, prefillers int, picker ...string) *llmd {
	t.Helper()
	role := func(name string, more ...string) *process {
		return start(t, append([]string{"--engine=llm-d", "--role=" + name}, more...)...)
	}
	d := &llmd{}
	urls := func(list []*process) string {
		var l []string
		for _, p := range list {
			l = append(l, p.url)
		}
		return strings.Join(l, ",")
	}
	for range 2 {
		p := role("decode", engineArgs...)
		d.decode = append(d.decode, p)
		d.sidecar = append(d.sidecar, role("sidecar", "--worker-urls="+p.url))
	}
	args := append([]string{"--worker-urls=" + urls(d.sidecar)}, picker...)
	for range prefillers {
		d.prefill = append(d.prefill, role("prefill", engineArgs...))
	}
	if prefillers > 0 {
		args = append(args, "--prefill-urls="+urls(d.prefill))
	}
	d.epp = role("epp", args...)
	d.gateway = role("gateway", "--epp-url="+d.epp.url)
	until(t, "all servers are ready", d.epp, func() bool {
		_, body := get(t, d.epp.url+"/metrics")
		return strings.Contains(body, fmt.Sprintf("llm_d_epp_ready_endpoints{name=\"default\"} %d\n", 2+prefillers))
	})
	serving(t, d.gateway)
	return d
}

func sum(t *testing.T, list []*process, name string, labels ...string) (v float64) {
	t.Helper()
	for _, p := range list {
		v += value(t, p, name, labels...)
	}
	return v
}

func TestLLMD(t *testing.T) {
	d := startLLMD(t, 1)
	alone := start(t, append([]string{"--engine=vllm"}, engineArgs...)...)
	until(t, "the engine answers", alone, func() bool { code, _ := get(t, alone.url+"/health"); return code == 200 })
	want := ask(t, alone.url, fmt.Sprintf(chat, "request 0", 12))
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			a := ask(t, d.gateway.url, fmt.Sprintf(chat, fmt.Sprint("request ", i), 12))
			if u := a.usage(t); !a.done || u["completion_tokens"] != 12.0 {
				t.Errorf("%d %v\n%s", a.status, u, a.raw)
			}
			// The dialect is that of the server behind it all.
			if i == 0 && (a.text != want.text || !slices.Equal(keySets(a.chunks), keySets(want.chunks))) {
				t.Errorf("%s\nalone\n%s", a.raw, want.raw)
			}
		})
	}
	wg.Wait()
	for _, c := range []struct {
		of   []*process
		name string
		want float64
	}{
		{d.prefill, "vllm:request_success_total", 6},
		{d.prefill, "vllm:generation_tokens_total", 6},
		{d.decode, "vllm:request_success_total", 6},
		{d.decode, "vllm:generation_tokens_total", 72},
		{d.sidecar, "vllm:generation_tokens_total", 72}, // of the server behind it
	} {
		if got := sum(t, c.of, c.name); got != c.want {
			t.Errorf("%s is %v, want %v", c.name, got, c.want)
		}
	}
	until(t, "all reports are in", d.epp, func() bool { return value(t, d.epp, "llm_d_epp_request_duration_seconds_count") == 6 })
	_, body := get(t, d.epp.url+"/metrics")
	for name, want := range map[string]float64{
		"llm_d_epp_request_total": 6, "inference_objective_request_total": 6, "llm_d_epp_request_running": 0,
		"llm_d_epp_request_output_tokens_sum": 72, "inference_objective_output_tokens_sum": 72, "llm_d_epp_request_ttft_seconds_count": 6,
		"llm_d_epp_request_streaming_itl_seconds_count": 72, "llm_d_epp_request_streaming_tpot_seconds_count": 6,
		"llm_d_epp_ready_endpoints": 3, "inference_pool_ready_pods": 3, "llm_d_epp_scheduler_attempts_total": 12,
	} {
		if got := valueIn(t, body, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if n := valueIn(t, body, "llm_d_inference_scheduler_disagg_decision_total", "decision_type", "prefill-decode"); n != 6 {
		t.Errorf("%v decisions for prefill apart", n)
	}
	status, stream := post(t, d.gateway.url+"/v1/chat/completions", `{"model":"other","messages":[{"role":"user","content":"x"}]}`)
	if text := readAll(t, stream); status != 404 || !strings.Contains(text, "does not exist") {
		t.Errorf("%d %s", status, text)
	}
	until(t, "the error is counted", d.epp, func() bool {
		_, body := get(t, d.epp.url+"/metrics")
		return strings.Contains(body, `llm_d_epp_request_error_total{error_code="404",`)
	})
}

// The sidecar shows its own metrics where it is told to, and those of its decode server where
// requests go.
func TestLLMD_sidecarMetrics(t *testing.T) {
	prefill := start(t, append([]string{"--engine=llm-d", "--role=prefill"}, engineArgs...)...)
	decode := start(t, append([]string{"--engine=llm-d", "--role=decode"}, engineArgs...)...)
	port := freePort(t)
	s := start(t, "--engine=llm-d", "--role", "sidecar", "--worker-urls="+decode.url, "--metrics-port", strconv.Itoa(port))
	own := &process{url: fmt.Sprintf("http://127.0.0.1:%d", port), log: s.log}
	e := start(t, "--engine=llm-d", "--role=epp", "--worker-urls="+s.url, "--prefill-urls="+prefill.url)
	g := start(t, "--engine=llm-d", "--role=gateway", "--epp-url="+e.url)
	until(t, "all servers are ready", e, func() bool {
		_, body := get(t, e.url+"/metrics")
		return strings.Contains(body, "llm_d_epp_ready_endpoints{name=\"default\"} 2\n")
	})
	serving(t, g)
	before := metricsOf(t, own)
	if strings.Contains(before, "requests_total{") || valueIn(t, before, "llm_d_disagg_sidecar_prefill_duration_seconds_count") != 0 {
		t.Errorf("before the first request:\n%s", before)
	}
	for i := range 3 {
		ask(t, g.url, fmt.Sprintf(chat, fmt.Sprint("request ", i), 12))
	}
	until(t, "the last request has ended", s, func() bool { return value(t, own, "llm_d_disagg_sidecar_decode_duration_seconds_count") == 3 })
	body := metricsOf(t, own)
	for name, want := range map[string]float64{
		"llm_d_disagg_sidecar_requests_total": 3, "llm_d_disagg_sidecar_disagg_requests_total": 3, "llm_d_disagg_sidecar_prefill_duration_seconds_count": 3,
	} {
		if got := valueIn(t, body, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if strings.Contains(body, "request_errors_total{") || strings.Contains(body, "vllm:") {
		t.Errorf("after three requests:\n%s", body)
	}
	if got := value(t, s, "vllm:request_success_total"); got != 3 {
		t.Errorf("where requests go, the decode server has had %v of them", got)
	}
}

func TestLLMD_relaysAtOnce(t *testing.T) {
	p := start(t, append([]string{"--engine=llm-d", "--role=decode", "--fault=hang-after=4"}, engineArgs...)...)
	s := start(t, "--engine=llm-d", "--role=sidecar", "--worker-urls="+p.url)
	e := start(t, "--engine=llm-d", "--role=epp", "--worker-urls="+s.url)
	g := start(t, "--engine=llm-d", "--role=gateway", "--epp-url="+e.url)
	serving(t, g)
	_, stream := post(t, g.url+"/v1/chat/completions", fmt.Sprintf(chat, "x", 12))
	in := bufio.NewScanner(stream)
	for n := 0; n < 5; { // the role and four tokens
		if !in.Scan() {
			t.Fatal(in.Err())
		}
		if strings.HasPrefix(in.Text(), "data: {") {
			n++
		}
	}
}

// Without prefill servers the decode servers compute prompts themselves.
func TestLLMD_decodeOnly(t *testing.T) {
	d := startLLMD(t, 0)
	for i := range 4 {
		ask(t, d.gateway.url, fmt.Sprintf(chat, fmt.Sprint(i, " x"), 4))
	}
	if n := value(t, d.epp, "llm_d_inference_scheduler_disagg_decision_total", "decision_type", "decode-only"); n != 4 {
		t.Errorf("%v", n)
	}
	for i, p := range d.decode {
		if n := value(t, p, "vllm:request_success_total", "finished_reason", "length"); n != 2 {
			t.Errorf("server %d had %v requests, want 2", i, n)
		}
	}
}

// What every pair or the same pair moves between is known beforehand.
func TestLLMD_pickers(t *testing.T) {
	for mode, want := range map[string][][2]int{
		"every-pair": {{0, 0}, {0, 1}, {1, 0}, {1, 1}, {0, 0}},
		"same-pair":  {{0, 0}, {1, 1}, {0, 0}},
	} {
		d := startLLMD(t, 2, "--picker="+mode)
		for i, pair := range want {
			before := [2]float64{value(t, d.prefill[pair[0]], "vllm:request_success_total"), value(t, d.decode[pair[1]], "vllm:request_success_total")}
			ask(t, d.gateway.url, fmt.Sprintf(chat, "x", 4))
			after := [2]float64{value(t, d.prefill[pair[0]], "vllm:request_success_total"), value(t, d.decode[pair[1]], "vllm:request_success_total")}
			if after[0] != before[0]+1 || after[1] != before[1]+1 {
				t.Errorf("%s: request %d did not go over the pair %v", mode, i, pair)
			}
		}
	}
}

// The picker's series have the names, types and labels that the real one's own
// tests expect. Those are not ours to copy: without them this is skipped.
func TestLLMD_series(t *testing.T) {
	files := recordtest.Names(t, "epp__*.txt")
	d := startLLMD(t, 1)
	ask(t, d.gateway.url, fmt.Sprintf(chat, "x", 4))
	until(t, "the report is in", d.epp, func() bool { return value(t, d.epp, "llm_d_epp_request_duration_seconds_count") == 1 })
	_, body := get(t, d.epp.url+"/metrics")
	got := shapes(t, body)
	compared := 0
	for _, file := range files {
		for name, want := range shapes(t, string(recordtest.Read(t, file))) {
			if strings.HasPrefix(name, "inference_model_") { // of releases before 1.1
				continue
			}
			compared++
			for shape := range want {
				if !got[name][shape] {
					t.Errorf("%s: %s is %v, expected %s", file, name, got[name], shape)
				}
			}
		}
	}
	if compared < 6 {
		t.Errorf("only %d series compared", compared)
	}
	// The catalogue names every new series' old one in its help.
	e, err := exposition.Parse([]byte(body), true)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`# HELP (inference_\w+) .*\[Deprecated: Use (\w+)\]`).FindAllStringSubmatch(body, -1) {
		if len(e.Named(m[2])) == 0 && len(e.HistogramsNamed(m[2])) == 0 {
			t.Errorf("%s without %s", m[1], m[2])
		}
	}
}
