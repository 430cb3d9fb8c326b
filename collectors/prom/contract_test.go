package prom_test

import (
	"net/http"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sweep.dev/sweep/collectors"
	"sweep.dev/sweep/collectors/collectortest"
	"sweep.dev/sweep/collectors/prom"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	body, err := os.ReadFile("../../internal/exposition/testdata/recorded/vllm-0.32.0.txt")
	if err != nil {
		t.Fatal(err)
	}
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
