// Package runpodapi speaks version 2 of RunPod's REST API, as far as sweep needs
// it. Keys that are not known are ignored in answers; requests keep to the keys
// of the first published version, because an unknown one is refused.
//
// Errors of the API wrap the classes of package backends. A GET is retried if the
// server fails, a DELETE is retried by its caller, and a POST is never retried: see
// [Certain].
package runpodapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/netguard"
	"sweep.dev/sweep/internal/secret"
)

// Bounds of one call.
const (
	readTimeout = 30 * time.Second
	actTimeout  = 2 * time.Minute
	maxAnswer   = 32 << 20 // bytes
	maxPages    = 200
)

// A Client speaks to the API. It sends the key to the host of base and to no
// other, follows no redirect, and makes every call through the effects.
type Client struct {
	fx    *effect.Effects
	base  *url.URL
	key   secret.String
	http  *http.Client
	pace  *limiter
	agent string
	mask  *secret.Mask // behind a pointer: %v of a client must not show it
}

// New makes a client of the API at base. It makes at most perMinute calls in the
// long run.
func New(fx *effect.Effects, base *url.URL, key secret.String, perMinute int) *Client {
	mask := secret.NewMask([]secret.String{key})
	return &Client{
		fx: fx, base: base, key: key, pace: newLimiter(perMinute), agent: "sweep/" + version(), mask: &mask, http: netguard.Client(nil, 0),
	}
}

// Base returns the API's address.
func (c *Client) Base() string { return c.base.String() }

// version returns what the build knows of itself.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}

// A call is one request of the API.
type call struct {
	point   effect.Point
	method  string
	path    string // below the base
	query   url.Values
	body    any // nil for none
	timeout time.Duration
	whole   bool // once it is sent its answer is waited for, even if ctx ends
}

// once makes a call one time. Where it fails with [errNotSent] nothing went out.
func (c *Client) once(ctx context.Context, k call, out any) error {
	if c.key.IsZero() {
		return fmt.Errorf("%w: %w: runpod has no key: set RUNPOD_API_KEY", backends.ErrRefused, errNotSent)
	}
	if err := c.pace.wait(ctx, k.point == effect.RunpodDelete); err != nil {
		return fmt.Errorf("runpod: %s %s: %w: %w", k.method, k.path, errNotSent, err)
	}
	if k.timeout == 0 {
		k.timeout = readTimeout
	}
	if k.whole {
		var done func()
		ctx, done = outlast(ctx)
		defer done()
	}
	ctx, cancel := context.WithTimeoutCause(ctx, k.timeout, fmt.Errorf("no answer within %v", k.timeout))
	defer cancel()
	return c.fx.Call(ctx, k.point, func(ctx context.Context) error {
		req, err := c.request(ctx, k)
		if err != nil {
			return err
		}
		resp, err := c.http.Do(req)
		if err != nil {
			return c.broken(ctx, k, err)
		}
		defer resp.Body.Close()
		c.pace.learn(resp.StatusCode, resp.Header)
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
		switch {
		case err != nil:
			return c.broken(ctx, k, err)
		case resp.StatusCode < 200 || resp.StatusCode > 299:
			return newError(k.method, k.path, resp, []byte(c.mask.Text(string(body))))
		case len(body) > maxAnswer:
			return fmt.Errorf("runpod: %s %s: an answer of more than %d MiB", k.method, k.path, maxAnswer>>20)
		case out == nil:
			return nil
		}
		if err := json.Unmarshal(body, out); err != nil {
			return fmt.Errorf("runpod: %s %s: %w", k.method, k.path, err)
		}
		return nil
	})
}

// lateAnswer is how long the answer to a create is waited for once the pod is not
// wanted any more.
const lateAnswer = 10 * time.Second

// outlast returns a context that ends that much later than ctx.
func outlast(ctx context.Context) (context.Context, func()) {
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	late := make(chan *time.Timer, 1)
	stop := context.AfterFunc(ctx, func() {
		late <- time.AfterFunc(lateAnswer, func() { cancel(context.Cause(ctx)) })
	})
	return longer, func() {
		if !stop() {
			(<-late).Stop()
		}
		cancel(nil)
	}
}

// broken returns the error of a connection, with what ended it and without the key.
func (c *Client) broken(ctx context.Context, k call, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // the URL says nothing that the path does not
	}
	return fmt.Errorf("runpod: %s %s: %w", k.method, k.path, err)
}

