package prom

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"sweep.dev/sweep/collectors/disagg"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/recordtest"
	"sweep.dev/sweep/result"
)

// recordedVLLM returns a page that vLLM 0.32 showed, with other values of some of its series:
// "name{label}" as they begin there.
func recordedVLLM(t *testing.T, values map[string]float64) string {
	t.Helper()
	page := string(recordtest.Read(t, "recorded__vllm-0.32.0__metrics.txt"))
	for series, v := range values {
		line := regexp.MustCompile(`(?m)^(` + series + `) .*$`)
		if !line.MatchString(page) {
			t.Fatalf("the recording has no %s", series)
		}
		page = line.ReplaceAllString(page, "${1} "+strconv.FormatFloat(v, 'f', -1, 64))
	}
	return page
}

const (
	finishedSeries = `vllm:request_success_total\{[^}]*finished_reason="length"[^}]*\}`
	receivedSeries = `vllm:prompt_tokens_by_source_total\{[^}]*source="external_kv_transfer"[^}]*\}`
	promptSeries   = `vllm:prompt_tokens_total\{[^}]*\}`
	cachedSeries   = `vllm:external_prefix_cache_hits_total\{[^}]*\}`
)

// Whether llm-d's servers prefilled and decoded apart, by pages as vLLM 0.32 shows them
// and the router's decisions under each of their names.
func TestDisaggregated(t *testing.T) {
	p := profile(t, "llm-d")
	vllm := func(role string, finished, received float64, more ...string) *server {
		at := func(n, m float64) string {
			return recordedVLLM(t, map[string]float64{finishedSeries: n, receivedSeries: m, cachedSeries: m}) + strings.Join(more, "\n")
		}
		return seen(t, role, engine.TierEngine, p.MetricsOf(role), at(5, 70), at(5+finished, 70+received))
	}
	picker := func(name string, split, all int) *server {
		at := func(a, b int) string {
			return name + `{decision_type="prefill-decode"} ` + strconv.Itoa(a) + "\n" + name + `{decision_type="decode-only"} ` + strconv.Itoa(b) + "\n"
		}
		return seen(t, "epp", engine.TierRouter, p.MetricsOf("epp"), at(0, 3), at(split, 3+all-split))
	}
	const failed = "vllm:nixl_num_failed_transfers_total 2\n"
	for name, tt := range map[string]struct {
		servers []*server
		want    result.Row
	}{
		"proven": {
			[]*server{vllm("prefill", 100, 0), vllm("decode", 60, 120_000), vllm("decode", 40, 70_000), picker("llm_d_epp_disagg_decision_total", 100, 100)},
			result.Row{"pd": "proven", "pd_share": 1.0, "kv_transfer_tokens": int64(190_000), "decode_kv_transfer_tokens": int64(190_000), "prefill_kv_transfer_tokens": int64(0)},
		},
		// All of the router's decisions were for prefill, and none of it was done.
		"a silent prefill": {
			[]*server{vllm("prefill", 0, 0), vllm("decode", 100, 0), picker("llm_d_inference_scheduler_disagg_decision_total", 100, 100)},
			result.Row{"pd": "absent", "pd_share": 0.0, "kv_transfer_tokens": int64(0)},
		},
		"a half": {
			[]*server{vllm("prefill", 50, 0), vllm("decode", 100, 95_000)},
			result.Row{"pd": "partial", "pd_share": 0.5},
		},
		"one prefill server is not read": {
			[]*server{vllm("prefill", 50, 0), seen(t, "prefill", engine.TierEngine, p.MetricsOf("prefill"), "", ""), vllm("decode", 100, 190_000), picker("llm_d_inference_scheduler_pd_decision_total", 98, 100)},
			result.Row{"pd": "proven", "pd_share": 0.98},
		},
		"failures": {
			[]*server{vllm("prefill", 100, 0), vllm("decode", 100, 190_000, failed)},
			result.Row{"kv_transfer_failures": int64(0), "pd": "proven"},
		},
		"no servers": {
			nil,
			result.Row{"pd": "unknown", "pd_share": nil},
		},
	} {
		t.Run(name, func(t *testing.T) {
			row := makeRow(p, tt.servers)
			found := prove(row, p, tt.servers, disagg.Allowed{Share: 0.05})
			checkRow(t, row, tt.want)
			// All but a proof is a finding, with the reason.
			if proven := row["pd"] == "proven"; proven != (len(found) == 0) || !proven && (found[0].Code.String() != "pd_"+row["pd"].(string) || found[0].Text == "") {
				t.Errorf("pd %v, findings %+v", row["pd"], found)
			}
		})
	}
	one := []*server{vllm("server", 1, 1)}
	row := makeRow(profile(t, "vllm"), one)
	if prove(row, profile(t, "vllm"), one, disagg.Allowed{Share: 0.05}); row["pd"] != nil {
		t.Errorf("a server of one role: %v", row["pd"])
	}
}

// A router that leaves short prompts to decode servers counts them, and they are apart.
func TestDisaggregated_left(t *testing.T) {
	p := profile(t, "llm-d")
	page := func(finished, received, prompts float64) string {
		return recordedVLLM(t, map[string]float64{finishedSeries: finished, receivedSeries: received, cachedSeries: received, promptSeries: prompts})
	}
	decisions := func(split, all int) string {
		const name = "llm_d_epp_disagg_decision_total"
		return name + `{decision_type="prefill-decode"} ` + strconv.Itoa(split) + "\n" + name + `{decision_type="decode-only"} ` + strconv.Itoa(all-split) + "\n"
	}
	servers := []*server{
		seen(t, "prefill", engine.TierEngine, p.MetricsOf("prefill"), page(5, 0, 0), page(45, 0, 80_000)),
		seen(t, "decode", engine.TierEngine, p.MetricsOf("decode"), page(5, 0, 1_000), page(105, 80_000, 84_000)),
		seen(t, "epp", engine.TierRouter, p.MetricsOf("epp"), decisions(3, 5), decisions(43, 105)),
	}
	row := makeRow(p, servers)
	if found := prove(row, p, servers, disagg.Allowed{Share: 0.05, Below: 64}); len(found) > 0 {
		t.Errorf("a threshold of 64: %+v", found)
	}
	checkRow(t, row, result.Row{"pd": "proven", "pd_share": 1.0, "pd_left": int64(60)})
	row = makeRow(p, servers)
	prove(row, p, servers, disagg.Allowed{Share: 0.05})
	checkRow(t, row, result.Row{"pd": "partial", "pd_share": 0.4, "pd_left": nil})
}
