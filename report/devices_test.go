package report

import (
	"strings"
	"testing"

	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/rundir"
)

// A slow device whose driver allows it less than another says so; what is not known, or not
// lower, is left out.
func TestSlowDevices_limits(t *testing.T) {
	t.Parallel()
	type row struct {
		device       string
		decode       float64
		watts, clock any
	}
	for _, c := range []struct {
		name string
		rows []row
		want string // the end of the only sentence
	}{
		{"a lower power limit", []row{{"GPU-a", 10, 700.0, 1980.0}, {"GPU-b", 20, 500.0, 1980.0}}, "(10 ms); its power limit is 500 W, others have up to 700"},
		{"both, and a third device", []row{{"GPU-a", 10, 700.0, 1980.0}, {"GPU-c", 10, 500.0, 1410.0}, {"GPU-b", 20, 500.0, 1410.0}}, "(10 ms); its power limit is 500 W, others have up to 700; its highest clock is 1410 MHz, others have up to 1980"},
		{"lowered on the way", []row{{"GPU-a", 10, 700.0, nil}, {"GPU-b", 20, 700.0, nil}, {"GPU-b", 20, 400.0, nil}, {"GPU-b", 20, nil, nil}}, "(10 ms); its power limit is 400 W, others have up to 700"},
		{"alike", []row{{"GPU-a", 10, 700.0, 1980.0}, {"GPU-b", 20, 700.0, 1980.0}}, "(10 ms)"},
		{"the slow one has more", []row{{"GPU-a", 10, 500.0, 1410.0}, {"GPU-b", 20, 700.0, 1980.0}}, "(10 ms)"},
		{"not known", []row{{"GPU-a", 10, 700.0, nil}, {"GPU-b", 20, nil, 1410.0}}, "(10 ms)"},
	} {
		r := &Run{State: &rundir.State{}}
		for i, x := range c.rows {
			r.Trials = append(r.Trials, Trial{
				Key: rundir.Key{Cell: "d", Trial: i + 1}, Cell: conclude.Cell{ID: "d", Deployment: "d"},
				Outcome: &result.Outcome{Row: result.Row{
					"engine": "vllm", "gpu": "h100", "launch": int64(1), "gpu_uuid": x.device, "device_decode_ms": x.decode,
					"min_gpu_power_limit_w": x.watts, "min_gpu_clock_limit_mhz": x.clock,
				}},
			})
		}
		if got := r.SlowDevices(); len(got) != 1 || !strings.HasSuffix(got[0], c.want) {
			t.Errorf("%s: %q, want the end %q", c.name, got, c.want)
		}
	}
}

// A device is slow by the fingerprints of the others that ran the same server, and of nothing
// else.
func TestSlowDevices(t *testing.T) {
	t.Parallel()
	type row struct {
		deployment, device string
		launch             int64
		prefill, decode    any
	}
	for _, c := range []struct {
		name string
		rows []row
		want []string // beginnings
	}{
		{"alike", []row{{"d", "GPU-a", 1, 50.0, 10.0}, {"d", "GPU-b", 2, 54.0, 10.9}}, nil},
		{"one slow", []row{{"d", "GPU-a", 1, 50.0, 10.0}, {"d", "GPU-b", 2, 100.0, 10.0}, {"d", "GPU-c", 3, 52.0, 10.0}}, []string{
			"slow_device: vllm l4: GPU-b took 100 ms for the fixed prompt, 1.96 times the median of 2 other devices (51 ms)",
		}},
		{"both ways", []row{{"d", "GPU-a", 1, 50.0, 20.0}, {"d", "GPU-b", 2, 100.0, 10.0}}, []string{
			"slow_device: vllm l4: GPU-b took 100 ms for the fixed prompt, 2.00 times the median of 1 other device (50 ms)",
			"slow_device: vllm l4: GPU-a took 20 ms for each of the fixed output tokens, 2.00 times",
		}},
		{"other servers", []row{{"d", "GPU-a", 1, 50.0, 10.0}, {"e", "GPU-b", 1, 100.0, 20.0}}, nil},
		{"one slow launch of three", []row{{"d", "GPU-a", 1, 50.0, nil}, {"d", "GPU-b", 2, 50.0, nil}, {"d", "GPU-b", 3, 50.0, nil}, {"d", "GPU-b", 4, 100.0, nil}, {"d", "GPU-b", 4, 100.0, nil}}, nil},
		{"not known", []row{{"d", "GPU-a", 1, nil, nil}, {"d", "GPU-b", 2, 100.0, 20.0}, {"d", "", 3, 10.0, 1.0}}, nil},
	} {
		r := &Run{State: &rundir.State{}}
		for i, x := range c.rows {
			one := result.Row{"engine": "vllm", "gpu": "l4", "launch": x.launch, "device_prefill_ms": x.prefill, "device_decode_ms": x.decode}
			if x.device != "" {
				one["gpu_uuid"] = x.device
			}
			r.Trials = append(r.Trials, Trial{
				Key: rundir.Key{Cell: x.deployment, Trial: i + 1}, Cell: conclude.Cell{ID: x.deployment, Deployment: x.deployment}, Outcome: &result.Outcome{Row: one},
			})
		}
		got := r.SlowDevices()
		if len(got) != len(c.want) {
			t.Errorf("%s: %q", c.name, got)
			continue
		}
		for i := range got {
			if !strings.HasPrefix(got[i], c.want[i]) {
				t.Errorf("%s: %q, want %q", c.name, got[i], c.want[i])
			}
		}
	}
}
