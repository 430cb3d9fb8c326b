package collectors_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"

	"sweep.dev/sweep/collectors"
)

func TestDials_end(t *testing.T) {
	var begun, ended sync.WaitGroup
	begun.Add(4)
	calls := make(chan struct{}, 8)
	d := collectors.NewDials(func(ctx context.Context, _, _ string) (net.Conn, error) {
		calls <- struct{}{}
		begun.Done()
		<-ctx.Done()
		return nil, ctx.Err()
	})
	dial := func() error {
		_, err := d.Dial(t.Context(), "tcp", "127.0.0.1:1")
		return err
	}
	for range cap(calls) / 2 {
		ended.Go(func() {
			if err := dial(); !errors.Is(err, context.Canceled) {
				t.Errorf("a dial that was ended: %v", err)
			}
		})
	}
	begun.Wait()
	d.End()
	n := len(calls)
	if err := dial(); !errors.Is(err, context.Canceled) || len(calls) != n {
		t.Errorf("a dial after the end: %v, %d calls", err, len(calls)-n)
	}
	ended.Wait()
}
