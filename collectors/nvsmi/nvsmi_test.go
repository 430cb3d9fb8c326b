package nvsmi

import (
	"context"
	"encoding/csv"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sweep.dev/sweep/collectors"
	"sweep.dev/sweep/collectors/collectortest"
	"sweep.dev/sweep/host"
	"sweep.dev/sweep/result"
)

func TestParse(t *testing.T) {
	fields := []string{"index", "uuid", "driver_version", "utilization.gpu", "memory.used", "power.draw", "temperature.gpu", "name"}
	type values = map[string]float64
	full := values{"utilization.gpu": 97, "memory.used": 1000 << 20, "power.draw": 60.5, "temperature.gpu": 55}
	tests := []struct {
		name, out string
		want      []values
		err       error
	}{
		{"as asked", "0, GPU-1, 590.48.01, 97, 1000, 60.50, 55, NVIDIA L4\n", []values{full}, nil},
		{"with header and units", "index, uuid, driver_version, utilization.gpu [%], memory.used [MiB], power.draw [W], temperature.gpu, name\n0, GPU-1, 590.48.01, 97 %, 1000 MiB, 60.50 W, 55, NVIDIA L4\n", []values{full}, nil},
		{"CRLF", "0, GPU-1, 590.48.01, 97, 1000, 60.50, 55, NVIDIA L4\r\n", []values{full}, nil},
		{"two", "0, GPU-1, 5, 97, 1000, 60.50, 55, A\n1, GPU-2, 5, 97, 1000, 60.50, 55, B\n", []values{full, full}, nil},
		{"a name with a comma", "0, GPU-1, 5, 97, 1000, 60.50, 55, A, B\n", []values{full}, nil},
		{"nothing is not zero", "0, GPU-1, 5, [N/A], N/A, [Not Supported], , A\n", []values{{}}, nil},
		{"other ways to say nothing", "0, GPU-1, 5, [Unknown Error], [Insufficient Permissions], [GPU requires reset], [Requested functionality has been deprecated], A\n", []values{{}}, nil},
		{"no measurement", "0, GPU-1, 5, 101, -1, NaN, 0x20, A\n", []values{{}}, nil},
		{"a line that was cut", "0, GPU-1, 5, 97, 1000, 60.50, 55, A\n1, GPU-2, 5, 97, 10", []values{full}, nil},
		{"a partition", "0, MIG-1, 5, [N/A], 1000, 60.50, 55, A\n", []values{{"memory.used": 1000 << 20, "power.draw": 60.5, "temperature.gpu": 55}}, nil},
		{"unknown field", "Field \"clocks_event_reasons_counters.sw_power_cap\" is not a valid field to query.\n", nil, errFields},
		{"no GPU", "No devices were found\n", nil, errNoGPU},
		{"no driver", "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", nil, errDriver},
		{"mismatch", "Failed to initialize NVML: Driver/library version mismatch\n", nil, errDriver},
		{"empty", "", nil, errAnswer},
		{"numbers that are no GPU", "0, 1, 2, 3, 4, 5, 6, 7\n", nil, errAnswer},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			gpus, err := parse([]byte(tt.out), fields)
			if !errors.Is(err, tt.err) {
				t.Fatalf("error: got %v, want %v", err, tt.err)
			}
			var got []values
			for _, g := range gpus {
				got = append(got, g.values)
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// What real cards printed, all columns: every number that a card states is
// read, and nothing else.
func TestParse_fixtures(t *testing.T) {
	const dir = "../../../shared/fixtures"
	if _, err := os.Stat(dir); err != nil {
		t.Skip("the folder of fixtures is absent")
	}
	files, err := filepath.Glob(filepath.Join(dir, "nvidia_smi__*query*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, file := range files {
		out, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r := csv.NewReader(strings.NewReader(string(out)))
		r.TrimLeadingSpace, r.LazyQuotes = true, true
		records, err := r.ReadAll()
		if err != nil || len(records) < 2 {
			continue // the help, which is no table
		}
		// The name stands in the middle here; no name in these has a comma.
		var fields []string
		for _, h := range records[0] {
			name, _, _ := strings.Cut(h, " [")
			fields = append(fields, name)
		}
		gpus, err := parse(out, fields)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if len(gpus) != len(records)-1 {
			t.Fatalf("%s: %d GPUs of %d", file, len(gpus), len(records)-1)
		}
		for i, g := range gpus {
			for j, field := range fields {
				m, ok := measured[field]
				if !ok {
					continue
				}
				cell := strings.TrimRight(records[i+1][j], " %MiBWHzus")
				v, got := g.values[field]
				if isNumber := cell != "" && strings.Trim(cell, "0123456789.") == ""; isNumber != got {
					t.Errorf("%s: %s is %q, read: %v", filepath.Base(file), field, records[i+1][j], got)
				} else if got {
					read++
					if want, _ := number(cell, field); v != want || v > m.max*m.scale {
						t.Errorf("%s: %s is %v of %q", filepath.Base(file), field, v, records[i+1][j])
					}
				}
			}
		}
	}
	if read < 20 {
		t.Errorf("only %d numbers were read", read)
	}
}

func board(index string, util, usedMiB, power, temp float64) gpu {
	return gpu{index: index, uuid: "GPU-" + index, driver: "590.48.01", values: map[string]float64{
		"utilization.gpu": util, "memory.used": usedMiB * (1 << 20), "power.draw": power, "temperature.gpu": temp,
	}}
}

func TestWindow(t *testing.T) {
	w := &window{maxGap: 5 * time.Second}
	w.observe(0, []gpu{board("1", 0, 100, 50, 40), board("0", 0, 100, 50, 40)}, false)
	w.observe(1*time.Second, []gpu{board("1", 100, 200, 200, 60), board("0", 50, 300, 100, 50)}, true)
	w.observe(2*time.Second, []gpu{board("1", 100, 250, 200, 70), board("0", 100, 200, 300, 50)}, true)
	w.observe(3*time.Second, []gpu{board("1", 0, 100, 50, 60), board("0", 0, 100, 50, 40)}, false)
	want := result.Row{
		"gpu_util_mean": 87.5, "gpu_util_max": 100.0, "gpu_memory_used_max_bytes": int64(500 << 20),
		"gpu_power_mean_w": 400.0, "gpu_temp_max_c": 70.0,
		"gpu_energy_j": 200.0 + 400 + 300, // (100+300)/2, (300+500)/2, (500+100)/2
		"gpu_uuid":     "GPU-0,GPU-1", "driver_version": "590.48.01",
	}
	if diff := cmp.Diff(want, w.row(true)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := w.row(false)["gpu_energy_j"]; got != nil {
		t.Errorf("energy of half a trial: %v", got)
	}
}

// Energy counts from the moment that the load begins, however long before it
// the first look was.
func TestWindow_begin(t *testing.T) {
	w := &window{maxGap: 5 * time.Second}
	w.observe(0, []gpu{board("0", 0, 1, 40, 30)}, false)
	w.begin(30 * time.Second)
	w.observe(31*time.Second, []gpu{board("0", 50, 1, 60, 30)}, true)
	w.observe(32*time.Second, []gpu{board("0", 0, 1, 40, 30)}, false)
	if got := w.row(true)["gpu_energy_j"]; got != 100.0 {
		t.Errorf("%v J, want 100", got)
	}
}

func TestWindow_unknownPower(t *testing.T) {
	mute := board("0", 50, 100, 0, 40)
	delete(mute.values, "power.draw")
	tests := []struct {
		name string
		feed func(*window)
	}{
		{"a look without", func(w *window) {
			w.observe(0, []gpu{board("0", 0, 1, 50, 1)}, false)
			w.observe(1*time.Second, []gpu{mute}, true)
			w.observe(2*time.Second, []gpu{board("0", 0, 1, 50, 1)}, false)
		}},
		{"one of two cards without", func(w *window) {
			w.observe(0, []gpu{board("0", 0, 1, 50, 1), mute}, false)
			w.observe(1*time.Second, []gpu{board("0", 0, 1, 50, 1), mute}, false)
		}},
		{"a long gap", func(w *window) {
			w.observe(0, []gpu{board("0", 0, 1, 50, 1)}, false)
			w.observe(60*time.Second, []gpu{board("0", 0, 1, 50, 1)}, false)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := &window{maxGap: 5 * time.Second}
			tt.feed(w)
			if got := w.row(true)["gpu_energy_j"]; got != nil {
				t.Errorf("energy: %v", got)
			}
		})
	}
}

// An old driver refuses the whole query for one field it does not know.
func TestSession_oldDriver(t *testing.T) {
	var queries []string
	h := &collectortest.Host{Run: func(_ context.Context, argv ...string) ([]byte, error) {
		queries = append(queries, argv[1])
		if strings.Contains(argv[1], "clocks_event_reasons_counters") {
			return []byte("Field \"clocks_event_reasons_counters.sw_power_cap\" is not a valid field to query.\n"), errors.New("exit status 2")
		}
		return []byte("0, GPU-1, 470.1, 97, 40, 1000, 16376, 60.5, 55, 1980, Tesla T4\n"), nil
	}}
	c, err := New(Config{Interval: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	sink := new(collectortest.Sink)
	session, err := c.Start(t.Context(), collectortest.Trial(h), sink)
	if err != nil {
		t.Fatal(err)
	}
	row, err := session.Finish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	collectortest.Want(t, row, result.Row{"gpu_uuid": "GPU-1", "driver_version": "470.1", "gpu_memory_used_max_bytes": int64(1000 << 20), "gpu_util_mean": nil})
	if codes := sink.Codes(); len(codes) != 0 {
		t.Errorf("findings: %v", codes)
	}
	if len(queries) != 3 || strings.Contains(queries[2], "counters") {
		t.Errorf("queries: %q", queries)
	}
	raw := string(sink.Artifacts()["scrapes/server-0.nvidia-smi.csv"])
	if lines := strings.Split(strings.TrimSpace(raw), "\n"); len(lines) != 3 || !strings.HasPrefix(lines[0], "t_us, index, uuid") || !strings.HasSuffix(lines[2], "Tesla T4") {
		t.Errorf("raw:\n%s", raw)
	}
}

func TestSession_absent(t *testing.T) {
	for name, exec := range map[string]func(context.Context, ...string) ([]byte, error){
		"no place to run a command": nil,
		"no nvidia-smi":             func(context.Context, ...string) ([]byte, error) { return nil, errors.New("executable file not found") },
		"no GPU":                    func(context.Context, ...string) ([]byte, error) { return []byte("No devices were found\n"), nil },
		"not supported":             func(context.Context, ...string) ([]byte, error) { return nil, host.ErrNotSupported },
	} {
		t.Run(name, func(t *testing.T) {
			c, err := New(Default)
			if err != nil {
				t.Fatal(err)
			}
			sink := new(collectortest.Sink)
			session, err := c.Start(t.Context(), collectors.Trial{Targets: []collectors.Target{{Host: &collectortest.Host{Run: exec}}}}, sink)
			if err != nil {
				t.Fatal(err)
			}
			row, err := session.Finish(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(emptyRow(), row); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if codes := sink.Codes(); !slices.Equal(codes, []string{GPUMissing}) {
				t.Errorf("findings: %v", codes)
			}
		})
	}
}

func TestNew_rejects(t *testing.T) {
	for _, c := range []Config{{}, {Interval: time.Millisecond}, {Interval: time.Hour}} {
		if _, err := New(c); err == nil {
			t.Errorf("accepted %+v", c)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("0, GPU-1, 590.48.01, 97, 40, 1000, 16376, 60.5, 55, 1980, NVIDIA L4\n")
	f.Add("0, GPU-1, 590.48.01, [N/A], 40 %, 1000 MiB, , 6e3, 55, 1980, NVIDIA, L4")
	f.Fuzz(func(t *testing.T, out string) {
		gpus, err := parse([]byte(out), coreFields)
		if (err == nil) != (len(gpus) > 0) {
			t.Fatalf("%d GPUs, %v", len(gpus), err)
		}
		for _, g := range gpus {
			for field, v := range g.values {
				if m := measured[field]; !(v >= m.min*m.scale && v <= m.max*m.scale) {
					t.Fatalf("%s = %v", field, v)
				}
			}
		}
	})
}
