package fleet

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"sweep.dev/sweep/sim/dialect"
)

// An event is what a worker's stream says at once.
type event struct {
	Choices []struct {
		Text         string  `json:"text"`
		FinishReason *string `json:"finish_reason"`
	} `json:"choices"`
	Usage *usage          `json:"usage"`
	Error json.RawMessage `json:"error"`
}

type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	Details    struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// errTorn is a stream that ended before its answer did.
var errTorn = errors.New("stream ended before generation completed")

// answer has a request computed and sends what comes of it.
func (f *frontend) answer(w http.ResponseWriter, r *http.Request, c *call) error {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	resp, last, err := f.dispatch(ctx, c)
	if err != nil {
		var e *refusal
		if !errors.As(err, &e) {
			e = refuse(500, "Failed to generate completions: %v", err)
		}
		if r.Context().Err() == nil {
			dialect.WriteJSON(w, e.Code, e)
		}
		return e
	}
	defer resp.Body.Close()
	defer last.release()
	s := newStream(c, w)
	if c.body.Stream {
		s.begin()
	}
	sent := time.Now()
	err = s.relay(resp.Body, func(now time.Time) {
		if c.m.tokens == 0 {
			last.computed()
			f.board.get("dynamo_request_plane_roundtrip_ttft_seconds").observe(now.Sub(sent).Seconds())
			c.m.stage("transport_roundtrip", now.Sub(sent))
			if len(c.m.phases) > 1 {
				c.m.router("kv_transfer_estimated_latency_seconds").observe(now.Sub(sent).Seconds())
			}
		}
		c.m.token(now)
	})
	if err != nil {
		s.fail(err)
		return err
	}
	c.m.cached = s.usage.Details.Cached
	return s.end()
}

// dispatch sends a request to the worker that shall answer it, once another one
// has computed its prompt if there are such. What is returned is the
// beginning of the answer and the choice, for the caller to close and release.
func (f *frontend) dispatch(ctx context.Context, c *call) (*http.Response, *choice, error) {
	answering := f.registry.of(c.body.Model, aggregated, decode)
	if len(answering) == 0 {
		return nil, nil, refuse(503, "Service unavailable: no instance serves %s", c.body.Model)
	}
	phase := aggregated
	received := false
	if first := f.registry.of(c.body.Model, prefill); len(first) > 0 {
		phase = decode
		if err := f.prefill(ctx, c, first); err != nil {
			return nil, nil, err
		}
		received = true
	}
	chosen := f.choose(c, answering, phase)
	resp, err := f.send(ctx, c, chosen, c.request(chosen.card, received, false))
	if err != nil {
		chosen.release()
		return nil, nil, err
	}
	return resp, chosen, nil
}

func (f *frontend) choose(c *call, workers []*worker, phase string) *choice {
	start := time.Now()
	chosen := f.router.choose(workers, phase, c.prompt)
	c.m.chosen(chosen, time.Since(start))
	if f.router.kv {
		kind, cached, total := workerType(chosen.Mode), "", ""
		if phase != decode {
			cached = fmt.Sprintf(" effective_cached_blocks=%.1f", float64(chosen.overlap))
			total = fmt.Sprintf(" total_kv_blocks=Some(%d)", chosen.Blocks)
		}
		f.log.Printf("INFO dynamo_kv_router::scheduling::selector: Selected worker router_mode=\"kv\" request_id=%q worker_id=%d worker_type=%s dp_rank=0 logit=%s%s host_pinned_blocks=0 disk_blocks=0%s",
			c.id, chosen.ID, kind, rust(chosen.logit), cached, total)
	}
	return chosen
}

