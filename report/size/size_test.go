package size

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sweep.dev/sweep/judge/search"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/reporttest"
	"sweep.dev/sweep/result"
)

// A kind of server, measured on cards each of which carries up to its own load.
type kind struct {
	gpu   string
	edges []float64 // the least load that each card fails at
	price float64   // of one server, USD per hour; 0 for none
	axis  string

	most      int // trials before the run stops; 0 is no bound
	simulated bool
}

// measured returns a run of one search, which has ended.
func measured(k kind) *report.Run {
	return reporttest.Searched{
		Axis: k.axis, GPU: k.gpu, Levels: search.Levels{5, 10, 15, 20, 25, 30}, MaxProbes: 200, Edges: k.edges, Most: k.most,
		Row: func(_ float64, device int, _ bool) result.Row {
			row := result.Row{"gpu_count": int64(2), "gpu_uuid": fmt.Sprintf("GPU-%s-%d", k.gpu, device), "conditions_digest": "same"}
			row["simulated"] = k.simulated
			if k.price > 0 {
				row["usd_per_hour"] = k.price
			}
			return row
		},
	}.Run()
}

func TestOf(t *testing.T) {
	t.Parallel()
	rate := func(gpu string, price float64, edges ...float64) kind {
		return kind{gpu: gpu, edges: edges, price: price, axis: "request_rate"}
	}
	for _, c := range []struct {
		name     string
		kinds    []kind
		load     float64
		servers  []string
		cheapest string
	}{
		{"whole servers", []kind{rate("l4", 1, 25)}, 41, []string{"l4 20: 3 servers, 6 GPUs, $3"}, "cannot tell: there is one kind"},
		{"no server too many", []kind{rate("l4", 1, 25)}, 40, []string{"l4 20: 2 servers, 4 GPUs, $2"}, "cannot tell: there is one kind"},
		{"one device", []kind{rate("l4", 1, 25), rate("h100", 9, 25)}, 40, []string{"l4 20: 2 servers, 4 GPUs, $2", "h100 20: 2 servers, 4 GPUs, $18"}, "cannot tell: l4 was not certified on several devices"},
		{"a clear gap", []kind{rate("l4", 1, 25, 20), rate("h100", 9, 25, 30)}, 40, []string{"l4 15: 3 servers, 6 GPUs, $3", "h100 20: 2 servers, 4 GPUs, $18"}, "l4"},
		{"a gap within the spread", []kind{rate("l4", 1, 25, 20), rate("h100", 1.4, 15, 30)}, 100, []string{"l4 15: 7 servers, 14 GPUs, $7", "h100 10: 10 servers, 20 GPUs, $14"}, "cannot tell: the gap between l4 and h100"},
		{"no price", []kind{rate("l4", 0, 25, 25), rate("h100", 9, 25, 25)}, 40, []string{"l4 20: 2 servers, 4 GPUs, $-", "h100 20: 2 servers, 4 GPUs, $18"}, "cannot tell: not all have a price"},
		{"not certified", []kind{rate("l4", 1, 5), rate("h100", 9, 25)}, 40, []string{"h100 20: 2 servers, 4 GPUs, $18", "l4: no load is certified: below_range"}, "cannot tell: there is one kind"},
		{"one is not decided", []kind{rate("l4", 1, 25, 20), rate("h100", 9, 25, 30), {gpu: "h200", edges: []float64{30}, price: 1, axis: "request_rate", most: 1}}, 40, []string{"l4 15: 3 servers, 6 GPUs, $3", "h100 20: 2 servers, 4 GPUs, $18", "h200: no load is certified"}, "cannot tell: that of h200 is not decided"},
		{"one is simulated", []kind{rate("l4", 1, 25, 20), {gpu: "h100", edges: []float64{25, 30}, price: 9, axis: "request_rate", simulated: true}}, 40, []string{"l4 15: 3 servers, 6 GPUs, $3", "h100 20: 2 servers, 4 GPUs, $18"}, "cannot tell: some of them are simulated"},
		{"users at once", []kind{{gpu: "l4", edges: []float64{25}, price: 1, axis: "concurrency"}}, 40, []string{"l4: its search is of concurrency"}, ""},
	} {
		var runs []*report.Run
		for _, k := range c.kinds {
			runs = append(runs, measured(k))
		}
		answers := Of(runs, c.load, "")
		if len(answers) != 1 {
			t.Errorf("%s: %d answers", c.name, len(answers))
			continue
		}
		a := &answers[0]
		var got []string
		for _, s := range a.Servers {
			price := "-"
			if s.USDPerHour != nil {
				price = fmt.Sprint(*s.USDPerHour)
			}
			got = append(got, fmt.Sprintf("%s %v: %d servers, %d GPUs, $%s", s.Name, s.Capacity, s.Count, *s.GPUs, price))
		}
		for _, l := range a.Left {
			got = append(got, l.Name+": "+l.Why)
		}
		if len(got) != len(c.servers) || slices.ContainsFunc(got, func(line string) bool {
			return !slices.ContainsFunc(c.servers, func(want string) bool { return strings.HasPrefix(line, want) })
		}) {
			t.Errorf("%s: %q, want %q", c.name, got, c.servers)
		}
		if said := strings.TrimPrefix(a.Conclusion(), "cheapest: "); len(a.Servers) > 0 && !strings.HasPrefix(said, c.cheapest) {
			t.Errorf("%s: %q, want %q", c.name, said, c.cheapest)
		}
	}
	if got := Of([]*report.Run{measured(rate("l4", 1, 25))}, 40, "another"); got != nil {
		t.Errorf("an objective that no plan has: %v", got)
	}
}
