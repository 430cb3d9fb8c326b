package gpu

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sweep.dev/sweep/collectors"
	"sweep.dev/sweep/collectors/collectortest"
	"sweep.dev/sweep/internal/gpustate"
	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/result"
)

// nvidia-smi fails if a GPU is lost: what it printed counts all the same.
func TestSession_lost(t *testing.T) {
	t.Parallel()
	const said = "Unable to determine the device handle for GPU1: 0000:41:00.0: GPU is lost"
	rows := func(indices ...int) (out string) {
		for _, i := range indices {
			out += fmt.Sprintf("%d, GPU-%d, 590, 70, 0, 9000, 16376, 20, 30, 210, A\n", i, i)
		}
		return out
	}
	for name, tt := range map[string]struct {
		first, later string
		want         []string // of the texts of the findings
	}{
		"under load":     {rows(0, 1), rows(0) + said + "\n", []string{"GPU 1 (GPU-1) stopped reporting", said, "the columns of the GPUs are null"}},
		"alone":          {rows(1), said + "\nNo devices were found\n", []string{"GPU 1 (GPU-1) stopped reporting", said, "No devices were found"}},
		"from the start": {said + "\n", said + "\n", []string{"no GPU was watched: nvidia-smi said", said}},
		"a warning":      {rows(0, 1), rows(0, 1) + "WARNING: infoROM is corrupted\n", []string{"lines about the GPUs cannot be read, the first: \"WARNING: infoROM is corrupted\""}},
	} {
		t.Run(name, func(t *testing.T) {
			var looks atomic.Int64
			h := &collectortest.Host{Run: func(_ context.Context, argv ...string) ([]byte, error) {
				if strings.Contains(argv[1], "reasons") || argv[1] == "-q" || argv[0] != "nvidia-smi" {
					return nil, errors.New("exit status 1")
				}
				if looks.Add(1) == 1 {
					return []byte(tt.first), exited(tt.first)
				}
				return []byte(tt.later), exited(tt.later)
			}}
			loaded := make(chan struct{})
			close(loaded)
			session, sink := begin(t, Config{}, loaded, h)
			if name != "from the start" {
				polltest.Until(t, "looks", func() bool { return looks.Load() >= 4 })
			}
			row := end(t, session)
			var texts string
			for _, n := range sink.Notes() {
				texts += n.Text + "\n"
			}
			for _, want := range tt.want {
				if !strings.Contains(texts, want) {
					t.Errorf("no %q in\n%s", want, texts)
				}
			}
			want := any(nil)
			if name == "a warning" {
				want = 40.0
			}
			if row["mean_gpu_power_w"] != want {
				t.Errorf("power %v", row["mean_gpu_power_w"])
			}
		})
	}
}

// exited returns the error of a tool that says that a GPU is lost.
func exited(out string) error {
	if gpustate.LostGPU(out) {
		return errors.New("exit status 15")
	}
	return nil
}

// A stream says that a GPU is lost without a stamp, in its row, or not at all.
func TestRows_lost(t *testing.T) {
	const said = "Unable to determine the device handle for GPU1: 0000:41:00.0: GPU is lost"
	row := func(second, gpu int, busy string) string {
		return fmt.Sprintf("2026/11/24 09:00:%02d.000, %d, GPU-%d, A, %s, 1, 9100, 16376, 100.00, 40, 1980, 9001\n", second, gpu, gpu, busy)
	}
	for name, tt := range map[string]struct{ later, want string }{
		"without a stamp": {row(1, 0, "80") + said + "\n", "its tool said \"" + said},
		"in its row":      {row(1, 0, "80") + row(1, 1, "[GPU requires reset]"), "its tool said \"[GPU requires reset]"},
		"without a word":  {row(1, 0, "80") + row(9, 0, "80"), "did not say why"},
		"never":           {row(1, 0, "80") + row(1, 1, "80") + row(2, 0, "80"), ""},
	} {
		s := &session{window: newWindow(5 * time.Second), trial: collectors.Trial{Anchor: result.NewAnchor()}, sink: new(collectortest.Sink)}
		w, c := &watcher{session: s}, new(clock)
		w.rows(row(0, 0, "80")+row(0, 1, "80"), 10*time.Second, c)
		w.rows(tt.later, 20*time.Second, c)
		texts := strings.Join(s.window.losses(), "\n")
		if !strings.Contains(texts, tt.want) || (texts == "") != (tt.want == "") || strings.Count(texts, "GPU 1 (GPU-1)") != strings.Count(texts, "\n")+min(1, len(texts)) {
			t.Errorf("%s: %q", name, texts)
		}
	}
}