func (c *Client) request(ctx context.Context, k call) (*http.Request, error) {
	u := c.base.JoinPath(k.path)
	u.RawQuery = k.query.Encode()
	var payload io.Reader = http.NoBody
	if k.body != nil {
		text, err := json.Marshal(k.body)
		if err != nil {
			return nil, err
		}
		payload = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, k.method, u.String(), payload)
	if err != nil {
		return nil, err
	}
	if k.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json, application/problem+json")
	req.Header.Set("User-Agent", c.agent) // Cloudflare refuses those of libraries
	req.Header.Set("Authorization", "Bearer "+c.key.Reveal())
	return req, nil
}

// attempts of a call that only looks, before its error counts.
const attempts = 5

// get reads something, again where the server stumbles.
func (c *Client) get(ctx context.Context, path string, query url.Values, out any) error {
	for try := 0; ; try++ {
		err := c.once(ctx, call{point: effect.RunpodRead, method: http.MethodGet, path: path, query: query}, out)
		if !Transient(err) || try == attempts-1 || ctx.Err() != nil {
			return err
		}
		if Sleep(ctx, Backoff(try)) != nil {
			return err
		}
	}
}

// Backoff returns the pause after a number of failures: half a second, doubled up to
// eight, give or take a quarter.
func Backoff(try int) time.Duration {
	return Jitter(min(500*time.Millisecond<<min(try, 5), 8*time.Second))
}

// Jitter returns d, give or take a quarter.
func Jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.75 + rand.Float64()/2))
}

// Pods lists the whole account, or fails: a part of it must never be taken for
// all of it.
func (c *Client) Pods(ctx context.Context) ([]Pod, error) {
	var all []Pod
	query, seen := url.Values{}, map[string]bool{}
	for range maxPages {
		var page podList
		if err := c.get(ctx, "/pods", query, &page); err != nil {
			return nil, err
		}
		if page.Pods == nil {
			return nil, errors.New("runpod: GET /pods: an answer without a list of pods")
		}
		all = append(all, page.Pods...)
		next := page.next()
		if next == "" {
			return all, nil
		}
		if seen[next] {
			break
		}
		seen[next] = true
		query.Set("cursor", next)
	}
	return nil, errors.New("runpod: GET /pods: the list has no end")
}

// Pod reads one pod; what is not there is [backends.ErrNotFound].
func (c *Client) Pod(ctx context.Context, id string) (Pod, error) {
	var p Pod
	err := c.get(ctx, "/pods/"+url.PathEscape(id), nil, &p)
	return p, err
}

// Create asks for a pod, once, and waits for the answer at most for timeout. See
// [Certain] for its errors.
func (c *Client) Create(ctx context.Context, r CreateRequest, timeout time.Duration) (Pod, error) {
	var p Pod
	err := c.once(ctx, call{
		point: effect.RunpodCreate, method: http.MethodPost, path: "/pods", body: r, timeout: timeout,
		// If the answer is not waited for, the pod is unknown and still rented.
		whole: true,
	}, &p)
	if err == nil && p.ID == "" {
		err = errors.New("runpod: POST /pods: a pod without an id")
	}
	return p, err
}

// Delete deletes a pod; one that does not exist is [backends.ErrNotFound].
func (c *Client) Delete(ctx context.Context, id string) error {
	return c.once(ctx, call{point: effect.RunpodDelete, method: http.MethodDelete, path: "/pods/" + url.PathEscape(id)}, nil)
}

// Act does an action to a pod ("start", "stop"), once.
func (c *Client) Act(ctx context.Context, id, action string) error {
	return c.once(ctx, call{
		point: effect.RunpodAction, method: http.MethodPost, path: "/pods/" + url.PathEscape(id) + "/action",
		body: actionRequest{action}, timeout: actTimeout,
	}, nil)
}

// GPUs returns the catalogue of a cloud ("secure", "community") with prices and the
// stock for pods of count GPUs. minCUDA may be empty.
func (c *Client) GPUs(ctx context.Context, cloud string, count int, minCUDA string) ([]GPUType, error) {
	query := url.Values{
		"include": {"AVAILABILITY"}, "product": {"POD"}, "count": {strconv.Itoa(count)}, "cloud": {strings.ToUpper(cloud)},
	}
	if minCUDA != "" {
		query.Set("minCudaVersion", minCUDA)
	}
	var answer gpuList
	err := c.get(ctx, "/catalog/gpus", query, &answer)
	return answer.GPUs, err
}

// Spent returns what all pods of the account cost in the last day, in USD.
func (c *Client) Spent(ctx context.Context) (float64, error) {
	var answer billing
	err := c.get(ctx, "/billing/pods", url.Values{"bucketSize": {"hour"}, "lastN": {"24"}}, &answer)
	return answer.Metadata.Totals.Total, err
}
