//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"sweep.dev/sweep/result/store"
)

// A router before two real servers: its requests are theirs, and each replica's
// own metrics are kept apart.
func TestRouter_replicas(t *testing.T) {
	t.Parallel()
	need(t, "engines:llamacpp", ".engines/llamacpp/bin/python", ".engines/gemma-3-270m-q4_k_m.gguf")
	need(t, "engines:sglang-router", ".engines/sglang-router/bin/python")
	const requests = 4
	dir, rows := ran(t, "plans/local-router.yaml", requests, 2)
	for _, r := range rows {
		usable(t, r)
		if r.number(t, "completed") != float64(r.sent(t, requests)) {
			t.Errorf("%s: %s requests", r, r["completed"])
		}
		r.same(t, "completed", "router_server_requests")
		r.same(t, "output_tokens", "server_output_tokens", "server_server_output_tokens")
	}
	// Round robin: both replicas generated.
	f, err := os.Open(filepath.Join(dir, "samples.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	first, last := map[int]float64{}, map[int]float64{}
	for sample, err := range store.ReadSamples(f, st.Size()) {
		if err != nil {
			t.Fatal(err)
		}
		if sample.Role == "server" && sample.Name == "llamacpp:tokens_predicted_total" {
			if _, ok := first[sample.Replica]; !ok {
				first[sample.Replica] = sample.Value
			}
			last[sample.Replica] = max(last[sample.Replica], sample.Value)
		}
	}
	if len(last) != 2 {
		t.Fatalf("metrics of %d replicas, want 2", len(last))
	}
	for replica, tokens := range last {
		if tokens <= first[replica] {
			t.Errorf("replica %d generated nothing", replica)
		}
	}
}
