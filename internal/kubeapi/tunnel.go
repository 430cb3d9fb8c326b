package kubeapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	upgrade "k8s.io/client-go/transport/websocket"
	"k8s.io/streaming/pkg/httpstream"
)

// The protocols of the two ways into a pod. Every message begins with the number of its
// channel.
const (
	forwardProtocol = "v4.channel.k8s.io" // one port; the first message of a channel names it
	execProtocol    = "v5.channel.k8s.io" // can close standard input
)

// The channels of a forwarded port.
const (
	forwardData  = 0
	forwardError = 1
)

// The channels of a command.
const (
	execIn     = 0
	execOut    = 1
	execErr    = 2
	execStatus = 3
	execClose  = 255 // closes the channel that follows it
)

// Bounds of a connection to a pod.
const (
	openTime = 30 * time.Second
	chunk    = 32 << 10 // bytes of a message that is sent
	maxFrame = 4 << 20  // bytes of one that is received
	maxSaid  = 64 << 10 // bytes that are kept of an error
)

// upgraded opens a WebSocket to a path. ctx bounds the opening alone.
func (c *Client) upgraded(ctx context.Context, path string, query url.Values, protocol string) (*websocket.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, openTime, fmt.Errorf("no answer within %v", openTime))
	defer cancel()
	at := c.base.JoinPath(path)
	at.RawQuery = query.Encode()
	// One round tripper holds one connection.
	way, holder, err := upgrade.RoundTripperFor(rest.CopyConfig(c.config))
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	conn, err := upgrade.Negotiate(way, holder, req, protocol)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		<-ctx.Done() // whose deadline the connection has, and saw first
	}
	if err != nil {
		return nil, notUpgraded(path, err, context.Cause(ctx))
	}
	conn.SetReadLimit(maxFrame)
	return conn, nil
}

// notUpgraded returns the error of a connection that was not opened.
func notUpgraded(path string, err, cause error) error {
	if cause != nil {
		return fmt.Errorf("kubernetes: %s: %w", path, cause)
	}
	if failed, ok := errors.AsType[*httpstream.UpgradeFailureError](err); ok {
		if status, ok := errors.AsType[*apierrors.StatusError](failed.Cause); ok {
			return refused(path, int(status.ErrStatus.Code), string(status.ErrStatus.Reason), status.ErrStatus.Message)
		}
	}
	return fmt.Errorf("kubernetes: %s: %w", path, err)
}

// Dial connects to a port of a pod through the API server, as kubectl port-forward does:
// also to one that the pod opens on its loopback alone. There is no listener here, and
// each connection is one of its own to the API server. A deadline that passes breaks it.
func (c *Client) Dial(ctx context.Context, namespace, pod string, port int) (net.Conn, error) {
	path := fmt.Sprintf("/api/v1/namespaces/%s/pods/%s/portforward", url.PathEscape(namespace), url.PathEscape(pod))
	ws, err := c.upgraded(ctx, path, url.Values{"ports": {strconv.Itoa(port)}}, forwardProtocol)
	if err != nil {
		return nil, err
	}
	return &forwarded{Conn: ws, name: fmt.Sprintf("%s/%s:%d", namespace, pod, port)}, nil
}

// A forwarded is a connection to a port of a pod. One goroutine may read while another
// writes, and Close may be called at any time.
type forwarded struct {
	*websocket.Conn
	name string

	named [2]bool   // whether the channel has named its port
	in    io.Reader // the rest of the message that is read
	said  []byte    // by the channel of errors

	writing sync.Mutex
}

// Read implements [net.Conn].
func (f *forwarded) Read(p []byte) (int, error) {
	for {
		if f.in != nil {
			n, err := f.in.Read(p)
			if errors.Is(err, io.EOF) {
				f.in, err = nil, nil
			}
			if n > 0 || err != nil {
				return n, err
			}
		}
		if err := f.next(); err != nil {
			return 0, err
		}
	}
}

// next goes on to the next message with data.
func (f *forwarded) next() error {
	for {
		_, r, err := f.NextReader()
		if err != nil {
			if len(f.said) > 0 {
				return fmt.Errorf("port-forward to %s: %s", f.name, f.said)
			}
			return closed(err)
		}
		var channel [1]byte
		if _, err := io.ReadFull(r, channel[:]); err != nil {
			return fmt.Errorf("port-forward to %s: a message without a channel: %w", f.name, err)
		}
		if channel[0] > forwardError {
			return fmt.Errorf("port-forward to %s: a message on channel %d", f.name, channel[0])
		}
		if !f.named[channel[0]] { // the number of the port, in two bytes
			f.named[channel[0]] = true
			continue
		}
		if channel[0] == forwardData {
			f.in = r
			return nil
		}
		text, err := io.ReadAll(io.LimitReader(r, maxSaid))
		if err != nil {
			return closed(err)
		}
		f.said = append(f.said, text...)
		f.said = f.said[:min(len(f.said), maxSaid)]
	}
}

