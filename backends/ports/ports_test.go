package ports

import (
	"context"
	"errors"
	"net"
	"testing"
)

func TestFind(t *testing.T) {
	t.Parallel()
	port, err := Find(t.Context())
	if err != nil || port < first || port >= ephemeral() {
		t.Fatalf("port %d, %v", port, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Find(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of its context: %v", err)
	}
}

func TestFree(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"127.0.0.1:0", ":0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if Free(t.Context(), l.Addr().(*net.TCPAddr).Port) {
			t.Errorf("%s is free while somebody listens there", l.Addr())
		}
		l.Close()
	}
}
