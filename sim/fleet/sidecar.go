package fleet

import (
	"context"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// sidecarMeters are the metrics of llm-d's sidecar itself, as releases after 0.10 have them
// (https://github.com/llm-d/llm-d-router/blob/main/pkg/sidecar/metrics/metrics.go).
type sidecarMeters struct{ board *board }

const sidecarFamily = "llm_d_disagg_sidecar_"

func newSidecarMeters() *sidecarMeters { return &sidecarMeters{newBoard([]string{"llm-d-sidecar"})} }

// came counts a request of the inference API.
func (m *sidecarMeters) came(r *http.Request) {
	api := "completions"
	if strings.HasSuffix(r.URL.Path, "/chat/completions") {
		api = "chat_completions"
	}
	m.board.get(sidecarFamily+"requests_total", "api_type", api).add(1)
}

// countPrefill counts a request whose prompt a prefill server computes.
func (m *sidecarMeters) countPrefill() {
	m.board.get(sidecarFamily+"disagg_requests_total", "disagg_type", "prefill-decode").add(1)
}

// stage counts a request to the server of a stage, by when it began.
func (m *sidecarMeters) stage(name string, begun time.Time) {
	m.board.get(sidecarFamily + name + "_duration_seconds").observe(time.Since(begun).Seconds())
}

// failed counts a stage that failed.
func (m *sidecarMeters) failed(stage string) {
	m.board.get(sidecarFamily+"request_errors_total", "stage", stage).add(1)
}

// serve has the metrics on a port of their own, 0 for none, while do runs.
func (m *sidecarMeters) serve(ctx context.Context, host string, port int, log *log.Logger, do func() error) error {
	if port == 0 {
		return do()
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8; escaping=underscores")
		m.board.write(w)
	})
	ctx, cancel := context.WithCancel(ctx)
	var pages sync.WaitGroup
	pages.Go(func() {
		if err := serve(ctx, l, mux, log); err != nil {
			log.Printf("metrics: %v", err)
		}
	})
	defer pages.Wait()
	defer cancel()
	return do()
}
