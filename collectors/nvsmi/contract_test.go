package nvsmi_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sweep.dev/sweep/collectors"
	"sweep.dev/sweep/collectors/collectortest"
	"sweep.dev/sweep/collectors/nvsmi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	collectortest.Run(t, collectortest.Suite{
		New: func() collectors.Collector {
			c, err := nvsmi.New(nvsmi.Config{Interval: 200 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			return c
		},
		Exec: func(context.Context, ...string) ([]byte, error) {
			return []byte("0, 0, 0, 0, 0, GPU-1, 590.48.01, 97, 40, 1000, 16376, 60.5, 55, 1980, NVIDIA RTX 2000 Ada\n"), nil
		},
		Measures: []string{"gpu_util_mean", "gpu_util_max", "gpu_memory_used_max_bytes", "gpu_power_mean_w", "gpu_energy_j", "gpu_temp_max_c", "gpu_uuid", "driver_version"},
		Samples:  true,
	})
}
