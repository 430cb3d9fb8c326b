package export

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sweep.dev/sweep/result/col"
)

// TestGrafana: the dashboard names exported metrics alone, and its panels have their own
// numbers and places.
func TestGrafana(t *testing.T) {
	data, err := os.ReadFile("../../docs/export/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	type target struct{ Expr, RefID string }
	type place struct{ X, Y, W, H int }
	var d struct {
		Title, UID string
		Templating struct {
			List []struct{ Name, Query string }
		}
		Panels []struct {
			ID      int
			Title   string
			GridPos place
			Targets []target
		}
	}
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	metric := regexp.MustCompile(`sweep_[a-z0-9_]+`)
	var texts []string
	for _, v := range d.Templating.List {
		texts = append(texts, v.Query)
	}
	ids, places := map[int]bool{}, []place{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.ID == 0 || len(p.Targets) == 0 {
			t.Errorf("panel %q: number %d stands twice, or it asks for nothing", p.Title, p.ID)
		}
		ids[p.ID] = true
		g := p.GridPos
		for _, o := range places {
			if g.X < o.X+o.W && o.X < g.X+g.W && g.Y < o.Y+o.H && o.Y < g.Y+g.H {
				t.Errorf("panel %q lies over another", p.Title)
			}
		}
		if g.W < 1 || g.H < 1 || g.X+g.W > 24 {
			t.Errorf("panel %q has the place %+v", p.Title, g)
		}
		places = append(places, g)
		for _, q := range p.Targets {
			texts = append(texts, q.Expr)
		}
	}
	if len(d.Panels) < 6 || d.Title == "" || d.UID == "" {
		t.Errorf("%d panels, title %q, uid %q", len(d.Panels), d.Title, d.UID)
	}
	for _, text := range texts {
		names := metric.FindAllString(text, -1)
		if len(names) == 0 {
			t.Errorf("%q names no metric", text)
		}
		for _, name := range names {
			if !slices.Contains(metrics(), name) {
				t.Errorf("%s is not exported", name)
			}
		}
	}
}

var update = flag.Bool("update", false, "write the golden files anew")

// TestPrometheus_sample holds docs/export/sweep.prom: every metric of one trial, against
// which tools/grafana holds the queries of the dashboard.
func TestPrometheus_sample(t *testing.T) {
	const sample = "../../docs/export/sweep.prom"
	m := plain().with(col.SLOPass, true)
	m.set = map[string]any{col.Engine: "vllm", col.GPU: "l40s", col.Concurrency: 8}
	for latency, of := range map[string][4]float64{
		"ttft": {110, 150, 182, 240}, "tpot": {16, 17, 17.4, 18}, "itl": {15, 20, 24, 40}, "e2e": {2100, 2300, 2400, 2600},
	} {
		for i, p := range []string{"p50", "p90", "p95", "p99"} {
			m = m.with(col.Latency(p, latency), of[i])
		}
	}
	for column, value := range map[string]any{
		col.ThroughputTokS: 444.0, col.TotalThroughputTokS: 2220.0, col.P50UserTokS: 62.5, col.RequestThroughput: 3.47, col.GoodputReqS: 3.4,
		col.ErrorRate: 0.0, col.DurationS: 60.0, col.MaxRequestsWaiting: 2.0, col.MaxKVCacheUsage: 0.31, col.MeanGPUPowerW: 260.0,
		col.JoulesPerOutputToken: 0.59, col.CostUSD: 0.013, col.USDPer1MOutputTokens: 0.5,
	} {
		m = m.with(column, value)
	}
	got := exported(t, open(t, m), "prometheus", Options{}).data(t, "sweep.prom")
	if *update {
		if err := os.WriteFile(sample, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(sample)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got; -update writes it anew):\n%s", sample, diff)
	}
	for _, name := range metrics() {
		if !bytes.Contains(got, []byte("\n"+name+"{")) {
			t.Errorf("%s lacks %s", sample, name)
		}
	}
}
