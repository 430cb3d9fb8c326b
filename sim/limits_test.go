package sim

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"sweep.dev/sweep/internal/polltest"
)

// TestTGI_atItsLimits: more requests than it takes are refused, and what it
// does not know has no effect.
func TestTGI_atItsLimits(t *testing.T) {
	in := start(t, "--engine", "tgi", "--max-concurrent-requests", "1", "--time-scale", "0.01")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		r, err := http.NewRequestWithContext(t.Context(), "POST", in.url+"/v1/chat/completions", strings.NewReader(chat("x", `,"stream":true,"max_tokens":4000`)))
		if err != nil {
			t.Error(err)
			return
		}
		resp, err := in.client.Do(r)
		if err != nil {
			t.Error(err)
			return
		}
		<-stop
		_ = resp.Body.Close()
	})
	polltest.Until(t, "the first request", func() bool { return in.metric("tgi_request_count ") == 1 })
	status, said := in.do("POST", "/v1/chat/completions", chat("y", `,"max_tokens":4`))
	if status != 429 || said != `{"error":"Model is overloaded","error_type":"overloaded"}` {
		t.Errorf("%d %s", status, said)
	}
	close(stop)
	wg.Wait()
}

// TestSGLang_queueIsFull: a stream learns of it after its status of 200.
func TestSGLang_queueIsFull(t *testing.T) {
	t.Parallel()
	in := start(t, "--engine", "sglang", "--enable-metrics", "--max-running-requests", "1", "--max-queued-requests", "1", "--time-scale", "0.01")
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for range 2 {
		wg.Go(func() {
			r, err := http.NewRequestWithContext(ctx, "POST", in.url+"/v1/chat/completions", strings.NewReader(chat("x", `,"stream":true,"max_tokens":4000,"ignore_eos":true`)))
			if err != nil {
				t.Error(err)
				return
			}
			if resp, err := in.client.Do(r); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		})
	}
	polltest.Until(t, "one request waits", func() bool {
		_, said := in.do("GET", "/get_load", "")
		return strings.Contains(said, `"num_waiting_reqs":1`)
	})
	status, said := in.do("POST", "/v1/chat/completions", chat("y", `,"max_tokens":4,"stream":true`))
	if want := "data: " + `{"error":{"object":"error","message":"The request queue is full.","type":"SERVICE_UNAVAILABLE","param":null,"code":503}}` + "\n\ndata: [DONE]\n\n"; status != 200 || said != want {
		t.Errorf("a stream: %d %s", status, said)
	}
	if status, said = in.do("POST", "/v1/chat/completions", chat("y", `,"max_tokens":4`)); status != 503 || !strings.HasPrefix(said, `{"object":"error",`) {
		t.Errorf("a whole answer: %d %s", status, said)
	}
	if status, said = in.do("POST", "/flush_cache", ""); status != 400 {
		t.Errorf("a flush while it works: %d %s", status, said)
	}
}
