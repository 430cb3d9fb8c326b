package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/backends/foreign"
	"sweep.dev/sweep/executor/serving/ask"
	"sweep.dev/sweep/internal/netguard"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/internal/secret"
	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/sse"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/summary"
)

// probeTimeout bounds each question of a probe.
const probeTimeout = 60 * time.Second

func (a *app) probeCommand() *cli.Command {
	return &cli.Command{
		Name:      "probe",
		Usage:     "shows what a running server is, and how it streams",
		ArgsUsage: "URL",
		Description: `Asks URL for its models, one completion and one stream, and prints which
model answers, whose metrics it has, and the TTFT, TPOT, E2E, tokens/s, text
and finish_reason of that one stream; with -v also each delta with its time,
and the first 64 KiB of each answer as it came, with references in place of
secrets.
One stream shows that the server answers; it is no measurement. The key is
read from the environment variable that --key-env names, or from the file
that --key-file names.

With --kube it asks no server, but the API of a Kubernetes cluster for the stack
behind NAME: a route, gateway, InferencePool, service, ingress, graph of Dynamo,
or labels as key=value; KIND/NAME chooses between them. It prints the addresses,
the pods of each role with images and restarts, and what to look at first.
Nothing in the cluster is changed.

  $ sweep probe http://127.0.0.1:8000
  $ sweep probe --key-file sweep.key http://203.0.113.7:35558  # see: sweep pods show
  $ sweep probe --kube llm-d                          # the only stack of a namespace
  $ sweep probe --kube llm-d/inferencepool/qwen3 -v   # with arguments
  $ sweep probe --kube llm-d --print-role | kubectl apply -f -` + exitHelp(exitOK, exitInternal, exitUsage, exitIncomplete, exitProvider),
		Flags: append(
			append(keyFlags(), kubeFlags()...),
			&cli.StringFlag{Name: "model", Usage: "ask for this `MODEL`; default: the first that is served"},
			&cli.IntFlag{Name: "max-tokens", Usage: "tokens to ask for in the stream", Value: 8},
			&cli.BoolFlag{Name: "allow-link-local", Usage: "permit an address that is link-local or a cloud's metadata service"},
			&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "print each event of the stream with its time, and the first 64 KiB of each answer"},
			&cli.BoolFlag{Name: "json", Usage: "print as JSON"},
		),
		Commands:     []*cli.Command{a.metricsCommand()},
		OnUsageError: usageError,
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.IsSet("kube") || c.IsSet("manifests") || c.Bool("print-role") || c.Bool("print-load-role") || c.Bool("print-deploy-role") {
				return a.probeKube(ctx, c)
			}
			target, err := oneArg(c, "URL")
			if err != nil {
				return err
			}
			// As backend.url of a plan: many clients want the address with the /v1.
			base, err := serverURL(c, target)
			if err != nil {
				return err
			}
			if c.Int("max-tokens") < 1 {
				return &usage{errors.New("--max-tokens: want at least 1")}
			}
			at, err := url.Parse(base)
			if err != nil {
				return &usage{err}
			}
			key, err := a.keyOf(c)
			if err != nil {
				return &usage{err}
			}
			a.warnOfPlainKey(base, key)
			mask := secret.NewMask(append(secret.FromEnviron(os.Environ()), secret.New("the key", key)))
			guard := netguard.Guard{AllowLinkLocal: c.Bool("allow-link-local"), Hint: "--allow-link-local permits it"}
			api := ask.New(&foreign.Host{At: at, Guard: guard}, func(h http.Header) {
				if key != "" {
					h.Set("Authorization", "Bearer "+key)
				}
			}, mask, func(string) {})
			defer api.Close()
			p := &probe{model: c.String("model"), tokens: c.Int("max-tokens"), api: api, mask: mask, verbose: c.Bool("verbose")}
			found := &probed{URL: base, Stream: []delta{}}
			err = p.run(ctx, found)
			if err != nil {
				err = &statusError{exitIncomplete, probeHint(err)}
			}
			if c.Bool("json") {
				return errors.Join(a.json().Encode(found), err)
			}
			page := a.page()
			shown := found.print(page, p.verbose)
			for _, a := range found.Answers {
				page.Lines(a.Asked, strings.Split(strings.TrimRight(a.Text, "\n"), "\n"))
			}
			if err != nil || shown != nil {
				return errors.Join(err, shown)
			}
			page.Text("next: " + draw.Command("sweep bench "+plaintext.Word(found.URL)))
			return page.Err()
		},
	}
}