// closed is io.EOF for a connection that was closed in order.
func closed(err error) error {
	if websocket.IsCloseError(err, websocket.CloseNormalClosure, websocket.CloseGoingAway, websocket.CloseNoStatusReceived) {
		return io.EOF
	}
	return err
}

// Write implements [net.Conn].
func (f *forwarded) Write(p []byte) (n int, err error) {
	f.writing.Lock()
	defer f.writing.Unlock()
	for len(p) > 0 {
		part := p[:min(len(p), chunk)]
		if err := send(f.Conn, forwardData, part); err != nil {
			return n, err
		}
		n, p = n+len(part), p[len(part):]
	}
	return n, nil
}

// send writes one message.
func send(ws *websocket.Conn, channel byte, text []byte) error {
	w, err := ws.NextWriter(websocket.BinaryMessage)
	if err != nil {
		return err
	}
	if _, err = w.Write([]byte{channel}); err == nil {
		_, err = w.Write(text)
	}
	return errors.Join(err, w.Close())
}

// SetDeadline implements [net.Conn].
func (f *forwarded) SetDeadline(t time.Time) error {
	return errors.Join(f.SetReadDeadline(t), f.SetWriteDeadline(t))
}

// A Command is what is run in a container.
type Command struct {
	Namespace, Pod, Container string
	Argv                      []string
	In                        io.Reader // nil: none
	Out                       io.Writer // nil: lost
}

// An ExitError is a command that ended with a status other than 0, or could not be run.
type ExitError struct {
	Code int // -1: it could not be run
	Text string
	Said string // the last it printed on standard error
}

func (e *ExitError) Error() string {
	if e.Said != "" {
		return e.Text + ": " + e.Said
	}
	return e.Text
}

// Exec runs a command in a container of a pod and waits for its end. It fails with an
// [*ExitError] if the command did. The end of ctx breaks the connection, and what becomes
// of the command then is the container runtime's.
func (c *Client) Exec(ctx context.Context, run Command) error {
	query := url.Values{"container": {run.Container}, "command": run.Argv, "stdout": {"true"}, "stderr": {"true"}}
	if run.In != nil {
		query.Set("stdin", "true")
	}
	path := fmt.Sprintf("/api/v1/namespaces/%s/pods/%s/exec", url.PathEscape(run.Namespace), url.PathEscape(run.Pod))
	ws, err := c.upgraded(ctx, path, query, execProtocol)
	if err != nil {
		return err
	}
	over := context.AfterFunc(ctx, func() { ws.Close() })
	defer over()
	defer ws.Close()
	var feeding sync.WaitGroup
	defer feeding.Wait()
	defer ws.Close() // before that wait
	if run.In != nil {
		feeding.Go(func() { feed(ws, run.In) })
	}
	err = outcomeOf(ws, run.Out)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("kubernetes: exec in %s: %w", run.Pod, context.Cause(ctx))
	}
	if err != nil {
		return fmt.Errorf("kubernetes: exec in %s: %w", run.Pod, err)
	}
	return nil
}

// feed sends standard input. An error shows on the reading side: the connection is closed.
func feed(ws *websocket.Conn, in io.Reader) {
	b := make([]byte, chunk)
	for {
		n, err := in.Read(b)
		if n > 0 && send(ws, execIn, b[:n]) != nil {
			return
		}
		switch {
		case errors.Is(err, io.EOF):
			_ = send(ws, execClose, []byte{execIn}) // as above
			return
		case err != nil:
			_ = ws.Close()
			return
		}
	}
}

// outcomeOf reads what a command prints, until its status comes.
func outcomeOf(ws *websocket.Conn, out io.Writer) error {
	if out == nil {
		out = io.Discard
	}
	var said []byte
	for {
		_, text, err := ws.ReadMessage()
		if err != nil {
			return fmt.Errorf("the connection ended before the command: %w", err)
		}
		if len(text) == 0 {
			continue
		}
		switch text[0] {
		case execOut:
			if _, err := out.Write(text[1:]); err != nil {
				return err
			}
		case execErr:
			said = append(said, text[1:]...)
			said = said[max(0, len(said)-maxSaid):]
		case execStatus:
			return statusOf(text[1:], string(said))
		}
	}
}

// statusOf reads the status of a command.
func statusOf(text []byte, said string) error {
	var s struct {
		Status, Message string
		Details         struct {
			Causes []struct{ Reason, Message string }
		}
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("status %.200q: %w", text, err)
	}
	if s.Status == "Success" {
		return nil
	}
	e := &ExitError{Code: -1, Text: s.Message, Said: said}
	for _, c := range s.Details.Causes {
		if code, err := strconv.Atoi(c.Message); c.Reason == "ExitCode" && err == nil {
			e.Code = code
		}
	}
	return e
}
