package gpustate

import (
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sweep.dev/sweep/internal/recordtest"
)

var update = flag.Bool("update", false, "write the golden files")

// parsers by what a file's name begins with.
var parsers = map[string]func([]byte) ([]Reading, error){
	"csv":      func(b []byte) ([]Reading, error) { return ParseCSV(b, coreFields, false) },
	"xml":      ParseXML,
	"exporter": func(b []byte) ([]Reading, error) { return ParseExporter(b, true) },
	"amdsmi":   ParseAMD,
	"wrapper":  func(b []byte) ([]Reading, error) { return ParseWrapper(b, true) },
}

// show writes readings for people, all of what they say.
func show(list []Reading) string {
	var b strings.Builder
	for _, r := range list {
		fmt.Fprintf(&b, "gpu %s part %q uuid %s name %q driver %q\n", r.Index, r.Part, r.UUID, r.Name, r.Driver)
		for _, q := range slices.Sorted(maps.Keys(r.Values)) {
			fmt.Fprintf(&b, "  %s %.10g %s\n", q, r.Values[q], Quantities[q].Unit)
		}
		if r.ReasonsKnown {
			fmt.Fprintf(&b, "  reasons %v\n", slices.Sorted(maps.Keys(r.Reasons)))
		}
		if r.PIDsKnown {
			fmt.Fprintf(&b, "  pids %v\n", r.PIDs)
		}
		if r.Said != "" {
			fmt.Fprintf(&b, "  line %d lost %v said %q\n", r.Line, r.Lost, r.Said)
		}
	}
	return b.String()
}

