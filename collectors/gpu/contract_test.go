package gpu_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sweep.dev/sweep/collectors"
	"sweep.dev/sweep/collectors/collectortest"
	"sweep.dev/sweep/collectors/gpu"
	"sweep.dev/sweep/internal/polltest"
)

func TestMain(m *testing.M) {
	polltest.Parallel(16)
	goleak.VerifyTestMain(m)
}

// exec answers each command with one text.
func exec(out string) func(context.Context, ...string) ([]byte, error) {
	return func(context.Context, ...string) ([]byte, error) { return []byte(out), nil }
}

func serve(body func() string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body()) })
}

func TestContract(t *testing.T) {
	xml, err := os.ReadFile("../../internal/gpustate/testdata/xml__v13.xml")
	if err != nil {
		t.Fatal(err)
	}
	amd, err := os.ReadFile("../../internal/gpustate/testdata/amdsmi__rocm7.json")
	if err != nil {
		t.Fatal(err)
	}
	var joules atomic.Int64
	common := []string{"mean_gpu_util", "max_gpu_util", "max_gpu_memory_used_bytes", "gpu_memory_idle_bytes", "gpu_memory_total_bytes", "mean_gpu_power_w", "gpu_energy_j", "gpu_energy_source"}
	for name, suite := range map[string]struct {
		config gpu.Config
		suite  collectortest.Suite
		more   []string
	}{
		"auto": {
			gpu.Config{},
			collectortest.Suite{Exec: exec("0, 0, 0, 0, 0x0, 15000, 376, N/A, 9001, 70, 70, 2130, 0, GPU-1, 590.48.01, 97, 40, 1000, 16376, 60.5, 55, 1980, NVIDIA RTX 2000 Ada\n")},
			[]string{"max_gpu_temp_c", "gpu_uuid", "driver_version", "min_gpu_memory_free_bytes", "mean_gpu_memory_bandwidth_util", "mean_gpu_clock_mhz", "min_gpu_power_limit_w", "min_gpu_clock_limit_mhz", "gpu_throttled_ms"},
		},
		"XML": {gpu.Config{Source: gpu.NvidiaSMIXML}, collectortest.Suite{Exec: exec(string(xml))}, []string{"gpu_uuid", "driver_version", "gpu_throttled_ms"}},
		"AMD": {gpu.Config{Source: gpu.AMDSMI}, collectortest.Suite{Exec: exec(string(amd))}, nil},
		"exporter": {
			gpu.Config{Source: gpu.Exporter, URL: "/metrics"},
			collectortest.Suite{HTTP: serve(func() string {
				return fmt.Sprintf("DCGM_FI_DEV_GPU_UTIL{UUID=\"GPU-a\"} 90\nDCGM_FI_DEV_FB_USED{UUID=\"GPU-a\"} 100\nDCGM_FI_DEV_FB_FREE{UUID=\"GPU-a\"} 100\n"+
					"DCGM_FI_DEV_POWER_USAGE{UUID=\"GPU-a\"} 100\nDCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{UUID=\"GPU-a\"} %d\n", 1000*joules.Add(100))
			})},
			[]string{"gpu_uuid", "min_gpu_memory_free_bytes"},
		},
		"wrapper": {
			gpu.Config{Source: gpu.HTTP, URL: "/gpu"},
			collectortest.Suite{HTTP: serve(func() string {
				return `[{"uuid":"GPU-a","utilization.gpu":"90 %","memory.used":10,"memory.total":20,"power.draw":50}]`
			})},
			[]string{"gpu_uuid"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := suite.suite
			s.Measures = append(common, suite.more...)
			s.New = func() collectors.Collector {
				suite.config.Interval = 200 * time.Millisecond
				c, err := gpu.New(suite.config)
				if err != nil {
					t.Fatal(err)
				}
				return c
			}
			collectortest.Run(t, s)
		})
	}
}