// rust prints a float as Rust's Debug does: 0.0, 0.40625.
func rust(v float64) string {
	s := strconv.FormatFloat(v, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// prefill has one of workers compute the prompt.
func (f *frontend) prefill(ctx context.Context, c *call, workers []*worker) error {
	chosen := f.choose(c, workers, prefill)
	defer chosen.release()
	start := time.Now()
	resp, err := f.send(ctx, c, chosen, c.request(chosen.card, false, true))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	c.m.stage("transport_roundtrip", time.Since(start))
	return nil
}

// request returns the body for a worker.
func (c *call) request(w card, received, promptOnly bool) map[string]any {
	body := map[string]any{"model": c.body.Model, "prompt": c.prompt}
	for _, name := range passed {
		if v, ok := c.fields[name]; ok {
			body[name] = v
		}
	}
	body["max_tokens"] = c.maxTokens
	if c.maxTokens == 0 {
		body["max_tokens"] = max(1, w.Context-len(c.prompt))
	}
	if promptOnly {
		delete(body, "min_tokens")
		delete(body, "stop")
		body["max_tokens"] = 1
		body["kv_transfer_params"] = map[string]bool{"do_remote_decode": true}
		return body
	}
	body["stream"] = true
	body["stream_options"] = map[string]bool{"include_usage": true, "continuous_usage_stats": c.continuous()}
	if received {
		body["kv_transfer_params"] = map[string]bool{"do_remote_prefill": true}
	}
	return body
}

func (c *call) continuous() bool {
	return c.body.StreamOptions.IncludeUsage && c.body.StreamOptions.ContinuousUsageStats
}

// send posts a request to a worker. Whatever is not a 200 is an error.
func (f *frontend) send(ctx context.Context, c *call, to *choice, body map[string]any) (*http.Response, error) {
	start := time.Now()
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.url+"/v1/completions", bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Request-Id", cmp.Or(c.client, c.id))
	req.Header.Set(sentAt, strconv.FormatInt(time.Now().UnixNano(), 10))
	inflight := f.board.get("dynamo_request_plane_inflight_requests")
	inflight.add(1)
	defer inflight.add(-1)
	f.board.get("dynamo_transport_tcp_bytes_sent_total").add(float64(len(text)))
	f.board.get("dynamo_request_plane_queue_seconds").observe(time.Since(start).Seconds())
	resp, err := f.client.Do(req)
	f.board.get("dynamo_request_plane_send_seconds").observe(time.Since(start).Seconds())
	if err != nil {
		f.board.get("dynamo_transport_tcp_errors_total").add(1)
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	switch message := errorMessage(said); {
	case resp.StatusCode == http.StatusServiceUnavailable || resp.StatusCode == http.StatusTooManyRequests:
		return nil, refuse(503, "Service unavailable: %s", message)
	case resp.StatusCode < 500:
		return nil, refuse(400, "Validation: %s", message)
	default:
		return nil, refuse(500, "Failed to generate completions: %s", message)
	}
}

// errorMessage finds the message in any engine's error.
func errorMessage(body []byte) string {
	var e struct {
		Message string          `json:"message"`
		Error   json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &e) != nil {
		return strings.TrimSpace(string(body))
	}
	if e.Message != "" || e.Error == nil {
		return e.Message
	}
	var text string
	if json.Unmarshal(e.Error, &text) == nil {
		return text
	}
	return errorMessage(e.Error)
}

// A stream is what the client gets of one answer.
type stream struct {
	c      *call
	w      http.ResponseWriter
	out    *http.ResponseController
	head   []byte // of an event, up to its choices
	tail   []byte // from behind them up to what not every event has
	buf    []byte
	sent   int // events
	text   strings.Builder
	finish string
	usage  usage
}

func newStream(c *call, w http.ResponseWriter) *stream {
	model, _ := json.Marshal(c.body.Model) // a string always marshals
	prefix, object := "chatcmpl-", "chat.completion.chunk"
	if !c.chat {
		prefix, object = "cmpl-", "text_completion"
	}
	nulls := ""
	if c.old {
		nulls = `"service_tier":null,"system_fingerprint":null,`
	}
	return &stream{
		c: c, w: w, out: http.NewResponseController(w),
		head: fmt.Appendf(nil, `data: {"id":"%s%s","choices":[`, prefix, c.id),
		tail: fmt.Appendf(nil, `],"created":%d,"model":%s,%s"object":"%s"`, c.created, model, nulls, object),
	}
}

func (s *stream) begin() {
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	s.w.WriteHeader(http.StatusOK)
	_ = s.out.Flush()
}

// relay reads a worker's events to their end and sends what each says at once;
// those that came together go out together. token is called for each token.
func (s *stream) relay(from io.Reader, token func(time.Time)) error {
	in := bufio.NewReaderSize(from, 64<<10)
	for {
		if in.Buffered() == 0 {
			if err := s.flush(); err != nil {
				return err
			}
		}
		line, err := in.ReadSlice('\n')
		if err != nil {
			if s.finish != "" && errors.Is(err, io.EOF) {
				return nil
			}
			return errTorn
		}
		data, ok := bytes.CutPrefix(line, []byte("data:"))
		data = bytes.TrimSpace(data)
		if !ok || len(data) == 0 {
			continue
		}
		if string(data) == "[DONE]" {
			if s.finish == "" {
				return errTorn
			}
			return nil
		}
		var e event
		if err := json.Unmarshal(data, &e); err != nil {
			return fmt.Errorf("a worker's event: %w", err)
		}
		if len(e.Error) > 0 && string(e.Error) != "null" {
			return errors.New(errorMessage(data))
		}
		if e.Usage != nil {
			s.usage = *e.Usage
		}
		for _, choice := range e.Choices {
			if choice.Text != "" || choice.FinishReason != nil {
				token(time.Now())
			}
			s.chunk(choice.Text, choice.FinishReason)
		}
	}
}

func (s *stream) flush() error {
	if len(s.buf) == 0 || !s.c.body.Stream {
		return nil
	}
	_, err := s.w.Write(s.buf)
	s.buf = s.buf[:0]
	if err != nil {
		return err
	}
	return s.out.Flush()
}

// chunk adds the events of one token. The reason of the end has one of its own.
func (s *stream) chunk(text string, finish *string) {
	if finish != nil {
		s.finish = *finish
	}
	if !s.c.body.Stream {
		s.text.WriteString(text)
		return
	}
	if s.c.old && s.c.chat {
		s.oldChunk(text, finish)
		return
	}
	if text != "" {
		quoted, _ := json.Marshal(text) // a string always marshals
		if s.c.chat {
			s.event(`{"index":0,"delta":{"content":`+string(quoted)+s.role()+`},"finish_reason":null,"logprobs":null}`, s.c.continuous())
		} else {
			s.event(`{"text":`+string(quoted)+`,"index":0,"finish_reason":null}`, s.c.continuous())
		}
	}
	if finish != nil {
		quoted, _ := json.Marshal(*finish)
		if s.c.chat {
			s.event(`{"index":0,"delta":{},"finish_reason":`+string(quoted)+`,"logprobs":null}`, s.c.continuous())
		} else {
			s.event(`{"text":"","index":0,"finish_reason":`+string(quoted)+`}`, s.c.continuous())
		}
	}
}

// oldChunk adds one event for both: the role is in each, what is null is said,
// and the reason is not there before the end.
func (s *stream) oldChunk(text string, finish *string) {
	content, _ := json.Marshal(text)
	if text == "" {
		content = []byte("null")
	}
	end := ""
	if finish != nil {
		quoted, _ := json.Marshal(*finish)
		end = `,"finish_reason":` + string(quoted)
	}
	s.event(`{"index":0,"delta":{"content":`+string(content)+`,"function_call":null,"tool_calls":null,"role":"assistant","refusal":null,"reasoning_content":null}`+end+`,"logprobs":null}`, s.c.continuous())
}

// role stands in the first chunk.
func (s *stream) role() string {
	if s.sent > 0 {
		return ""
	}
	return `,"role":"assistant"`
}

// event adds one event with this choice, "" for none.
func (s *stream) event(choice string, withUsage bool) {
	s.buf = append(s.buf, s.head...)
	s.buf = append(s.buf, choice...)
	s.buf = append(s.buf, s.tail...)
	if withUsage {
		s.buf = append(s.buf, `,"usage":`...)
		s.buf = s.usage.append(s.buf)
	} else if s.c.old {
		s.buf = append(s.buf, `,"usage":null`...)
	}
	if s.finish != "" && choice != "" {
		s.buf = append(s.buf, s.c.extra()...)
	}
	s.buf = append(s.buf, "}\n\n"...)
	s.sent++
}

func (u usage) append(b []byte) []byte {
	return fmt.Appendf(b, `{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}`,
		u.Prompt, u.Completion, u.Prompt+u.Completion, u.Details.Cached)
}

// extra returns nvext, for who asked for it.
func (c *call) extra() string {
	wanted := c.body.NvExt.ExtraFields
	if len(wanted) == 0 {
		return ""
	}
	ext := map[string]any{}
	first, last := c.m.phases[0], c.m.phases[len(c.m.phases)-1]
	if slices.Contains(wanted, "worker_id") {
		ext["worker_id"] = map[string]uint64{"prefill_worker_id": first.ID, "decode_worker_id": last.ID}
	}
	if slices.Contains(wanted, "timing") {
		ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
		ext["timing"] = map[string]float64{
			"request_received_ms": float64(c.arrived.UnixMilli()), "ttft_ms": ms(c.m.first.Sub(c.arrived)),
			"total_time_ms": ms(time.Since(c.arrived)), "kv_hit_rate": float64(first.overlap) / float64(first.held),
		}
	}
	text, _ := json.Marshal(ext) // maps of numbers always marshal
	return `,"nvext":` + string(text)
}

// end sends what follows the last token.
func (s *stream) end() error {
	if s.c.body.Stream {
		if s.c.body.StreamOptions.IncludeUsage {
			s.event("", true)
		}
		s.buf = append(s.buf, "data: [DONE]\n\n"...)
		return s.flush()
	}
	type object = map[string]any
	choice := object{"index": 0, "finish_reason": s.finish, "logprobs": nil}
	out := object{"created": s.c.created, "model": s.c.body.Model, "choices": []any{choice}, "usage": json.RawMessage(s.usage.append(nil))}
	if s.c.chat {
		out["id"], out["object"] = "chatcmpl-"+s.c.id, "chat.completion"
		choice["message"] = object{"content": s.text.String(), "role": "assistant"}
	} else {
		out["id"], out["object"] = "cmpl-"+s.c.id, "text_completion"
		choice["text"] = s.text.String()
	}
	if ext := s.c.extra(); ext != "" {
		out["nvext"] = json.RawMessage(strings.TrimPrefix(ext, `,"nvext":`))
	}
	dialect.WriteJSON(s.w, http.StatusOK, out)
	return nil
}

// fail tells the client as Dynamo does: an event named error whose message is a
// comment, and neither data nor [DONE].
func (s *stream) fail(err error) {
	if !s.c.body.Stream {
		dialect.WriteJSON(s.w, http.StatusInternalServerError, refuse(500, "Failed to fold completions stream: %v", err))
		return
	}
	s.buf = fmt.Appendf(s.buf, "event: error\n: %s\n\n", strings.ReplaceAll(err.Error(), "\n", " "))
	_ = s.flush()
}
