package quantities

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/exposition"
)

func parse(t *testing.T, body string) *exposition.Exposition {
	t.Helper()
	e, err := exposition.Parse([]byte(body), true)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// One engine, one quantity, and every way to write its names.
func TestFind(t *testing.T) {
	vllm := []string{"vllm:", "vllm_", "ray_vllm:"}
	tests := []struct {
		name, body string
		s          engine.Series
		prefixes   []string
		kind       string
		want       []float64
	}{
		{"as written", "vllm:x 3", engine.Series{Name: "vllm:x"}, vllm, engine.Gauge, []float64{3}},
		{"an underscore", "vllm_x 3", engine.Series{Name: "vllm:x"}, vllm, engine.Gauge, []float64{3}},
		{"inside Ray", "ray_vllm:x 3", engine.Series{Name: "vllm:x"}, vllm, engine.Gauge, []float64{3}},
		{"bare, where the engine has it so", "x 3", engine.Series{Name: "vllm:x"}, []string{"vllm:", ""}, engine.Gauge, []float64{3}},
		{"bare, where not", "x 3", engine.Series{Name: "vllm:x"}, vllm, engine.Gauge, nil},
		{"two prefixes, of which one counts", "llm_d_epp_x 3\ninference_x 3", engine.Series{Name: "llm_d_epp_x"}, []string{"llm_d_epp_", "inference_"}, engine.Gauge, []float64{3}},
		{"what is added has the same prefix", "b_x_total 3\nb_y_total 4\na_y_total 9", engine.Series{Name: "a_x_total", Plus: []string{"a_y_total"}}, []string{"a_", "b_"}, engine.Counter, []float64{3, 4}},
		{"a counter without _total", "tgi_x 3", engine.Series{Name: "tgi_x_total"}, nil, engine.Counter, []float64{3}},
		{"and with it", "tgi_x_total 3", engine.Series{Name: "tgi_x"}, nil, engine.Counter, []float64{3}},
		{"a gauge is not a counter", "x_total 3", engine.Series{Name: "x"}, nil, engine.Gauge, nil},
		{"the sum of a histogram", "# TYPE h histogram\nh_bucket{le=\"+Inf\"} 2\nh_sum 7\nh_count 2", engine.Series{Name: "h_sum"}, nil, engine.Counter, []float64{7}},
		{"the sum of a summary", "# TYPE h summary\nh_sum 7\nh_count 2", engine.Series{Name: "h_sum"}, nil, engine.Counter, []float64{7}},
		{"only some", "m{t=\"a\"} 3\nm{t=\"b\"} 5", engine.Series{Name: "m", Match: map[string]string{"t": "a"}}, nil, engine.Gauge, []float64{3}},
		{"not some", "m{t=\"a\"} 3\nm{t=\"b\"} 5\nm{t=\"c\"} 6", engine.Series{Name: "m", Not: map[string][]string{"t": {"a", "c"}}}, nil, engine.Gauge, []float64{5}},
		{"a label", "i{n=\"16\"} 1", engine.Series{Name: "i", Label: "n"}, nil, engine.Gauge, []float64{16}},
		{"a label that says nothing", "i{n=\"None\"} 1", engine.Series{Name: "i", Label: "n"}, nil, engine.Gauge, nil},
		{"two labels", "i{n=\"16\",m=\"4\"} 1", engine.Series{Name: "i", Label: "n", Times: &engine.Series{Label: "m"}}, nil, engine.Gauge, []float64{64}},
		{"two labels, one of them nothing", "i{n=\"16\",m=\"None\"} 1", engine.Series{Name: "i", Label: "n", Times: &engine.Series{Name: "i", Label: "m"}}, nil, engine.Gauge, nil},
		{"two series", "a{pid=\"7\"} 3\nb{pid=\"8\"} 5", engine.Series{Name: "a", Times: &engine.Series{Name: "b"}}, nil, engine.Gauge, []float64{15}},
		{"two series by their labels", "a{n=\"x\"} 3\na{n=\"y\"} 4\nb{n=\"x\"} 10\nb{n=\"y\"} 100", engine.Series{Name: "a", Times: &engine.Series{Name: "b"}}, nil, engine.Gauge, []float64{30, 400}},
		{"two series, one missing", "a 3", engine.Series{Name: "a", Times: &engine.Series{Name: "b"}}, nil, engine.Gauge, nil},
		{"scaled", "a 300", engine.Series{Name: "a", Scale: 0.01}, nil, engine.Gauge, []float64{3}},
		{"no value", "a NaN", engine.Series{Name: "a"}, nil, engine.Gauge, nil},
		{"what the router asks a worker", "r_total{dynamo_endpoint=\"generate\"} 7\nr_total{dynamo_endpoint=\"worker_kv_query\"} 90", engine.Series{Name: "r_total"}, nil, engine.Counter, []float64{7}},
		{"data-parallel replicas of two tensor ranks", "a{dp_rank=\"0\",tp_rank=\"0\"} 1\na{dp_rank=\"0\",tp_rank=\"1\"} 1\na{dp_rank=\"1\",tp_rank=\"2\"} 2\na{dp_rank=\"1\",tp_rank=\"3\"} 2", engine.Series{Name: "a"}, nil, engine.Gauge, []float64{1, 2}},
		{"expert ranks", "a{moe_ep_rank=\"0\",tp_rank=\"0\"} 1\na{moe_ep_rank=\"1\",tp_rank=\"1\"} 1", engine.Series{Name: "a"}, nil, engine.Gauge, []float64{1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := parse(t, tt.body+"\n")
			var got []float64
			if f, ok := Find(e, tt.s, tt.prefixes, engine.Quantity{Kind: tt.kind}); ok {
				for _, p := range f.Points(e) {
					got = append(got, p.Value)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A value that stands for unknown is not found, whether the quantity cannot have
// it, the engine's profile says so, or what it needs is unknown.
func TestFind_unknown(t *testing.T) {
	needs := engine.Series{Name: "rate", Needs: &engine.Series{Name: "length", Unknown: []float64{0}}}
	tests := []struct {
		name, body string
		s          engine.Series
		quantity   string
		want       []float64
	}{
		{"a cache without blocks", "x 0", engine.Series{Name: "x"}, engine.KVCacheBlocks, nil},
		{"a queue without requests", "x 0", engine.Series{Name: "x"}, engine.RequestsWaiting, []float64{0}},
		{"fewer than no requests", "x -1", engine.Series{Name: "x"}, engine.RequestsWaiting, nil},
		{"a share in percent", "x 87", engine.Series{Name: "x"}, engine.PrefixHitRate, nil},
		{"the engine's own value", "x{p=\"0\"} 9\nx{p=\"1\"} 3", engine.Series{Name: "x", Unknown: []float64{9}}, engine.RequestsWaiting, []float64{3}},
		{"before it is scaled", "x 9", engine.Series{Name: "x", Unknown: []float64{9}, Scale: 2}, engine.RequestsWaiting, nil},
		{"a real zero beside what it needs", "rate 0\nlength 1", needs, engine.SpecAcceptRate, []float64{0}},
		{"a zero beside an unknown", "rate 0\nlength 0", needs, engine.SpecAcceptRate, nil},
		{"a zero without what it needs", "rate 0", needs, engine.SpecAcceptRate, nil},
		{"each by its labels", "rate{e=\"0\"} 0.1\nrate{e=\"1\"} 0\nlength{e=\"0\"} 2\nlength{e=\"1\"} 0", needs, engine.SpecAcceptRate, []float64{0.1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := parse(t, tt.body+"\n")
			q, _ := engine.LookupQuantity(tt.quantity)
			var got []float64
			if f, ok := Find(e, tt.s, nil, q); ok {
				for _, p := range f.Points(e) {
					got = append(got, p.Value)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDedup(t *testing.T) {
	tests := []struct {
		name, body string
		want       float64 // the sum
	}{
		{"tensor-parallel ranks say the same", `x{tp_rank="0"} 3` + "\n" + `x{tp_rank="1"} 3`, 3},
		{"data-parallel replicas add up", `x{tp_rank="0",dp_rank="0"} 3` + "\n" + `x{tp_rank="1",dp_rank="1"} 4`, 7},
		{"pipeline ranks say the same", `x{pp_rank="0"} 3` + "\n" + `x{pp_rank="1"} 5`, 3},
		{"priorities beside their total", `x{priority=""} 3` + "\n" + `x{priority="1"} 2` + "\n" + `x{priority="2"} 1`, 3},
		{"priorities without one", `x{priority="1"} 2` + "\n" + `x{priority="2"} 1`, 3},
		{"processes of which one set it", `x{pid="7"} 0` + "\n" + `x{pid="8"} 0.4` + "\n" + `x{pid="9"} NaN`, 0.4},
		{"processes of two engines", `x{pid="7",engine="0"} 1` + "\n" + `x{pid="7",engine="1"} 2`, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := parse(t, tt.body+"\n")
			s := engine.Series{Name: "x"}
			f, ok := Find(e, s, nil, engine.Quantity{Kind: engine.Gauge})
			if !ok {
				t.Fatal("not found")
			}
			if got, _ := within(engine.RequestsRunning, s, f.Points(e)); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// A quantile has a value where its bucket and the mean leave no other order of
// magnitude; else only the bounds of its bucket are known.
func TestQuantile(t *testing.T) {
	inf, none := math.Inf(1), math.NaN()
	tests := []struct {
		name   string
		les    []float64
		cum    []float64
		mean   float64
		q      float64
		want   float64 // NaN for unknown
		bounds string  // "" for no bucket
	}{
		{"inside the second bucket", []float64{1, 2, inf}, []float64{5, 15, 15}, 1.2, 0.5, 1.25, "1 to 2"},
		{"behind empty buckets", []float64{1, 2, 4, inf}, []float64{0, 0, 10, 10}, 3, 0.5, 3, "2 to 4"},
		{"exactly on a bound", []float64{1, 2, inf}, []float64{0, 5, 10}, 2, 0.5, 2, "1 to 2"},
		{"inside the first bucket", []float64{1, inf}, []float64{10, 10}, 0.5, 0.5, none, "< 1"},
		{"at the end of the first bucket", []float64{1, inf}, []float64{5, 10}, 1.5, 0.5, none, "< 1"},
		{"beyond the last bound nobody knows", []float64{1, inf}, []float64{5, 10}, 2, 0.9, none, "> 1"},
		{"only +Inf", []float64{inf}, []float64{10}, 2, 0.5, none, ""},
		{"a bucket at zero", []float64{0, 1, inf}, []float64{10, 10, 10}, 0, 0.5, 0, "< 0"},
		{"behind a bucket at zero", []float64{0, 1, inf}, []float64{1, 10, 10}, 0.1, 0.5, none, "< 1"},
		{"a mean that the bucket fits", []float64{1, 4, inf}, []float64{2, 10, 10}, 2, 0.5, 2.125, "1 to 4"},
		{"a mean that allows less than the bucket", []float64{1, 4, inf}, []float64{2, 10, 10}, 1.9, 0.5, none, "1 to 4"},
		{"which allows it further out", []float64{1, 4, inf}, []float64{2, 10, 10}, 1.9, 0.95, 3.8125, "1 to 4"},
		{"a histogram without a sum", []float64{1, 4, inf}, []float64{2, 10, 10}, none, 0.5, 2.125, "1 to 4"},
		{"nothing", []float64{1, inf}, []float64{0, 0}, none, 0.5, none, ""},
		{"no buckets", nil, nil, none, 0.5, none, ""},
		{"a dip", []float64{1, 2, 3, inf}, []float64{5, 4, 10, 10}, 2, 0.8, 2.6, "2 to 3"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := Snap{les: tt.les, cum: tt.cum, Count: 1, Sum: tt.mean}
			if n := len(tt.cum); n > 0 {
				s.Count, s.Sum = tt.cum[n-1], tt.mean*tt.cum[n-1]
			}
			got, ok := s.Quantile(tt.q)
			if ok != (tt.bounds != "") || ok && got.Bounds(1) != tt.bounds {
				t.Errorf("got %q, %v, want %q", got.Bounds(1), ok, tt.bounds)
			}
			if got.Known == math.IsNaN(tt.want) || got.Known && math.Abs(got.Value-tt.want) > 1e-9 {
				t.Errorf("got %v, %v, want %v", got.Value, got.Known, tt.want)
			}
		})
	}
}

// The quantile lies in the bucket in which the exact one lies, and the mean never
// refuses a bucket that the exact one fills.
func TestQuantile_bracketsTheExactOne(t *testing.T) {
	les := []float64{0.1, 0.25, 0.5, 1, 2.5, 5, math.Inf(1)}
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(0.0001, 4.99), 1, 200).Draw(t, "values")
		q := rapid.Float64Range(0.01, 0.99).Draw(t, "q")
		s := Snap{les: les, cum: make([]float64, len(les)), Count: float64(len(values))}
		for _, v := range values {
			s.Sum += v
			for i, le := range les {
				if v <= le {
					s.cum[i]++
				}
			}
		}
		got, ok := s.Quantile(q)
		if !ok {
			t.Fatal("no quantile")
		}
		slices.Sort(values)
		exact := values[int(math.Ceil(q*float64(len(values))))-1]
		if exact <= got.Low || exact > got.High {
			t.Fatalf("%v is not in (%v, %v]", exact, got.Low, got.High)
		}
		if got.Known && (got.Value < got.Low || got.Value > got.High) {
			t.Fatalf("%v is not in (%v, %v]", got.Value, got.Low, got.High)
		}
		if limit := s.Sum / s.Count / (1 - q); exact > limit*(1+1e-9) {
			t.Fatalf("%v is more than the mean allows, %v", exact, limit)
		}
	})
}

// A counter that an engine makes with its first failure is 0 before that, and what
// it has then was counted since.
func TestWindow_zero(t *testing.T) {
	m := &engine.Metrics{
		Prefixes: []string{"e:", "e_"},
		Series: map[string][]engine.Series{engine.RequestsFailed: {
			{Name: "e:failed_total", Zero: &engine.Series{Name: "e:requests_total"}},
		}},
	}
	const ok = "e:requests_total{end=\"ok\"} 5\n"
	tests := []struct {
		name   string
		bodies []string
		part   int // of the bodies, the one that is not complete; -1 for none
		want   float64
		known  bool
	}{
		{"no failure", []string{ok, ok}, -1, 0, true},
		{"before the first request", []string{"up 1\n", ok}, -1, 0, true},
		{"by the name of a gateway", []string{"e_requests_total 5\n", "e_requests_total 6\n"}, -1, 0, true},
		{"its first failures", []string{ok, ok + "e:failed_total 2\n", ok + "e:failed_total 3\n"}, -1, 3, true},
		{"failures of before", []string{ok + "e:failed_total 2\n", ok + "e:failed_total 2\n"}, -1, 0, true},
		{"nothing says that there were requests", []string{"up 1\n", "up 1\n"}, -1, 0, false},
		{"a line that cannot be read", []string{ok + "e:failed_total 1_0\n", ok + "e:failed_total 1_0\n"}, -1, 0, false},
		{"a body that may be cut", []string{"up 1\n", ok}, 1, 0, false},
		{"known to be 0 after a body that may be cut", []string{ok, ok, ok + "e:failed_total 2\n"}, 0, 2, true},
		{"not known before it came", []string{"up 1\n", ok + "e:failed_total 2\n"}, 0, 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := NewWindow(m)
			for i, b := range tt.bodies {
				w.Observe(Body{Exposition: parse(t, b), Round: i, Whole: i != tt.part})
			}
			if got, known := w.gained(engine.RequestsFailed); got != tt.want || known != tt.known {
				t.Errorf("got %v, %v, want %v, %v", got, known, tt.want, tt.known)
			}
		})
	}
}