// maxQuote bounds what is quoted of an answer that is not one, and maxShown what is shown of
// one with -v, in bytes.
const (
	maxQuote = 200
	maxShown = 64 << 10
)

// A probe is one look at a server.
type probe struct {
	model   string
	tokens  int
	api     *ask.Client
	mask    secret.Mask
	verbose bool // answers are kept
}

// A reply is the first part of all that a server answered to one question.
type reply struct {
	Asked string `json:"asked"`
	Text  string `json:"text"`
}

// keep keeps the answer to a question, without secrets.
func (p *probe) keep(found *probed, asked string, body []byte, err error) {
	if status, ok := errors.AsType[*ask.Status](err); ok {
		asked, body = fmt.Sprintf("%s (status %d)", asked, status.Code), []byte(status.Body())
	}
	text := p.mask.Text(string(body))
	if len(text) > maxShown {
		text = strings.ToValidUTF8(text[:maxShown], "") + "\nThe answer goes on: these are its first 64 KiB."
	}
	if p.verbose && (text != "" || err == nil) {
		found.Answers = append(found.Answers, reply{asked, text})
	}
}

// hide puts references in place of secrets that a server has answered.
func (p *probe) hide(found *probed) {
	for i := range found.Stream {
		found.Stream[i].Data = p.mask.Text(found.Stream[i].Data)
	}
	found.Text, found.Completion = p.mask.Text(found.Text), json.RawMessage(p.mask.Text(string(found.Completion)))
}

// A finding of a probe is everything that one look showed.
type probed struct {
	URL        string          `json:"url"`
	Models     []string        `json:"models"`
	Model      string          `json:"model"`
	Completion json.RawMessage `json:"completion,omitempty"`
	Stream     []delta         `json:"stream"`
	Usage      json.RawMessage `json:"usage,omitempty"`
	Finish     string          `json:"finish_reason"`
	Done       bool            `json:"done_marker"` // data: [DONE] came
	Text       string          `json:"text"`        // of the stream, put together; its reasoning is not in it
	Chunks     int             `json:"chunks"`      // events with a choice
	Tokens     *int            `json:"tokens"`      // by the server's usage
	TTFT       *float64        `json:"ttft_ms"`
	TPOT       *float64        `json:"tpot_ms"`
	E2E        *float64        `json:"e2e_ms"`
	TokensPerS *float64        `json:"tokens_per_s"`
	Incomplete string          `json:"incomplete,omitempty"` // why the stream is no complete answer
	Metrics    string          `json:"metrics"`              // which engine's, or why there is none
	Series     int             `json:"metrics_series"`
	Answers    []reply         `json:"answers,omitempty"` // with -v
}

// A delta is one event of the stream.
type delta struct {
	MS   float64 `json:"ms"` // since the send
	Data string  `json:"data"`
}

// text returns what people look for in an event: the delta of its only choice,
// else all of it. --json has every event as it came.
func (d delta) text() string {
	var chunk struct {
		Choices []struct {
			Delta json.RawMessage `json:"delta"`
		} `json:"choices"`
	}
	if json.Unmarshal([]byte(d.Data), &chunk) != nil || len(chunk.Choices) != 1 || chunk.Choices[0].Delta == nil {
		return d.Data
	}
	return string(chunk.Choices[0].Delta)
}

