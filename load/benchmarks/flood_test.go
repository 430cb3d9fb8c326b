package benchmarks

import (
	"fmt"
	"runtime"
	"testing"

	"sweep.dev/sweep/load/client"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/result"
)

// flooded asks a server that ignores max_tokens and sends as fast as it can, by n
// streams. It returns the bytes that the client holds in the end and those that it
// allocated in all, both for each stream.
func flooded(tb testing.TB, url, kind string, n int) (held, allocated float64) {
	tb.Helper()
	const tokens = 64
	d, err := client.New(wire.Config{BaseURL: url, Model: "m", Chat: true, Stream: true, IncludeUsage: true}, kind)
	if err != nil {
		tb.Fatal(err)
	}
	defer d.Close()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	got, _ := ask(tb, d, n, tokens)
	runtime.ReadMemStats(&after)
	allocated = float64(after.TotalAlloc-before.TotalAlloc) / float64(n)
	runtime.GC()
	runtime.ReadMemStats(&after)
	held = float64(max(0, int64(after.HeapAlloc)-int64(before.HeapAlloc))) / float64(n)
	for _, r := range got {
		if most := wire.MaxChunks(tokens); r.ErrorClass != result.ErrProtocol || len(r.ChunkUS) > most || cap(r.ChunkUS)+cap(r.ChunkTokens) > 4*most {
			tb.Errorf("request %d: %s %s %q, %d chunks (bound %d), room for %d and %d",
				r.N, r.Status, r.ErrorClass, r.Error, len(r.ChunkUS), most, cap(r.ChunkUS), cap(r.ChunkTokens))
		}
	}
	return held, allocated
}

// The memory for an answer that never ends is bounded by what was asked for, in
// both drivers: 64 KiB of chunks a stream, and its buffers.
func TestFlood(t *testing.T) {
	url := launch(t, flood)
	for _, kind := range kinds() {
		t.Run(kind, func(t *testing.T) {
			held, allocated := flooded(t, url, kind, 16)
			t.Logf("a stream holds %.0f KB and allocated %.0f KB", held/1e3, allocated/1e3)
			if held > 256<<10 || allocated > 2<<20 {
				t.Errorf("a stream holds %.0f bytes (bound 256 KiB) and allocated %.0f (bound 2 MiB)", held, allocated)
			}
		})
	}
}

// BenchmarkFlood measures the client's memory at such a server. It grows with the
// number of streams alone.
func BenchmarkFlood(b *testing.B) {
	for _, kind := range kinds() {
		for _, n := range []int{2, 64, 512} {
			b.Run(fmt.Sprintf("client=%s/streams=%d", kind, n), func(b *testing.B) {
				url := launch(b, flood)
				for b.Loop() {
					held, allocated := flooded(b, url, kind, n)
					b.ReportMetric(held/1e3, "held-KB/stream")
					b.ReportMetric(allocated/1e3, "allocated-KB/stream")
				}
			})
		}
	}
}

// kinds returns the clients that work here.
func kinds() []string {
	if runtime.GOOS == "linux" {
		return []string{client.Std, client.Fast}
	}
	return []string{client.Std}
}
