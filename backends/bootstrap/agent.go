package bootstrap

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/internal/gpustate"
	"sweep.dev/sweep/internal/netguard"
	"sweep.dev/sweep/internal/secret"
)

// Errors of an agent that a caller branches on.
var (
	// ErrOver says that the pod ends or has ended itself: no beat helps.
	ErrOver = errors.New("the pod has ended itself")
	// ErrToken says that the server that answers does not have our token: another pod's
	// agent, or none.
	ErrToken = errors.New("what answers is not this pod's agent")
)

const (
	maxOutput  = 4 << 20 // bytes of one answer
	maxError   = 512     // bytes of what an agent says of an error
	askTimeout = 30 * time.Second
	// toolTimeout is for one run of a tool, which the agent gives 30 s.
	toolTimeout = 40 * time.Second
)

// An Agent is our end of the talk with the agent of one pod. All methods may be
// called concurrently. Their contexts bound them, and no request takes longer
// than 30 s (Exec: 40 s). Each request has a connection of its own, so that an
// Agent has nothing to close.
//
// Requests and answers are signed with the token, which is never sent. They
// themselves are sent in clear text if base is http.
type Agent struct {
	base   string
	signer *signer
	client *http.Client
}

// NewAgent makes the client of an agent at base ("http://127.0.0.1:8081"), with the
// token of its [Options]. Connections are made by dial; nil is [netguard.Dial]. It
// does not connect.
func NewAgent(dial func(ctx context.Context, network, addr string) (net.Conn, error), base string, token secret.String) *Agent {
	return &Agent{strings.TrimSuffix(base, "/"), newSigner(token), netguard.Client(dial, 0)}
}

// Status is what a bootstrap says of itself.
type Status struct {
	Left   time.Duration // until the hard lifetime is over
	Kept   time.Duration // how long no heartbeat is needed; 0 if one is
	Engine int           // its process id on the pod; 0 if it does not run
	Exit   *int          // its exit status as a shell has it (128+n for a signal); nil while it runs
	Beats  int           // that have arrived since the agent began
	Over   string        // why the pod ends; "" while it does not
	// Exits are the exit statuses of those of several replicas that have ended; nil for one that still runs.
	Exits map[int]*int
}

// Start starts one of the [Options].Replicas. One that was started already is left
// as it is.
func (a *Agent) Start(ctx context.Context, replica int) error {
	_, _, err := a.ask(ctx, askTimeout, http.MethodPost, "/start", map[string]any{"replica": replica})
	return err
}

// Beat tells the pod that somebody is there. [ErrOver] where that is too late.
func (a *Agent) Beat(ctx context.Context) error {
	_, _, err := a.ask(ctx, askTimeout, http.MethodPost, "/beat", nil)
	return err
}

// Keep tells the pod that no heartbeat is needed until then, and that it ends
// itself then if there was none for its grace; its hard lifetime stays. The
// zero time, or one that is past, takes an earlier Keep back. A pod whose
// machine boots meanwhile forgets it. An agent that does not answer yet is asked
// again for 15 seconds: it starts beside its engine, and an engine that needs no
// time to load can be the first of the two.
func (a *Agent) Keep(ctx context.Context, until time.Time) error {
	for end := time.Now().Add(keepPatience); ; {
		left := max(0, int64(time.Until(until)/time.Second))
		_, _, err := a.ask(ctx, askTimeout, http.MethodPost, "/keep", map[string]any{"seconds": left})
		if err == nil || errors.Is(err, ErrOver) || errors.Is(err, ErrToken) || time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(keepAgain):
		}
	}
}

const (
	keepPatience = 15 * time.Second
	keepAgain    = 500 * time.Millisecond
)

// End tells the pod to end now, for good. It does not wait for that.
func (a *Agent) End(ctx context.Context) error {
	_, _, err := a.ask(ctx, askTimeout, http.MethodPost, "/end", nil)
	return err
}