func (p *probe) run(ctx context.Context, found *probed) error {
	defer p.hide(found)
	body, err := p.api.Get(ctx, "/v1/models")
	p.keep(found, "GET /v1/models", body, err)
	if err == nil {
		found.Models, err = ask.Models(body)
	}
	if _, silent := errors.AsType[*ask.NoAnswer](err); err != nil && (p.model == "" || silent) {
		return fmt.Errorf("models: %w", err)
	}
	found.Model = p.model
	if found.Model == "" {
		if len(found.Models) == 0 {
			return errors.New("the server lists no model; name one with --model")
		}
		found.Model = found.Models[0]
	}
	request := map[string]any{
		"model": found.Model, "max_tokens": 1,
		"messages": []map[string]string{{"role": "user", "content": "Hello"}},
	}
	found.Completion, err = p.api.Post(ctx, pathChat, request)
	p.keep(found, "POST "+pathChat, found.Completion, err)
	if status, ok := errors.AsType[*ask.Status](err); ok && status.Refused() { // perhaps it takes none of one token
		request["max_tokens"] = p.tokens
		found.Completion, err = p.api.Post(ctx, pathChat, request)
		p.keep(found, "POST "+pathChat, found.Completion, err)
	}
	if err != nil {
		return fmt.Errorf("completion: %w", err)
	}
	if !json.Valid(found.Completion) {
		text := p.mask.Text(string(found.Completion))
		text = plaintext.Line(text[:min(len(text), maxQuote)])
		found.Completion = nil // which could not be printed as JSON
		return fmt.Errorf("completion: the answer is no JSON: %s", text)
	}
	request["max_tokens"], request["stream"] = p.tokens, true
	request["stream_options"] = map[string]bool{"include_usage": true}
	if err := p.stream(ctx, request, found); err != nil {
		return fmt.Errorf("stream: %w", err)
	}
	found.Metrics, found.Series = p.metrics(ctx, found)
	return nil
}

// maxDeltas bounds the events that a probe keeps.
const maxDeltas = 256

// pathChat is where completions are asked for.
const pathChat = "/v1/chat/completions"