// TestGolden reads a file of each quirk: into readings, and into those of whole
// GPUs.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*__*")
	if err != nil || len(files) < 12 {
		t.Fatal(len(files), err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, ".golden") {
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			kind, _, _ := strings.Cut(filepath.Base(file), "__")
			list, err := parsers[kind](b)
			if err != nil {
				t.Fatal(err)
			}
			got := show(list) + "-- whole --\n" + show(Whole(list))
			golden := file + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseCSV(t *testing.T) {
	fields := []string{"index", "uuid", "driver_version", "utilization.gpu", "memory.used", "power.draw", "temperature.gpu", "name"}
	type values = map[string]float64
	full := values{Util: 97, MemoryUsed: 1000 << 20, Power: 60.5, Temperature: 55}
	tests := []struct {
		name, out string
		want      []values
		err       error
	}{
		{"as asked", "0, GPU-1, 590.48.01, 97, 1000, 60.50, 55, NVIDIA L4\n", []values{full}, nil},
		{"with header and units", "index, uuid, driver_version, utilization.gpu [%], memory.used [MiB], power.draw [W], temperature.gpu, name\n0, GPU-1, 590.48.01, 97 %, 1000 MiB, 60.50 W, 55, NVIDIA L4\n", []values{full}, nil},
		{"other columns than asked", "uuid, memory.used [MiB]\nGPU-1, 3 MiB\n", []values{{MemoryUsed: 3 << 20}}, nil},
		{"CRLF", "0, GPU-1, 590.48.01, 97, 1000, 60.50, 55, NVIDIA L4\r\n", []values{full}, nil},
		{"two", "0, GPU-1, 5, 97, 1000, 60.50, 55, A\n1, GPU-2, 5, 97, 1000, 60.50, 55, B\n", []values{full, full}, nil},
		{"a name with a comma", "0, GPU-1, 5, 97, 1000, 60.50, 55, A, B\n", []values{full}, nil},
		{"nothing is not zero", "0, GPU-1, 5, [N/A], N/A, [Not Supported], , A\n", []values{{}}, nil},
		{"other ways to say nothing", "0, GPU-1, 5, [Unknown Error], [Insufficient Permissions], [GPU requires reset], [Requested functionality has been deprecated], A\n", []values{{}}, nil},
		{"no measurement", "0, GPU-1, 5, 101, -1, NaN, 0x20, A\n", []values{{}}, nil},
		{"a line that was cut", "0, GPU-1, 5, 97, 1000, 60.50, 55, A\n1, GPU-2, 5, 97, 10", []values{full}, nil},
		{"a partition", "0, MIG-1, 5, [N/A], 1000, 60.50, 55, A\n", []values{{MemoryUsed: 1000 << 20, Power: 60.5, Temperature: 55}}, nil},
		{"unknown field", "Field \"clocks_event_reasons_counters.sw_power_cap\" is not a valid field to query.\n", nil, ErrFields},
		{"no GPU", "No devices were found\n", nil, ErrNoGPU},
		{"no driver", "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", nil, ErrDriver},
		{"mismatch", "Failed to initialize NVML: Driver/library version mismatch\n", nil, ErrDriver},
		{"empty", "", nil, ErrAnswer},
		{"numbers that are no GPU", "0, 1, 2, 3, 4, 5, 6, 7\n", nil, ErrAnswer},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			list, err := ParseCSV([]byte(tt.out), fields, false)
			if !errors.Is(err, tt.err) {
				t.Fatalf("error: got %v, want %v", err, tt.err)
			}
			var got []values
			for _, r := range list {
				got = append(got, r.Values)
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

const (
	smiHeader = "index, uuid, power.draw [W], name\n"
	goneSaid  = "Unable to determine the device handle for GPU1: 0000:41:00.0: GPU is lost.  Reboot the system to recover this GPU"
)

// A line that is no GPU's state is kept with its place and text. One that says that a
// GPU is lost names it, by index or UUID, if the line does.
func TestParse_said(t *testing.T) {
	xml := goneSaid + "\n<nvidia_smi_log><gpu><uuid>GPU-a</uuid><utilization><gpu_util>97 %</gpu_util></utilization></gpu></nvidia_smi_log>"
	for _, tt := range []struct {
		name, kind, body string
		want             []string // UUID, index, line, lost, text
	}{
		{"no handle", "csv", smiHeader + "0, GPU-a, 300 W, A\n" + goneSaid + "\n", []string{"GPU-a 0 0 false ", " 1 3 true " + goneSaid}},
		{"no handle, by address", "csv", smiHeader + "0, GPU-a, 300 W, A\nUnable to determine the device handle for GPU0000:41:00.0: Unknown Error\n", []string{"GPU-a 0 0 false ", "  3 true Unable to determine the device handle for GPU0000:41:00.0: Unknown Error"}},
		{"alone", "csv", goneSaid + "\nNo devices were found\n", []string{" 1 1 true " + goneSaid, "  2 false No devices were found"}},
		{"cells", "csv", smiHeader + "0, GPU-a, 300 W, A\n1, GPU-b, [GPU requires reset], B\n", []string{"GPU-a 0 0 false ", "GPU-b 1 3 true [GPU requires reset]"}},
		{"cells without a UUID", "csv", smiHeader + "0, GPU-a, 300 W, A\n1, [GPU is lost], [GPU is lost], [GPU is lost]\n", []string{"GPU-a 0 0 false ", " 1 3 true [GPU is lost]"}},
		{"a warning", "csv", smiHeader + "0, GPU-a, 300 W, A\nWARNING: infoROM is corrupted at gpu 0000:86:00.0\n", []string{"GPU-a 0 0 false ", "  3 false WARNING: infoROM is corrupted at gpu 0000:86:00.0"}},
		{"a table without UUIDs", "csv", "index, power.draw [W]\n0, 300 W\n1, 200 W\n", []string{" 0 0 false ", " 1 0 false "}},
		{"XML", "xml", xml, []string{" 1 1 true " + goneSaid, "GPU-a  0 false "}},
		{"an exporter", "exporter", "DCGM_FI_DEV_POWER_USAGE{gpu=\"0\",UUID=\"GPU-a\"} 300\nerror collecting metrics\n", []string{"GPU-a 0 0 false ", "  2 false error collecting metrics"}},
		{"XML's cells", "xml", "<nvidia_smi_log><gpu><uuid>GPU-a</uuid><utilization><gpu_util>GPU requires reset</gpu_util></utilization></gpu></nvidia_smi_log>", []string{"GPU-a 0 0 true GPU requires reset"}},
		{"JSON", "wrapper", `[{"uuid": "GPU-a", "power_draw": 3}, {"index": 1, "error": "GPU is lost"}]`, []string{"GPU-a 0 0 false ", ` 1 0 true {"error":"GPU is lost","index":1}`}},
	} {
		list, err := parsers[tt.kind]([]byte(tt.body))
		var got []string
		for _, r := range list {
			got = append(got, fmt.Sprintf("%s %s %d %v %s", r.UUID, r.Index, r.Line, r.Lost, r.Said))
		}
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", tt.name, err, diff)
		}
	}
	if _, err := ParseCSV([]byte(smiHeader+"0, 1, 2, 3\n"), coreFields, true); !errors.Is(err, ErrRows) || !strings.Contains(err.Error(), `line 2 is "0, 1, 2, 3"`) {
		t.Errorf("a table without a GPU: %v", err)
	}
}

// Text that is no answer is an error that says why.
func TestParse_refuses(t *testing.T) {
	for _, tt := range []struct {
		kind, body string
		err        error
	}{
		{"xml", "", ErrAnswer},
		{"xml", "<html></html>", ErrAnswer},
		{"xml", "<nvidia_smi_log><gpu><uuid>GPU-a</uuid>", ErrAnswer},
		{"xml", "<nvidia_smi_log></nvidia_smi_log>", ErrNoGPU},
		{"xml", "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", ErrDriver},
		{"exporter", "vllm:num_requests_running 3\n", ErrAnswer},
		{"exporter", "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-a\"} 9223372036854775794\n", ErrAnswer},
		{"amdsmi", "", ErrAnswer},
		{"amdsmi", "[1, 2]", ErrAnswer},
		{"amdsmi", `[{"gpu": 0, "usage": "N/A"}]`, ErrAnswer},
		{"amdsmi", "ERROR: [no driver]\n{", ErrAnswer},
		{"wrapper", "<html></html>", ErrAnswer},
		{"wrapper", `{"gpus": []}`, ErrAnswer},
		{"wrapper", `"ok"`, ErrAnswer},
	} {
		if list, err := parsers[tt.kind]([]byte(tt.body)); !errors.Is(err, tt.err) || len(list) > 0 {
			t.Errorf("%s of %q: %v, %v", tt.kind, tt.body, list, err)
		}
	}
}

// The recorded output of real cards, all columns: every number that a card states is
// read, and nothing else.
func TestFixtures_csv(t *testing.T) {
	read := 0
	for _, file := range recordtest.Names(t, "nvidia_smi__*query*.txt") {
		out := recordtest.Read(t, file)
		r := csv.NewReader(strings.NewReader(string(out)))
		r.TrimLeadingSpace, r.LazyQuotes = true, true
		records, err := r.ReadAll()
		if err != nil || len(records) < 2 {
			continue // the help, which is no table
		}
		list, err := ParseCSV(out, coreFields, true)
		if err != nil || len(list) != len(records)-1 {
			t.Fatalf("%s: %d GPUs of %d: %v", file, len(list), len(records)-1, err)
		}
		for i, g := range list {
			for j, h := range records[0] {
				field, _, _ := strings.Cut(h, " [")
				m, ok := smiFields[field]
				if !ok || m.rank > 0 {
					continue
				}
				cell := strings.TrimRight(records[i+1][j], " %MiBWHzus")
				v, got := g.Values[m.quantity]
				if isNumber := cell != "" && strings.Trim(cell, "0123456789.") == ""; isNumber != got {
					t.Errorf("%s: %s is %q, read: %v", file, field, records[i+1][j], got)
				} else if got {
					read++
					if want, _ := number(cell); v != want*m.scale {
						t.Errorf("%s: %s is %v of %q", file, field, v, records[i+1][j])
					}
				}
			}
		}
	}
	if read < 40 {
		t.Errorf("only %d numbers were read", read)
	}
}

// The other recorded answers, whole.
func TestFixtures(t *testing.T) {
	for _, tt := range []struct {
		kind, pattern string
		want          []string // lines of the first GPU
		n             int
	}{
		{"xml", "nvidia_smi_xml__*", []string{"memory_used 52428800 bytes", "memory_total 8.589934592e+10 bytes", "power 67.03 W", "temperature 27 celsius", "clock_sm 1275 MHz", "power_limit 500 W", "clock_sm_limit 1410 MHz", "reasons []", "pids []"}, 5},
		{"exporter", "nvidia_gpu_exporter__*", []string{"utilization 100 percent", "memory_bandwidth_utilization 11 percent", "memory_used 2.078067917e+10 bytes", "power 631.95 W", "temperature 59 celsius", "clock_sm 1980 MHz", "power_limit 700 W", "clock_sm_limit 1980 MHz", "pids [11327 11328 11345]", "reasons []"}, 1},
		{"exporter", "amd__*", []string{"power 41 W", "utilization 0 percent", "memory_total 6.8702e+10 bytes"}, 1},
	} {
		for _, file := range recordtest.Names(t, tt.pattern) {
			list, err := parsers[tt.kind](recordtest.Read(t, file))
			if err != nil || len(list) != tt.n {
				t.Fatalf("%s: %d readings, %v", file, len(list), err)
			}
			got := show(list[:1])
			for _, want := range tt.want {
				if !strings.Contains(got, "  "+want+"\n") {
					t.Errorf("%s: no %q in\n%s", file, want, got)
				}
			}
		}
	}
}

// hold checks what must be true of any answer.
func hold(t *testing.T, list []Reading, err error) {
	t.Helper()
	if (err == nil) != (len(list) > 0) {
		t.Fatalf("%d GPUs, %v", len(list), err)
	}
	for _, r := range append(list, Whole(list)...) {
		for q, v := range r.Values {
			if m, ok := Quantities[q]; !ok || !(v >= m.min && v <= m.max) {
				t.Fatalf("%s = %v", q, v)
			}
		}
	}
}

func seed(f *testing.F, kinds ...string) {
	for _, kind := range kinds {
		files, err := filepath.Glob("testdata/" + kind + "__*")
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			if b, err := os.ReadFile(file); err == nil && !strings.HasSuffix(file, ".golden") {
				f.Add(b)
			}
		}
	}
}

func FuzzParseCSV(f *testing.F) {
	seed(f, "csv")
	f.Add([]byte("0, GPU-1, 590.48.01, [N/A], 40 %, 1000 MiB, , 6e3, 55, 1980, NVIDIA, L4"))
	f.Fuzz(func(t *testing.T, out []byte) {
		list, err := ParseCSV(out, coreFields, false)
		hold(t, list, err)
	})
}

func FuzzParseXML(f *testing.F) {
	seed(f, "xml")
	f.Fuzz(func(t *testing.T, out []byte) {
		list, err := ParseXML(out)
		hold(t, list, err)
	})
}

func FuzzParseWrapper(f *testing.F) {
	seed(f, "wrapper", "amdsmi", "csv", "xml")
	f.Fuzz(func(t *testing.T, out []byte) {
		list, err := ParseWrapper(out, true)
		hold(t, list, err)
	})
}

// Every cut of every answer gives an error or readings that the whole answer has
// too: never another number.
func TestCut(t *testing.T) {
	for _, kind := range []string{"csv", "xml", "amdsmi"} {
		files, err := filepath.Glob("testdata/" + kind + "__*")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, ".golden") {
				continue
			}
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			full, err := parsers[kind](b)
			if err != nil {
				t.Fatal(err)
			}
			for i := range b {
				list, err := parsers[kind](b[:i])
				if err != nil {
					continue
				}
				for j, r := range list {
					if j >= len(full) || !maps.Equal(r.Values, full[j].Values) {
						t.Fatalf("%s, cut at %d: %v", file, i, r.Values)
					}
				}
			}
		}
	}
}