// Exec runs one of [gpustate.Tools] on the pod and returns its stdout, at most 4 MiB;
// with an error too, because that is where they say what is wrong.
// [host.ErrNotSupported] for other commands and arguments, and if the pod does not
// have the tool. A nil agent supports none.
func (a *Agent) Exec(ctx context.Context, argv ...string) ([]byte, error) {
	if a == nil {
		return nil, host.ErrNotSupported
	}
	if len(argv) == 0 || !gpustate.IsTool(argv[0]) {
		return nil, fmt.Errorf("nothing but %s is run on a pod: %w", strings.Join(gpustate.ToolNames(), " and "), host.ErrNotSupported)
	}
	out, h, err := a.ask(ctx, toolTimeout, http.MethodPost, "/exec", map[string]any{"argv": argv})
	if answer := (*answerError)(nil); errors.As(err, &answer) && answer.signed && (answer.status == http.StatusForbidden || answer.status == http.StatusNotFound) {
		return nil, fmt.Errorf("%w: %w", err, host.ErrNotSupported)
	}
	if err != nil {
		return nil, err
	}
	if status := h.Get("X-Sweep-Exit"); status != "0" {
		return out, fmt.Errorf("%s: exit status %.8q", argv[0], status)
	}
	return out, nil
}

// Status asks how the pod is.
func (a *Agent) Status(ctx context.Context) (Status, error) {
	body, _, err := a.ask(ctx, askTimeout, http.MethodGet, "/status", nil)
	if err != nil {
		return Status{}, err
	}
	var s struct {
		Left   int64  `json:"left_seconds"`
		Kept   int64  `json:"kept_seconds"`
		Engine *int   `json:"engine_pid"`
		Exit   *int   `json:"exit_status"`
		Beats  int    `json:"beats"`
		Over   string `json:"over"`

		Exits map[int]*int `json:"exits"`
	}
	if err := json.Unmarshal(body, &s); err != nil {
		return Status{}, fmt.Errorf("agent: status: %w", err)
	}
	status := Status{
		Left: time.Duration(s.Left) * time.Second, Kept: time.Duration(s.Kept) * time.Second,
		Exit: s.Exit, Beats: s.Beats, Over: s.Over, Exits: s.Exits,
	}
	if s.Engine != nil {
		status.Engine = *s.Engine
	}
	return status, nil
}

// An answerError is an answer that is none of the good ones.
type answerError struct {
	status int
	text   string // from a pod: quoted where it is shown
	signed bool   // by the pod's agent; a proxy's is not
}

func (e *answerError) Error() string {
	return fmt.Sprintf("agent: HTTP %d: %.200q", e.status, e.text)
}

func (e *answerError) Is(target error) bool {
	return target == ErrOver && e.status == http.StatusGone && e.signed ||
		target == ErrToken && e.status == http.StatusUnauthorized
}

// ask sends one request, and once more if the agent has another session or clock
// than we thought: it was just started, or this machine slept. A request that is
// refused for that has done nothing.
func (a *Agent) ask(ctx context.Context, limit time.Duration, method, path string, args any) ([]byte, http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var body []byte
	if args != nil {
		var err error
		if body, err = json.Marshal(args); err != nil {
			return nil, nil, fmt.Errorf("agent: %w", err)
		}
	}
	out, h, err := a.once(ctx, method, path, body)
	if answer := (*answerError)(nil); errors.As(err, &answer) && answer.signed && answer.status == http.StatusUnauthorized {
		out, h, err = a.once(ctx, method, path, body)
	}
	return out, h, err
}

func (a *Agent) once(ctx context.Context, method, path string, body []byte) ([]byte, http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, method, a.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, nil, fmt.Errorf("agent: %w", err)
	}
	req.Close = true
	authorization, nonce := a.signer.sign(method, path, body)
	req.Header.Set("Authorization", authorization)
	req.Header.Set("User-Agent", "sweep")
	resp, err := a.client.Do(req)
	if err != nil {
		return nil, nil, fmt.Errorf("agent: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxError)) // the status says enough
		return nil, nil, &answerError{resp.StatusCode, string(text), a.signer.check(nonce, resp.StatusCode, resp.Header, text)}
	}
	out, err := io.ReadAll(io.LimitReader(resp.Body, maxOutput+1))
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("agent: %s: %w", path, err)
	case len(out) > maxOutput:
		return nil, nil, fmt.Errorf("agent: %s: more than %d MiB in one answer", path, maxOutput>>20)
	case !a.signer.check(nonce, resp.StatusCode, resp.Header, out):
		return nil, nil, fmt.Errorf("agent: %s: an answer without its signature: %w", path, ErrToken)
	}
	return out, resp.Header, nil
}

