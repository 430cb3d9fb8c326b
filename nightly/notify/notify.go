// Package notify tells a webhook how a run ended. What it says holds no prompt, no
// answer and no text of a server, and none of its errors holds the URL: who knows the
// URL of a chat's webhook can post there.
package notify

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"sweep.dev/sweep/internal/netguard"
	"sweep.dev/sweep/internal/secret"
)

// timeout bounds a request with its answer.
const timeout = 10 * time.Second

// A Webhook is a URL that is told how runs end.
type Webhook struct {
	URL secret.String
	// Slack sends a text instead of an object.
	Slack bool
	// Private permits this machine, private networks and plain http. Link-local
	// addresses and metadata services are always refused.
	Private bool

	timeout time.Duration // 0 is the constant
}

// Check says why the URL cannot be called, nil if it can. It connects to nothing.
func (w Webhook) Check() error {
	u, err := url.Parse(w.URL.Reveal())
	switch {
	case err != nil, u.Host == "", u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("%s does not hold a URL with https://", w.URL)
	case u.Scheme == "http" && !w.Private:
		return fmt.Errorf("%s holds a URL with http://, which everybody on the way can read: use https://, or --allow-private-webhook in a network of your own", w.URL)
	}
	return nil
}

// Post tells the webhook how a run ended, within 10 seconds, over no proxy and
// without a redirect. An answer of 200 to 299 is success; its body is not read.
func (w Webhook) Post(ctx context.Context, e Ended) error {
	if err := w.Check(); err != nil {
		return err
	}
	body, err := w.body(e)
	if err != nil {
		return err
	}
	limit := cmp.Or(w.timeout, timeout)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL.Reveal(), bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s does not hold a URL that can be called", w.URL)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "sweep")
	client := netguard.Client(netguard.Guard{Public: !w.Private}.Dial, 0) // ctx bounds it
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("%s: %s", w.URL, why(err, limit))
	}
	if err := resp.Body.Close(); err != nil {
		return fmt.Errorf("%s: the answer broke off", w.URL)
	}
	switch {
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return fmt.Errorf("%s: the answer is a redirect (HTTP %d), which is not followed", w.URL, resp.StatusCode)
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return fmt.Errorf("%s: the answer is HTTP %d, want 200 to 299", w.URL, resp.StatusCode)
	}
	return nil
}

func (w Webhook) body(e Ended) ([]byte, error) {
	if w.Slack {
		return json.Marshal(map[string]string{"text": e.Text()})
	}
	return json.Marshal(e)
}

// why says what went wrong without the address, which the texts of net/http hold.
func why(err error, limit time.Duration) string {
	var (
		dns  *net.DNSError
		cert *tls.CertificateVerificationError
		wire *net.OpError
	)
	switch {
	case errors.Is(err, netguard.ErrRefused):
		return "its address is one of this machine, a private network, or link-local, and is refused (--allow-private-webhook permits the first two)"
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("no answer within %s", limit)
	case errors.As(err, &dns):
		return "the name of its host cannot be resolved"
	case errors.As(err, &cert):
		return "its TLS certificate is not valid"
	case errors.As(err, &wire) && wire.Op == "dial":
		return "its host does not take the connection"
	case errors.Is(err, io.EOF):
		return "the connection was closed without an answer"
	}
	return "the connection broke off"
}
