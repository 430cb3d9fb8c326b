//go:build honesty

package honesty

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// closing makes a server that answers each chat with 24 tokens and closes the
// connection: as it has said, or without a word, as soon as it has answered.
func closing(said bool) func(t *testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		all.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				all.Go(func() { answer(c, said) })
			}
		})
		t.Cleanup(func() {
			_ = l.Close()
			all.Wait()
		})
		return "http://" + l.Addr().String()
	}
}

func answer(c net.Conn, said bool) {
	defer c.Close()
	// Unused connections end too.
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	r, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	if r.Method != http.MethodPost {
		whole(c, `{"object":"list","data":[{"id":"Qwen/Qwen2.5-7B-Instruct","object":"model"}]}`)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if !bytes.Contains(body, []byte(`"stream":true`)) {
		whole(c, `{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"word"},"finish_reason":"length"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`)
		return
	}
	head := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
	if said {
		head += "Connection: close\r\n"
	}
	_, _ = fmt.Fprint(c, head+"\r\n")
	const begin = `{"id":"1","object":"chat.completion.chunk","created":1,"model":"Qwen/Qwen2.5-7B-Instruct","choices":[`
	event := func(data string) {
		data = "data: " + data + "\n\n"
		_, _ = fmt.Fprintf(c, "%x\r\n%s\r\n", len(data), data)
	}
	for range 24 {
		time.Sleep(5 * time.Millisecond)
		event(begin + `{"index":0,"delta":{"content":" word"},"finish_reason":null}]}`)
	}
	event(begin + `{"index":0,"delta":{},"finish_reason":"length"}]}`)
	event(begin + `],"usage":{"prompt_tokens":100,"completion_tokens":24,"total_tokens":124}}`)
	event("[DONE]")
	_, _ = fmt.Fprint(c, "0\r\n\r\n")
}

func whole(c net.Conn, body string) {
	_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body)
}