// Log returns the engine's output from an offset on, followed until the engine has
// ended. It begins later where the pod has no longer kept the offset. The
// context bounds the whole reading; a pod that does not answer for half a
// minute ends it with an error.
func (a *Agent) Log(ctx context.Context, offset int64) (io.ReadCloser, error) {
	return a.follow(ctx, "/log", "", offset)
}

// LogOf returns the output of one of several replicas, as Log. It has no lines before
// the replica is started.
func (a *Agent) LogOf(ctx context.Context, replica int, offset int64) (io.ReadCloser, error) {
	return a.follow(ctx, "/log", "&replica="+strconv.Itoa(replica), offset)
}

// Samples returns lines of the tool that can stream, one each second for each GPU, from
// an offset on, with the columns of [gpustate.Streamed]. The first question starts them; the
// pod keeps the latest 4 MiB. They have no end; else it is as with Log. A nil agent
// supports none.
func (a *Agent) Samples(ctx context.Context, offset int64) (io.ReadCloser, error) {
	if a == nil {
		return nil, host.ErrNotSupported
	}
	return a.follow(ctx, "/smi", "", offset)
}

func (a *Agent) follow(ctx context.Context, path, query string, offset int64) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	f := &follower{ctx: ctx, cancel: cancel, agent: a, path: path, query: query, offset: offset}
	if err := f.poll(0); err != nil {
		cancel()
		return nil, err
	}
	return f, nil
}

const (
	pollWait = 20 * time.Second // that the agent may hold an answer back: less than askTimeout
	patience = 30 * time.Second // with an agent that does not answer
)

// A follower reads what grows on a pod, one request after the other: a proxy
// between here and there cuts what takes long, and a pod's port may change its
// mind. Read and Close may be called concurrently.
type follower struct {
	ctx    context.Context // bounds the reader's whole life
	cancel context.CancelFunc
	agent  *Agent
	path   string
	query  string
	offset int64 // of what comes after rest
	rest   []byte
	ended  bool
}

func (f *follower) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	good, pause := time.Now(), 250*time.Millisecond
	for len(f.rest) == 0 {
		if f.ended {
			return 0, io.EOF
		}
		err := f.poll(pollWait)
		switch {
		case f.ctx.Err() != nil:
			return 0, context.Cause(f.ctx)
		case err == nil:
			good, pause = time.Now(), 250*time.Millisecond
			continue
		case errors.Is(err, ErrToken), time.Since(good) > patience:
			return 0, err
		}
		select {
		case <-f.ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, 5*time.Second)
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

func (f *follower) Close() error {
	f.cancel()
	return nil
}

func (f *follower) poll(wait time.Duration) error {
	body, h, err := f.agent.ask(f.ctx, askTimeout, http.MethodGet,
		fmt.Sprintf("%s?offset=%d&wait=%d%s", f.path, f.offset, int(wait.Seconds()), f.query), nil)
	if err != nil {
		return err
	}
	start, err := strconv.ParseInt(h.Get("X-Sweep-Offset"), 10, 64)
	if err != nil || start < 0 {
		return fmt.Errorf("agent: %s: no offset in the answer", f.path)
	}
	f.rest, f.ended = body, h.Get("X-Sweep-End") == "1"
	if len(body) > 0 {
		f.offset = start + int64(len(body))
	}
	return nil
}

// Keepalive calls beat ([Agent.Beat], counted as the effect that it is) at once
// and then every interval, until ctx ends. No beat gets longer than an
// interval. lost is called, from here, with the error of each beat that failed.
// The caller runs it in a goroutine of its own and waits for it.
func Keepalive(ctx context.Context, every time.Duration, beat func(context.Context) error, lost func(error)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for ctx.Err() == nil {
		beatCtx, cancel := context.WithTimeout(ctx, every)
		err := beat(beatCtx)
		cancel()
		if err != nil && ctx.Err() == nil {
			lost(err)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}
