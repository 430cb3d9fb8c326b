package prom_test

import (
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sweep.dev/sweep/collectors"
	"sweep.dev/sweep/collectors/collectortest"
	"sweep.dev/sweep/collectors/prom"
	"sweep.dev/sweep/internal/recordtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	body := recordtest.Read(t, "recorded__vllm-0.32.0__metrics.txt")
	collectortest.Run(t, collectortest.Suite{
		New: func() collectors.Collector {
			c, err := prom.New(prom.Config{Interval: 100 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			return c
		},
		HTTP:     http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) }),
		Measures: []string{"mean_requests_running", "max_kv_cache_usage", "server_output_tokens", "preemptions"},
	})
}