// A GPU that is lost spoils the figures of the trial: those of the others would
// be taken for all. The sentence about it names the GPU and quotes its tool.
func TestWindow_lost(t *testing.T) {
	const said = "Unable to determine the device handle for GPU1: 0000:41:00.0: GPU is lost"
	both := []gpustate.Reading{board("0", 90, 100, 300, 40), board("1", 90, 100, 300, 40)}
	first := both[:1]
	lost := func(uuid, index string) []gpustate.Reading {
		return []gpustate.Reading{both[0], {UUID: uuid, Index: index, Said: said, Lost: true}}
	}
	for _, tt := range []struct {
		name  string
		looks [][]gpustate.Reading // one a second, from the load's begin on
		want  string               // "" for figures
		power any
	}{
		{"never", [][]gpustate.Reading{both, both, both}, "", 600.0},
		{"by its index", [][]gpustate.Reading{both, lost("", "1"), both}, `GPU 1 (GPU-1) stopped reporting 2.0 s into the load: its tool said "` + said + `"`, nil},
		{"by its UUID", [][]gpustate.Reading{both, lost("GPU-1", ""), both}, `GPU 1 (GPU-1) stopped reporting 2.0 s into the load: its tool said "` + said + `"`, nil},
		{"not named", [][]gpustate.Reading{both, lost("", ""), lost("", "")}, `GPU 1 (GPU-1) stopped reporting 2.0 s into the load: its tool said "` + said + `"`, nil},
		{"never seen", [][]gpustate.Reading{both, lost("", "7"), both}, `a GPU does not report: its tool said "` + said + `"`, nil},
		{"without a word", [][]gpustate.Reading{both, first, first}, "GPU 1 (GPU-1) stopped reporting 2.0 s into the load, and its tool did not say why", nil},
		{"for long", [][]gpustate.Reading{both, first, first, first, first, first, first, both}, "GPU 1 (GPU-1) stopped reporting 2.0 s into the load, and its tool did not say why", nil},
		{"for one look", [][]gpustate.Reading{both, first, both}, "", 600.0},
	} {
		w := newWindow(5 * second)
		w.observe(0, 0, both, false)
		w.markRead(0, 0, 0)
		w.begin(0)
		for i, list := range tt.looks {
			at := time.Duration(i+1) * second
			w.observe(0, at, list, true)
			w.markRead(0, at, 0)
		}
		row := w.row(true)
		if got := strings.Join(w.losses(), "; "); got != tt.want || row["mean_gpu_power_w"] != tt.power || row["gpu_uuid"] != "GPU-0,GPU-1" {
			t.Errorf("%s: %s\npower %v of %v", tt.name, got, row["mean_gpu_power_w"], row["gpu_uuid"])
		}
		for name, v := range row {
			if tt.want != "" && v != nil && name != "gpu_uuid" && name != "driver_version" {
				t.Errorf("%s: %s is %v", tt.name, name, v)
			}
		}
	}
	w := newWindow(5 * second)
	w.observe(0, 0, both, false)
	w.processes.observe(0, []gpustate.Reading{{UUID: "GPU-0", PIDs: []int{7}, PIDsKnown: true}}, map[int]bool{7: true})
	w.begin(0)
	w.observe(0, second, lost("", "1"), true)
	w.markRead(0, second, 0)
	if row := w.row(true); row["mean_gpu_power_w"] != 300.0 || len(w.losses()) > 0 {
		t.Errorf("a GPU of others was lost: %v, %v", row["mean_gpu_power_w"], w.losses())
	}
}
