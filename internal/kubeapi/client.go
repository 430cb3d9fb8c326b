// Package kubeapi speaks to the API of a Kubernetes cluster, as far as sweep needs it. It
// is the one package that imports client-go, and only its parts that find and speak to
// an API server: the typed clientset would make the program twice as large.
//
// What creates, changes or deletes an object is in write.go. Whoever measures a stack of
// somebody else calls nothing of it.
package kubeapi

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
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Bounds of one question and its answer.
const (
	answerTime = 30 * time.Second
	maxAnswer  = 64 << 20 // bytes
	tries      = 4        // of a question that the API was too busy for
	maxPause   = 5 * time.Second
)

// A Config says which cluster is meant.
type Config struct {
	// Kubeconfig is a list of files as in $KUBECONFIG. "" is ~/.kube/config, else
	// the account of the pod that sweep runs in.
	Kubeconfig string
	Context    string // "" is the current one
}

// A Client asks one API server.
type Client struct {
	http      *http.Client
	config    *rest.Config
	base      *url.URL
	context   string
	namespace string
}

// Connect reads the configuration. It asks the server nothing.
func Connect(c Config) (*Client, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	if c.Kubeconfig != "" {
		rules.Precedence = filepath.SplitList(c.Kubeconfig)
	}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: c.Context})
	config, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, fmt.Errorf("no cluster is configured in %s: set KUBECONFIG to a kubeconfig file", strings.Join(rules.Precedence, ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	current := c.Context
	if raw, err := loader.RawConfig(); err == nil && current == "" {
		current = raw.CurrentContext
	}
	config.UserAgent = "sweep"
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	// Whoever answers with a redirect is no API server, and gets no token.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return &Client{http: client, config: config, base: base, context: current, namespace: namespace}, nil
}

// Server returns the address of the API server.
func (c *Client) Server() string { return c.base.Redacted() }

// Context returns the context of the kubeconfig, "" if there is none.
func (c *Client) Context() string { return c.context }

// Namespace returns that of the context, or of the pod that sweep runs in; "default" if
// neither names one.
func (c *Client) Namespace() string { return c.namespace }

// Get reads one answer into out. The path begins with a slash and may have a query.
// It fails with a [*Denied] or a [*StatusError] if the server refuses.
func (c *Client) Get(ctx context.Context, path string, out any) error {
	return c.ask(ctx, call{method: http.MethodGet, path: path}, out)
}

// GetDated is [Client.Get], and says what time it was by the server's clock when it
// answered, cut to the second (the header Date). The zero time if it does not say.
func (c *Client) GetDated(ctx context.Context, path string, out any) (at time.Time, err error) {
	return at, c.ask(ctx, call{method: http.MethodGet, path: path, date: &at}, out)
}

// A call is one question to the server.
type call struct {
	method, path string
	kind         string // of the body; "" is application/json
	body         []byte
	date         *time.Time // where the server's time goes; nil: it is not wanted
	// notTwice says that the server may have done it where it says that it was not
	// available, so that the question is not put again then.
	notTwice bool
}

// ask asks until the server is not too busy to answer.
func (c *Client) ask(ctx context.Context, q call, out any) error {
	for try := 1; ; try++ {
		pause, err := c.once(ctx, q, out)
		if pause < 0 || try == tries {
			return err
		}
		select {
		case <-time.After(max(min(pause, maxPause), time.Duration(try)*100*time.Millisecond)):
		case <-ctx.Done():
			return errors.Join(err, context.Cause(ctx))
		}
	}
}

// once asks one time. A pause that is not negative says how long the server wants to
// be left alone before it is asked again.
func (c *Client) once(ctx context.Context, q call, out any) (pause time.Duration, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerTime, fmt.Errorf("no answer within %v", answerTime))
	defer cancel()
	path := q.path
	resp, err := c.open(ctx, q)
	if err != nil {
		return -1, err
	}
	defer resp.Body.Close()
	if q.date != nil {
		*q.date, _ = http.ParseTime(resp.Header.Get("Date")) // the zero time if that is none
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil && ctx.Err() != nil:
		return -1, fmt.Errorf("kubernetes: %s: %w", path, context.Cause(ctx))
	case err != nil:
		return -1, fmt.Errorf("kubernetes: %s: %w", path, err)
	case len(answer) > maxAnswer:
		return -1, fmt.Errorf("kubernetes: %s: an answer of more than %d MiB", path, maxAnswer>>20)
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		if pause = again(resp); q.notTwice && resp.StatusCode != http.StatusTooManyRequests {
			pause = -1
		}
		return pause, refusal(path, resp, answer)
	}
	if out == nil {
		return -1, nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return -1, fmt.Errorf("kubernetes: %s: the answer is no JSON of this API: %w", path, err)
	}
	return -1, nil
}

// open sends a question and returns the answer as it begins. Its caller closes it.
func (c *Client) open(ctx context.Context, q call) (*http.Response, error) {
	below, query, _ := strings.Cut(q.path, "?")
	at := c.base.JoinPath(below)
	at.RawQuery = query
	req, err := http.NewRequestWithContext(ctx, q.method, at.String(), bytes.NewReader(q.body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json, */*") // a log is plain text
	if q.body != nil {
		req.Header.Set("Content-Type", cmp.Or(q.kind, "application/json"))
	}
	resp, err := c.http.Do(req)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("kubernetes: %s: %w", q.path, context.Cause(ctx))
	}
	if err != nil {
		return nil, fmt.Errorf("kubernetes: %w", err)
	}
	return resp, nil
}

// again says how long to wait after this answer, or -1 if it is final.
func again(resp *http.Response) time.Duration {
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
	default:
		return -1
	}
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(seconds), 3600) * time.Second
}
