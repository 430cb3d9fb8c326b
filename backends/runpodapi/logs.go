package runpodapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/lines"
)

// Bounds of a log stream.
const (
	idleLog    = 60 * time.Second // without a line, before the stream is given up
	maxLogLine = 1 << 20          // bytes of one event
)

// Stream reads a pod's log from where last says on, one call of f for each
// line, until ctx ends or the stream does. last is the id of the last event.
func (c *Client) Stream(ctx context.Context, id string, query url.Values, last *string, f func(LogLine)) error {
	if err := c.pace.wait(ctx, false); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(idleLog, func() { cancel(fmt.Errorf("no line within %v", idleLog)) })
	defer idle.Stop()
	k := call{method: http.MethodGet, path: "/pods/" + url.PathEscape(id) + "/logs", query: query}
	return c.fx.Call(ctx, effect.RunpodRead, func(ctx context.Context) error {
		req, err := c.request(ctx, k)
		if err != nil {
			return err
		}
		req.Header.Set("Accept", "text/event-stream")
		if *last != "" {
			req.Header.Set("Last-Event-ID", *last)
		}
		resp, err := c.http.Do(req)
		if err != nil {
			return c.broken(ctx, k, err)
		}
		defer resp.Body.Close()
		c.pace.learn(resp.StatusCode, resp.Header)
		if resp.StatusCode != http.StatusOK {
			body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<16)) // what there is of it
			return newError(k.method, k.path, resp, []byte(c.mask.Text(string(body))))
		}
		err = events(resp.Body, func(id string, e LogLine) {
			idle.Reset(idleLog)
			if id != "" && id == *last {
				return // where the stream was resumed, once more
			}
			*last = id
			f(e)
		})
		if err != nil {
			return c.broken(ctx, k, err)
		}
		return nil
	})
}

// events reads server-sent events of log lines: an id, and a JSON object as
// data, in one line each. One that is too long is named and left out.
func events(r io.Reader, f func(id string, e LogLine)) error {
	in := lines.NewReader(r, maxLogLine)
	id := ""
	for {
		line, ok := in.Next()
		if !ok {
			return in.Err()
		}
		if in.Rest {
			continue
		}
		if text, ok := bytes.CutPrefix(line, []byte("id:")); ok {
			id = string(bytes.TrimSpace(text))
			continue
		}
		text, ok := bytes.CutPrefix(line, []byte("data:"))
		if !ok {
			continue
		}
		var e LogLine
		switch err := json.Unmarshal(text, &e); {
		case err == nil:
			f(id, e)
		case len(line) >= maxLogLine && !bytes.HasSuffix(line, []byte("\n")):
			f(id, LogLine{Line: fmt.Sprintf("(a line of more than %d bytes is left out)", maxLogLine)})
		}
	}
}
