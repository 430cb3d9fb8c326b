package loadtest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/loadtest"
	"sweep.dev/sweep/load/openai"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/result"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract_openai(t *testing.T) {
	loadtest.Contract(t, func(t *testing.T, url string) load.Driver {
		d, err := openai.New(wire.Config{BaseURL: url, Model: "m", Chat: true, Stream: true, IncludeUsage: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(d.Close)
		return d
	})
}

// The contract is kept by a driver that has nothing in common with ours: so it
// asks for nothing that only ours can do.
func TestContract_naive(t *testing.T) {
	loadtest.Contract(t, func(t *testing.T, url string) load.Driver { return naive(url) })
}

// naive is the least that is a driver: a new connection for each request, lines
// by bufio, every chunk decoded. Its value is the server's URL.
type naive string

func (d naive) Run(ctx context.Context, src load.Source, rec load.Recorder, opts load.Options) (load.Health, error) {
	watch := load.StartWatch()
	base, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ended := make(chan struct{})
	var background, requests sync.WaitGroup
	background.Go(func() {
		select {
		case <-ended:
		case <-ctx.Done():
			select {
			case <-ended:
			case <-time.After(opts.Drain):
				stop()
			}
		}
	})
	var mu sync.Mutex
	stamped, done := 0, 0
	record := func(r result.Request) { // with the lock
		if r.Stamp != "" {
			stamped++
		}
		rec.Record(r)
		if done++; opts.Progress != nil {
			opts.Progress(load.Progress{Done: done})
		}
	}
	next := func(slot int, prev *result.Request) (load.Job, bool) {
		mu.Lock()
		defer mu.Unlock()
		if prev != nil {
			record(*prev)
		}
		if ctx.Err() != nil {
			return load.Job{}, false
		}
		return src.Next(slot, prev)
	}
	send := func(j load.Job, at time.Duration) result.Request {
		r := result.Request{
			N: j.N, Shard: j.Shard, Slot: j.Slot, Phase: j.Phase, Scheduled: at, Paused: j.Paused, Sent: result.Never,
			FirstToken: result.Never, LastToken: result.Never, FirstTokenChunk: -1, Status: result.Cancelled,
		}
		if wait(ctx, opts.Anchor, at) == nil {
			r.Sent = opts.Anchor.Since()
			err := d.ask(base, j, &r, opts)
			switch {
			case err == nil:
				r.Status = result.Completed
			case base.Err() == nil:
				r.Status, r.ErrorClass, r.Error = result.Failed, result.ErrReset, err.Error()
			}
		}
		r.End = opts.Anchor.Since()
		return r
	}

	start := opts.Anchor.Since()
	if loop := src.Loop(); loop.Open {
		for {
			j, ok := next(0, nil)
			if !ok {
				break
			}
			_ = wait(ctx, opts.Anchor, start+j.At)
			requests.Go(func() {
				r := send(j, start+j.At)
				mu.Lock()
				defer mu.Unlock()
				record(r)
			})
		}
	} else {
		for slot := range loop.Slots {
			requests.Go(func() {
				free := start
				j, ok := next(slot, nil)
				for ok {
					r := send(j, free+j.At)
					free = r.End
					j, ok = next(slot, &r)
				}
			})
		}
	}
	requests.Wait()
	close(ended)
	background.Wait()
	h := watch.Stop()
	h.StampKind = load.StampKind(0, stamped)
	return h, nil
}

func wait(ctx context.Context, a result.Anchor, at time.Duration) error {
	timer := load.NewTimer()
	defer timer.Close()
	return timer.WaitUntil(ctx, a.Start.Add(at))
}

func (d naive) ask(ctx context.Context, j load.Job, r *result.Request, opts load.Options) error {
	if j.Deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, j.Deadline)
		defer cancel()
	}
	body := fmt.Sprintf(`{"messages":[{"role":"user","content":%q}],"max_tokens":%d,"stream":true,"stream_options":{"include_usage":true}}`,
		j.Prompt.Turns[0], j.MaxTokens)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, string(d)+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("X-Request-Id", fmt.Sprintf("%s-s%d-n%d", opts.RequestID, j.Shard, j.N))
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	r.RetryAfter = wire.RetryAfter(resp.Header, time.Now())
	finished := false
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var c struct {
			Error   any
			Choices []struct {
				Delta        struct{ Content string }
				FinishReason string `json:"finish_reason"`
			}
			Usage *struct {
				CompletionTokens int `json:"completion_tokens"`
			}
		}
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			return err
		}
		if c.Error != nil {
			return errors.New("error object")
		}
		for _, choice := range c.Choices {
			r.LastToken, r.Stamp = opts.Anchor.Since(), result.StampUser
			if choice.Delta.Content != "" && r.FirstToken == result.Never {
				r.FirstToken = r.LastToken
			}
			finished = finished || choice.FinishReason != ""
		}
		if c.Usage != nil {
			r.CompletionTokens = c.Usage.CompletionTokens
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if !finished {
		return errors.New("no finish_reason")
	}
	return nil
}
