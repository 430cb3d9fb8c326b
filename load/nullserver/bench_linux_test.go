package nullserver

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
)

func BenchmarkServer(b *testing.B) {
	s, err := New()
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "http://"))
	if err != nil {
		b.Fatal(err)
	}
	fmt.Fprintf(c, "POST /?n=%d&mode=2 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", maxChunks)
	b.ReportAllocs()
	b.ResetTimer()
	buf := make([]byte, len(s.frame.bytes))
	for b.Loop() {
		if _, err := io.ReadFull(c, buf); err != nil {
			b.Fatal(err)
		}
	}
	c.Close()
	cancel()
	if err := <-served; err != nil {
		b.Error(err)
	}
}
