package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"sweep.dev/sweep/internal/netguard"
	"sweep.dev/sweep/internal/secret"
)

const (
	// askWithin bounds one question that a client answers at once.
	askWithin = 10 * time.Second
	// maxAnswer bounds such an answer in bytes.
	maxAnswer = 64 << 10
)

// An Address is where a client listens, and what it obeys.
type Address struct {
	URL   string
	Token secret.String
	// Coordinator is by what the client knows its coordinator again, which then may
	// register a second time. "" registers once.
	Coordinator string
	// Dial opens connections to it; nil is a plain dial.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Gone says how the client ended, if it did by itself: "" if that is not known. It may
	// wait a moment for that. Nil is never known.
	Gone func() string
}

// A peer is a client as its coordinator sees it.
type peer struct {
	Address
	index int
	about registered
	http  *http.Client
}

func newPeer(a Address, index int) *peer {
	t := &http.Transport{DialContext: a.Dial, MaxIdleConnsPerHost: 4, DisableCompression: true}
	return &peer{Address: a, index: index, http: &http.Client{Transport: t, CheckRedirect: netguard.NoRedirect}}
}

func (c *peer) close() { c.http.CloseIdleConnections() }

// request returns one of the control port's. A body of nil is none.
func (c *peer) request(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var in io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		in = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.URL+path, in)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.Token.Reveal())
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return nil, &refusal{strings.TrimSpace(string(text))}
}

// A refusal is the answer of a client that lives, and cannot do what it was asked.
type refusal struct{ text string }

func (r *refusal) Error() string { return r.text }

// ask asks what is answered at once.
func (c *peer) ask(ctx context.Context, method, path string, body, to any) error {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	resp, err := c.request(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(to)
}

// lost returns why a client is lost, of an error of talking to it.
func (c *peer) lost(err error) string {
	if c.Gone != nil {
		if how := c.Gone(); how != "" {
			return how
		}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "it closed the connection before the end of its records"
	}
	return err.Error()
}

// register makes this process the client's coordinator.
func (c *peer) register(ctx context.Context, t *Target) error {
	reg := registration{Protocol: protocol, Coordinator: c.Coordinator, Target: *t, Index: c.index}
	if err := c.ask(ctx, http.MethodPost, pathRegister, &reg, &c.about); err != nil {
		return fmt.Errorf("client %d: register: %w", c.index, err)
	}
	return nil
}