func (p *probe) stream(ctx context.Context, request map[string]any, found *probed) (err error) {
	var came bytes.Buffer // more than is shown, as what is hidden may be longer
	defer func() { p.keep(found, "POST "+pathChat+", as a stream", came.Bytes(), err) }()
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	sent := time.Now()
	resp, err := p.api.Open(ctx, http.MethodPost, pathChat, request)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	// The stream is read as that of a run's request is, with the same formulas.
	measured := wire.Unsent(&load.Job{MaxTokens: p.tokens}, 0)
	measured.Sent = 0
	var answer wire.Answer
	answer.Begin(&measured, true, true)
	var parser sse.Parser
	var ev sse.Event
	buf := make([]byte, 64<<10)
	for reads := 1; ; reads++ {
		n, err := resp.Body.Read(buf)
		mark := wire.Mark{At: time.Since(sent), After: result.Never, Read: reads}
		if came.Len() < 2*maxShown {
			came.Write(buf[:n])
		}
		parser.Feed(buf[:n])
		for parser.Next(&ev) {
			found.take(mark.At, &ev)
			if !answer.Enough() {
				answer.Event(&ev, mark)
			}
		}
		if parser.Err() != nil {
			return parser.Err()
		}
		if errors.Is(err, io.EOF) {
			if parser.Flush(&ev) {
				found.take(mark.At, &ev)
				if !answer.Enough() {
					answer.Rest(&ev, mark)
				}
			}
			answer.Close(io.EOF, mark.At)
			found.measure(&measured)
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// measure takes the figures of the stream. One that is not complete has none.
func (f *probed) measure(r *result.Request) {
	f.Text, f.Chunks = r.Answer, len(r.ChunkUS)
	if r.Status != result.Completed {
		f.Incomplete = cmp.Or(r.Error, r.ErrorClass)
		return
	}
	ms := func(d time.Duration) *float64 {
		if d < 0 {
			return nil
		}
		return new(float64(d.Microseconds()) / 1000)
	}
	ttft, tpot, e2e := summary.Latencies(r)
	f.TTFT, f.TPOT, f.E2E = ms(ttft), ms(tpot), ms(e2e)
	if r.TokenSource != result.FromUsage || r.CompletionTokens < 0 {
		return
	}
	f.Tokens = &r.CompletionTokens
	if e2e > 0 {
		f.TokensPerS = new(float64(r.CompletionTokens) / e2e.Seconds())
	}
}

func (f *probed) take(at time.Duration, ev *sse.Event) {
	data := string(ev.Data)
	if data == "[DONE]" {
		f.Done = true
		return
	}
	if len(f.Stream) < maxDeltas {
		f.Stream = append(f.Stream, delta{MS: float64(at.Microseconds()) / 1000, Data: data})
	}
	var chunk struct {
		Choices []struct {
			Finish string `json:"finish_reason"`
		} `json:"choices"`
		Usage json.RawMessage `json:"usage"`
	}
	if json.Unmarshal(ev.Data, &chunk) != nil {
		return
	}
	for _, c := range chunk.Choices {
		if c.Finish != "" {
			f.Finish = c.Finish
		}
	}
	if len(chunk.Usage) > 0 && string(chunk.Usage) != "null" {
		f.Usage = chunk.Usage
	}
}

// metrics says which profile's series the server exposes most of.
func (p *probe) metrics(ctx context.Context, found *probed) (engineName string, series int) {
	body, err := p.api.Get(ctx, "/metrics")
	p.keep(found, "GET /metrics", body, err)
	if err != nil {
		return "none: " + err.Error(), 0
	}
	name, series := engineOf(body)
	return cmp.Or(name, "no engine that sweep knows"), series
}

// print writes what a probe found for people: what answers and how fast, then what of it
// may matter to a plan. With verbose it has every event as well.
func (f *probed) print(page *draw.Document, verbose bool) error {
	figure := func(v *float64, unit string) string {
		if v == nil {
			return "not known"
		}
		return fmt.Sprintf("%.4g %s", *v, unit)
	}
	stream := "no stream came"
	switch {
	case f.Incomplete != "":
		stream = "incomplete: " + f.Incomplete
	case len(f.Stream) > 0:
		stream = fmt.Sprintf("TTFT %s, TPOT %s, E2E %s, %s; no measurement", figure(f.TTFT, "ms"), figure(f.TPOT, "ms"), figure(f.E2E, "ms"), figure(f.TokensPerS, "tokens/s"))
	}
	if len(f.Models) == 0 {
		page.Text(f.URL + ": no model is listed")
		return page.Err()
	}
	metrics := "metrics not asked for"
	switch {
	case f.Series > 0:
		metrics = fmt.Sprintf("metrics of %s (%d series)", f.Metrics, f.Series)
	case f.Metrics != "":
		metrics = "metrics: " + f.Metrics // none, and why
	}
	page.Text(fmt.Sprintf("%s: %s answers, %s", f.URL, f.Model, metrics))
	tokens := "not counted"
	if f.Tokens != nil {
		tokens = strconv.Itoa(*f.Tokens)
	}
	rows := [][]string{{"one stream", stream}}
	if len(f.Stream) > 0 {
		rows = append(rows,
			[]string{"text", strconv.Quote(f.Text)},
			[]string{"ended by", fmt.Sprintf("finish_reason %s, [DONE] %v", cmp.Or(f.Finish, "missing"), f.Done)},
			[]string{"counted", fmt.Sprintf("%d chunks, tokens by usage: %s", f.Chunks, tokens)})
	}
	if len(f.Models) > 1 || verbose {
		rows = append(rows, []string{"models", strings.Join(f.Models, ", ")})
	}
	page.Rows(rows...)
	if !verbose {
		return page.Err()
	}
	rows = nil
	for i, d := range f.Stream {
		rows = append(rows, []string{fmt.Sprintf("event %d, %.3f ms", i, d.MS), d.text()})
	}
	if len(rows) > 0 {
		page.Rows(rows...)
	}
	return page.Err()
}

// probeHint adds what to do about a probe that failed.
func probeHint(err error) error {
	if status, ok := errors.AsType[*ask.Status](err); ok && status.Code >= http.StatusInternalServerError {
		return &hinted{err, hintNotReady}
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return &hinted{err, hintNotUp}
	}
	return &hinted{err, "is this the address of an OpenAI-compatible server, and is the key right (--key-env, --key-file)?"}
}
