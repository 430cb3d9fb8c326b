package kubeapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// pod returns a client of an API server whose pods do what talk does.
func pod(t *testing.T, protocol string, talk func(*websocket.Conn)) *Client {
	t.Helper()
	return connect(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "Bearer hunter2hunter2" || !strings.HasPrefix(r.URL.Path, "/k8s/clusters/c-1/api/v1/namespaces/ns/pods/p/") {
			t.Errorf("%s with %q", r.URL, got)
		}
		up := websocket.Upgrader{Subprotocols: []string{protocol}}
		ws, err := up.Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer ws.Close()
		talk(ws)
	})
}

func say(ws *websocket.Conn, messages ...string) {
	for _, m := range messages {
		_ = ws.WriteMessage(websocket.BinaryMessage, []byte(m)) // who has gone hears nothing
	}
}

// What comes from a port is joined without the numbers of the channels; what the other
// side complains of is the error, and nothing is taken for the end that is none.
func TestDial_messages(t *testing.T) {
	t.Parallel()
	const named = "\x00\x40\x1f"
	for name, c := range map[string]struct {
		messages  []string
		drop      bool // the connection breaks
		want, err string
	}{
		"in pieces":        {[]string{named, "\x01\x40\x1f", "\x00he", "\x00", "\x00llo"}, false, "hello", ""},
		"nothing":          {[]string{named, "\x01\x40\x1f"}, false, "", ""},
		"refused":          {[]string{named, "\x01\x40\x1f", "\x01connection refused"}, false, "", "connection refused"},
		"broken":           {[]string{named, "\x00he"}, true, "he", "unexpected EOF"},
		"no channel":       {[]string{""}, false, "", "without a channel"},
		"a strange one":    {[]string{"\x07x"}, false, "", "channel 7"},
		"larger than ever": {[]string{named, "\x00" + strings.Repeat("x", maxFrame)}, false, "", "limit"},
	} {
		api := pod(t, forwardProtocol, func(ws *websocket.Conn) {
			say(ws, c.messages...)
			if !c.drop {
				_ = ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(time.Second))
			}
		})
		conn, err := api.Dial(t.Context(), "ns", "p", 8000)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(conn)
		conn.Close()
		if len(text) < 100 && string(text) != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %.100q, %v", name, text, err)
		}
	}
}

// A long write is cut into messages, each of the channel of data.
func TestDial_write(t *testing.T) {
	t.Parallel()
	text, got := strings.Repeat("0123456789", 10_000), make(chan string, 1)
	api := pod(t, forwardProtocol, func(ws *websocket.Conn) {
		var all strings.Builder
		for all.Len() < len(text) {
			_, m, err := ws.ReadMessage()
			if err != nil || len(m) == 0 || m[0] != forwardData || len(m) > chunk+1 {
				t.Errorf("%d bytes, %v", len(m), err)
				break
			}
			all.Write(m[1:])
		}
		got <- all.String()
	})
	conn, err := api.Dial(t.Context(), "ns", "p", 8000)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if n, err := conn.Write([]byte(text)); n != len(text) || err != nil {
		t.Fatal(n, err)
	}
	if <-got != text {
		t.Error("it came changed")
	}
}

// A command's end is what its status says, whatever it printed before.
func TestExec_status(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		messages []string
		code     int // of an ExitError; 0 for another error, or none
		err      string
	}{
		"well":      {[]string{"\x01out", "\x02err", "", "\x01put", `{"status":"Success"}`}, 0, ""},
		"a code":    {[]string{"\x02no such file", `{"status":"Failure","message":"command terminated with exit code 2","details":{"causes":[{"reason":"ExitCode","message":"2"}]}}`}, 2, "exit code 2: no such file"},
		"not run":   {[]string{`{"status":"Failure","message":"executable file not found in $PATH"}`}, -1, "executable"},
		"no status": {[]string{"\x01out"}, 0, "ended before the command"},
		"not JSON":  {[]string{"what?"}, 0, "status"},
	} {
		api := pod(t, execProtocol, func(ws *websocket.Conn) {
			last := c.messages[len(c.messages)-1]
			if last[0] != execOut {
				last = string(rune(execStatus)) + last
			}
			say(ws, append(c.messages[:len(c.messages)-1:len(c.messages)-1], last)...)
		})
		var out bytes.Buffer
		err := api.Exec(t.Context(), Command{Namespace: "ns", Pod: "p", Container: "c", Argv: []string{"x"}, Out: &out})
		code := 0
		if e, ok := errors.AsType[*ExitError](err); ok {
			code = e.Code
		}
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) || code != c.code {
			t.Errorf("%s: code %d, %v", name, code, err)
		}
		if name == "well" && out.String() != "output" {
			t.Errorf("printed %q", out.String())
		}
	}
}

// An input that breaks off ends the command's connection, and one that ends is closed.
func TestExec_input(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	api := pod(t, execProtocol, func(ws *websocket.Conn) {
		var all strings.Builder
		for {
			_, m, err := ws.ReadMessage()
			if err != nil {
				got <- "broken"
				return
			}
			if m[0] == execClose {
				break
			}
			all.Write(m[1:])
		}
		got <- all.String()
		say(ws, string(rune(execStatus))+`{"status":"Success"}`)
	})
	run := Command{Namespace: "ns", Pod: "p", Container: "c", Argv: []string{"x"}, In: strings.NewReader("hello")}
	if err := api.Exec(t.Context(), run); err != nil || <-got != "hello" {
		t.Error(err)
	}
	run.In = io.MultiReader(strings.NewReader("hello"), broken{})
	if err := api.Exec(t.Context(), run); err == nil || <-got != "broken" {
		t.Error(err)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("broken") }

// A server that never answers, and a command that never ends, end with the context.
func TestTunnel_cancelled(t *testing.T) {
	t.Parallel()
	stuck := connect(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("enough"))
	defer cancel()
	if _, err := stuck.Dial(ctx, "ns", "p", 1); err == nil || !strings.Contains(err.Error(), "enough") {
		t.Error(err)
	}
	endless := pod(t, execProtocol, func(ws *websocket.Conn) { _, _, _ = ws.ReadMessage() })
	ctx, cancel = context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("enough"))
	defer cancel()
	if err := endless.Exec(ctx, Command{Namespace: "ns", Pod: "p", Argv: []string{"x"}}); err == nil || !strings.Contains(err.Error(), "enough") {
		t.Error(err)
	}
}
