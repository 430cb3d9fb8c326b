package gpu

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sweep.dev/sweep/internal/gpustate"
	"sweep.dev/sweep/result"
)

const (
	second = time.Second
	mib    = 1 << 20
)

// board returns a reading of values as they are read best.
func board(index string, busy, usedMiB, watts, temp float64) gpustate.Reading {
	return gpustate.Reading{
		Index: index, UUID: "GPU-" + index, Driver: "590.48.01",
		Values: map[string]float64{
			gpustate.Util: busy, gpustate.MemoryUsed: usedMiB * mib, gpustate.MemoryTotal: 1000 * mib, gpustate.MemoryFree: (1000 - usedMiB) * mib,
			gpustate.Power: watts, gpustate.Temperature: temp, gpustate.ClockSM: 10 * busy, gpustate.Bandwidth: busy / 2,
		},
	}
}

func with(r gpustate.Reading, quantity string, v float64) gpustate.Reading {
	r.Values[quantity] = v
	return r
}

func without(r gpustate.Reading, quantity string) gpustate.Reading {
	delete(r.Values, quantity)
	return r
}

// compare holds columns of a row.
func compare(t *testing.T, got, want result.Row) {
	t.Helper()
	have := make(result.Row, len(want))
	for name := range want {
		have[name] = got[name]
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWindow(t *testing.T) {
	w := newWindow(5 * second)
	w.observe(0, 0, []gpustate.Reading{board("1", 3, 100, 50, 40), board("0", 0, 100, 50, 40)}, false)
	w.begin(0)
	w.observe(0, 1*second, []gpustate.Reading{board("1", 100, 200, 200, 60), board("0", 50, 300, 100, 50)}, true)
	w.observe(0, 2*second, []gpustate.Reading{board("1", 100, 250, 200, 70), board("0", 100, 200, 300, 50)}, true)
	w.observe(0, 3*second, []gpustate.Reading{board("1", 0, 100, 50, 60), board("0", 0, 100, 50, 40)}, false)
	want := result.Row{
		"mean_gpu_util": 87.5, "max_gpu_util": 100.0,
		"max_gpu_memory_used_bytes": int64(500 * mib), "gpu_memory_total_bytes": int64(2000 * mib),
		"min_gpu_memory_free_bytes": int64(1500 * mib), "gpu_memory_idle_bytes": int64(200 * mib),
		"gpu_util_idle":                  1.5,
		"mean_gpu_memory_bandwidth_util": 43.75, "mean_gpu_clock_mhz": 875.0,
		"mean_gpu_power_w": 400.0, "max_gpu_temp_c": 70.0,
		"gpu_energy_j":      200.0 + 400 + 300, // (100+300)/2, (300+500)/2, (500+100)/2
		"gpu_energy_source": "integrated",
		"gpu_throttled_ms":  nil, "gpu_throttle_reasons": nil, "gpu_foreign_processes": nil,
		"min_gpu_power_limit_w": nil, "min_gpu_clock_limit_mhz": nil,
		"gpu_uuid": "GPU-0,GPU-1", "driver_version": "590.48.01",
	}
	if diff := cmp.Diff(want, w.row(true)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	compare(t, w.row(false), result.Row{"gpu_energy_j": nil, "gpu_energy_source": nil})
}

// The least limit of the GPUs counts, by the last look at each; one that does not say its
// own may have less.
func TestWindow_limits(t *testing.T) {
	look := func(w *window, at time.Duration, watts, mhz float64) {
		known := with(with(board("0", 50, 100, 50, 40), gpustate.PowerLimit, 700), gpustate.ClockSMLimit, 1980)
		other := with(board("1", 50, 100, 50, 40), gpustate.PowerLimit, watts)
		if mhz > 0 {
			other = with(other, gpustate.ClockSMLimit, mhz)
		}
		w.observe(0, at, []gpustate.Reading{known, other}, at > 0)
	}
	w := newWindow(5 * second)
	look(w, 0, 700, 1980)
	w.begin(0)
	look(w, second, 500, 1410)
	compare(t, w.row(true), result.Row{"min_gpu_power_limit_w": 500.0, "min_gpu_clock_limit_mhz": 1410.0})

	w = newWindow(5 * second)
	look(w, 0, 500, 0)
	w.begin(0)
	compare(t, w.row(true), result.Row{"min_gpu_power_limit_w": 500.0, "min_gpu_clock_limit_mhz": nil})
}

// Replicas on one machine see the same GPUs, which count once; other machines'
// are summed, though each is looked at for itself.
func TestWindow_hosts(t *testing.T) {
	w := newWindow(5 * second)
	for at := range 4 {
		loaded := at == 1 || at == 2
		if at == 1 {
			w.begin(500 * time.Millisecond)
		}
		d := time.Duration(at) * second
		w.observe(0, d, []gpustate.Reading{board("0", 80, 100, 100, 40)}, loaded)
		w.observe(1, d+100*time.Millisecond, []gpustate.Reading{board("0", 80, 100, 100, 40)}, loaded) // the same
		w.observe(2, d+200*time.Millisecond, []gpustate.Reading{board("7", 40, 300, 50, 50)}, loaded)
	}
	compare(t, w.row(true), result.Row{
		"mean_gpu_util": 60.0, "max_gpu_memory_used_bytes": int64(400 * mib), "mean_gpu_power_w": 150.0,
		"gpu_energy_j": 100*2.5 + 50*2.7, "gpu_uuid": "GPU-0,GPU-7",
	})
}

// GPUs without a UUID are told apart by their host and their number.
func TestWindow_nameless(t *testing.T) {
	w := newWindow(5 * second)
	for host := range 2 {
		r := board("0", 50, 100, 10, 20)
		r.UUID = ""
		w.observe(host, 0, []gpustate.Reading{r}, false)
	}
	w.begin(0)
	w.observe(0, second, nil, false)
	compare(t, w.row(true), result.Row{"max_gpu_memory_used_bytes": int64(200 * mib), "gpu_uuid": nil})
}

// Energy counts from the moment that the load begins, however long before it the
// first look was.
func TestWindow_begin(t *testing.T) {
	w := newWindow(5 * second)
	w.observe(0, 0, []gpustate.Reading{board("0", 0, 1, 40, 30)}, false)
	w.begin(30 * second)
	w.observe(0, 31*second, []gpustate.Reading{board("0", 50, 1, 60, 30)}, true)
	w.observe(0, 32*second, []gpustate.Reading{board("0", 0, 1, 40, 30)}, false)
	compare(t, w.row(true), result.Row{"gpu_energy_j": 100.0, "gpu_energy_source": "integrated"})
}

func TestWindow_counter(t *testing.T) {
	type look struct{ at, joules, watts float64 } // NaN: not told
	nan := math.NaN()
	tests := []struct {
		name   string
		begin  float64
		looks  []look
		joules any
		source any
	}{
		{"its increase", 0, []look{{0, 1000, 50}, {1, 1300, 300}, {2, 1600, 300}, {3, 1650, 50}}, 650.0, "counter"},
		{"what was before the load, at the power then", 10, []look{{0, 1000, 50}, {11, 1800, 300}, {12, 2100, 300}}, 600.0, "counter"},
		{"the same, without a power", 10, []look{{0, 1000, nan}, {20, 1800, nan}, {21, 2100, nan}}, 700.0, "counter"},
		{"a look that misses it", 0, []look{{0, 1000, nan}, {1, nan, nan}, {2, 1600, nan}}, 600.0, "counter"},
		{"a restart of the driver", 0, []look{{0, 1000, 100}, {1, 1100, 100}, {2, 50, 100}, {3, 150, 100}}, 300.0, "integrated"},
		{"a restart, and no power", 0, []look{{0, 1000, nan}, {1, 1100, nan}, {2, 50, nan}}, nil, nil},
		{"one that stands still", 0, []look{{0, 0, 100}, {1, 0, 100}, {2, 0, 100}}, 200.0, "integrated"},
		{"one that an exporter renews rarely", 0, []look{{0, 1000, 100}, {1, 1000, 100}, {2, 1000, 100}, {3, 4000, 100}, {4, 4000, 100}}, 400.0, "integrated"},
		{"one that is not renewed when the load begins", 0.5, []look{{0, 1000, 50}, {1, 1000, 300}, {2, 1325, 300}, {3, 1625, 50}}, 600.0, "counter"},
		{"a long gap", 0, []look{{0, 1000, 100}, {60, 7000, 100}}, 6000.0, "counter"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWindow(5 * second)
			for i, l := range tt.looks {
				r := without(board("0", 50, 1, 1, 1), gpustate.Power)
				if !math.IsNaN(l.joules) {
					with(r, gpustate.Energy, l.joules)
				}
				if !math.IsNaN(l.watts) {
					with(r, gpustate.Power, l.watts)
				}
				w.observe(0, time.Duration(l.at*float64(second)), []gpustate.Reading{r}, i > 0 && i < len(tt.looks)-1)
				if i == 0 {
					w.begin(time.Duration(tt.begin * float64(second)))
				}
			}
			compare(t, w.row(true), result.Row{"gpu_energy_j": tt.joules, "gpu_energy_source": tt.source})
		})
	}
}

func TestWindow_unknownPower(t *testing.T) {
	mute := func() gpustate.Reading { return without(board("0", 50, 100, 0, 40), gpustate.Power) }
	tests := []struct {
		name string
		feed func(*window)
	}{
		{"a look without", func(w *window) {
			w.observe(0, 0, []gpustate.Reading{board("0", 0, 1, 50, 1)}, false)
			w.observe(0, 1*second, []gpustate.Reading{mute()}, true)
			w.observe(0, 2*second, []gpustate.Reading{board("0", 0, 1, 50, 1)}, false)
		}},
		{"one of two cards without", func(w *window) {
			other := mute()
			other.UUID = "GPU-x"
			w.observe(0, 0, []gpustate.Reading{board("0", 0, 1, 50, 1), other}, false)
			w.observe(0, 1*second, []gpustate.Reading{board("0", 0, 1, 50, 1), other}, false)
		}},
		{"a long gap", func(w *window) {
			w.observe(0, 0, []gpustate.Reading{board("0", 0, 1, 50, 1)}, false)
			w.observe(0, 60*second, []gpustate.Reading{board("0", 0, 1, 50, 1)}, false)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWindow(5 * second)
			tt.feed(w)
			compare(t, w.row(true), result.Row{"gpu_energy_j": nil, "gpu_energy_source": nil})
		})
	}
}

func TestWindow_throttled(t *testing.T) {
	reasons := func(list ...string) gpustate.Reading {
		r := board("0", 50, 1, 1, 1)
		r.ReasonsKnown = true
		for _, reason := range list {
			r.Active(reason, true)
		}
		return r
	}
	counted := func(hw, cap float64) gpustate.Reading {
		return with(with(board("0", 50, 1, 1, 1), gpustate.Throttled+gpustate.HWThermal, hw), gpustate.Throttled+gpustate.SWPowerCap, cap)
	}
	tests := []struct {
		name   string
		looks  []gpustate.Reading
		ms     any
		reason any
	}{
		{"unknown", []gpustate.Reading{board("0", 1, 1, 1, 1), board("0", 1, 1, 1, 1)}, nil, nil},
		{"never", []gpustate.Reading{reasons(), reasons(), reasons()}, 0.0, nil},
		{"idle and a power cap are none", []gpustate.Reading{reasons(gpustate.Idle), reasons(gpustate.SWPowerCap), reasons(gpustate.SWPowerCap)}, 0.0, nil},
		{"active at some looks", []gpustate.Reading{reasons(), reasons(gpustate.SWThermal, gpustate.HWSlowdown), reasons(gpustate.SWThermal), reasons()}, 2000.0, "sw_thermal_slowdown,hw_slowdown"},
		{"a general reason beside its own", []gpustate.Reading{reasons(), reasons(gpustate.HWSlowdown, gpustate.HWPowerBrake), reasons()}, 1000.0, "hw_power_brake_slowdown"},
		{"counters", []gpustate.Reading{counted(100, 5), counted(400, 900), counted(400, 1900)}, 300.0, "hw_thermal_slowdown"},
		{"counters that stand still", []gpustate.Reading{counted(100, 5), counted(100, 900)}, 0.0, nil},
		{"a counter that restarts", []gpustate.Reading{counted(1000, 5), counted(1250, 5), counted(10, 5), counted(20, 5)}, 260.0, "hw_thermal_slowdown"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWindow(5 * second)
			for i, r := range tt.looks {
				w.observe(0, time.Duration(i)*second, []gpustate.Reading{r}, i > 0)
				if i == 0 {
					w.begin(0)
				}
			}
			compare(t, w.row(true), result.Row{"gpu_throttled_ms": tt.ms, "gpu_throttle_reasons": tt.reason})
		})
	}
}

// A MIG GPU has no utilisation of its own, and each of its instances has memory.
func TestWindow_parts(t *testing.T) {
	part := func(name string, used float64) gpustate.Reading {
		r := gpustate.New()
		r.UUID, r.Index, r.Part = "GPU-a", "0", name
		r.Set(gpustate.MemoryUsed, used)
		r.Set(gpustate.MemoryFree, 100-used)
		r.Set(gpustate.MemoryTotal, 100)

		return r
	}
	parent := gpustate.New()
	parent.UUID, parent.Index = "GPU-a", "0"
	parent.Set(gpustate.Power, 60)
	w := newWindow(5 * second)
	for at := range 3 {
		w.observe(0, time.Duration(at)*second, []gpustate.Reading{parent, part("3/0", 60), part("4/0", 1)}, at == 1)
		if at == 0 {
			w.begin(0)
		}
	}
	compare(t, w.row(true), result.Row{
		"mean_gpu_util": nil, "max_gpu_memory_used_bytes": int64(61), "gpu_memory_total_bytes": int64(200),
		"mean_gpu_power_w": 60.0, "gpu_energy_j": 120.0, "gpu_uuid": "GPU-a",
	})
}

// On MIG, DCGM has 0 for the utilisation of the GPU and of its instances, and the
// truth in the engine's activity.
func TestWindow_instances(t *testing.T) {
	page := func(active string) []gpustate.Reading {
		list, err := gpustate.ParseExporter([]byte(`DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a"} 0
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",GPU_I_PROFILE="3g.20gb",GPU_I_ID="1"} 0
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a",GPU_I_PROFILE="3g.20gb",GPU_I_ID="1"} 18000
`+active), true)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	for _, tt := range []struct {
		active string
		want   any
	}{
		{`DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="GPU-a",GPU_I_PROFILE="3g.20gb",GPU_I_ID="1"} 0.97` + "\n", 97.0},
		{"", nil}, // its profiling is off
	} {
		w := newWindow(time.Minute)
		w.begin(0)
		w.observe(0, time.Second, page(tt.active), true)
		row := w.row(false)
		if row["mean_gpu_util"] != tt.want || row["max_gpu_util"] != tt.want {
			t.Errorf("utilisation %v, at most %v, want %v", row["mean_gpu_util"], row["max_gpu_util"], tt.want)
		}
	}
}

func TestWindow_processes(t *testing.T) {
	on := func(uuid string, pids ...int) gpustate.Reading {
		r := board("0", 50, 100, 1, 1)
		r.UUID, r.PIDs, r.PIDsKnown = uuid, pids, true
		return r
	}
	ours := map[int]bool{10: true, 11: true}
	tests := []struct {
		name          string
		before, under []gpustate.Reading
		foreign, uuid any
	}{
		{"ours alone", []gpustate.Reading{on("GPU-a", 10)}, []gpustate.Reading{on("GPU-a", 10, 11)}, int64(0), "GPU-a"},
		{"somebody else from the start", []gpustate.Reading{on("GPU-a", 10, 99)}, []gpustate.Reading{on("GPU-a", 10)}, int64(1), "GPU-a"},
		{"GPUs that are not ours do not count", []gpustate.Reading{on("GPU-a", 10), on("GPU-b", 98, 99)}, []gpustate.Reading{on("GPU-a", 10), on("GPU-b", 98, 99)}, int64(0), "GPU-a"},
		{"another namespace", []gpustate.Reading{on("GPU-a", 70001)}, []gpustate.Reading{on("GPU-a", 70001)}, int64(0), "GPU-a"},
		{"another namespace, and one more under load", []gpustate.Reading{on("GPU-a", 70001)}, []gpustate.Reading{on("GPU-a", 70001, 70002)}, int64(1), "GPU-a"},
		{"none at all", []gpustate.Reading{on("GPU-a")}, []gpustate.Reading{on("GPU-a")}, int64(0), "GPU-a"},
		{"hidden", []gpustate.Reading{with(on("GPU-a"), gpustate.MemoryUsed, 9<<30)}, []gpustate.Reading{with(on("GPU-a"), gpustate.MemoryUsed, 9<<30)}, nil, "GPU-a"},
		{"unknown", []gpustate.Reading{board("a", 1, 1, 1, 1)}, []gpustate.Reading{board("a", 1, 1, 1, 1)}, nil, "GPU-a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWindow(5 * second)
			w.processes.observe(0, tt.before, ours)
			w.observe(0, 0, tt.before, false)
			w.begin(0)
			w.processes.observe(0, tt.under, ours)
			w.observe(0, second, tt.under, true)
			compare(t, w.row(true), result.Row{"gpu_foreign_processes": tt.foreign, "gpu_uuid": tt.uuid})
		})
	}
}

func TestWindow_unused(t *testing.T) {
	tests := []struct {
		name  string
		rest  gpustate.Reading
		under []gpustate.Reading
		want  bool
	}{
		{"at rest", board("0", 0, 5, 20, 30), []gpustate.Reading{board("0", 0, 5, 20, 30), board("0", 0, 5, 20, 30), board("0", 0, 5, 20, 30)}, true},
		{"too few looks", board("0", 0, 5, 20, 30), []gpustate.Reading{board("0", 0, 5, 20, 30), board("0", 0, 5, 20, 30)}, false},
		{"busy once", board("0", 0, 5, 20, 30), []gpustate.Reading{board("0", 0, 5, 20, 30), board("0", 3, 5, 20, 30), board("0", 0, 5, 20, 30)}, false},
		{"a model that nobody asked", board("0", 0, 900, 20, 30), []gpustate.Reading{board("0", 0, 900, 20, 30), board("0", 0, 900, 20, 30), board("0", 0, 900, 20, 30)}, false},
		{"memory that grows", board("0", 0, 5, 20, 30), []gpustate.Reading{board("0", 0, 5, 20, 30), board("0", 0, 49, 20, 30), board("0", 0, 49, 20, 30)}, false},
		{"a driver that tells no utilisation", without(board("0", 0, 5, 20, 30), gpustate.Util), []gpustate.Reading{without(board("0", 0, 5, 1, 1), gpustate.Util), without(board("0", 0, 5, 1, 1), gpustate.Util), without(board("0", 0, 5, 1, 1), gpustate.Util)}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWindow(5 * second)
			w.observe(0, 0, []gpustate.Reading{tt.rest}, false)
			w.begin(0)
			for i, r := range tt.under {
				w.observe(0, time.Duration(i+1)*second, []gpustate.Reading{r}, true)
			}
			if got := w.unused(); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
	if newWindow(second).unused() {
		t.Error("no GPU at all")
	}
}
