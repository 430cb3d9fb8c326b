package store

import (
	"io"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"sweep.dev/sweep/result"
)

type counter int64

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }

// engineSteps returns what a server under load sends: rows requests of about 500
// tokens, one a step of the engine, steps of some 20 ms that jitter and that a
// prefill lengthens now and then.
func engineSteps(rows int, jitter float64, stated bool) (requests []result.Request, tokens int) {
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range rows {
		n := 400 + rng.IntN(200)
		r := result.Request{
			N: i, Slot: i % 64, Phase: result.Plateau, Scheduled: time.Duration(i) * time.Millisecond, Sent: time.Duration(i)*time.Millisecond + 30_000,
			PromptTokens: 200, CachedTokens: 0, CompletionTokens: n, TokenSource: "usage", MaxTokens: 600,
			FinishReason: "stop", HTTPStatus: 200, Status: result.Completed, ChunkUS: make([]int32, n),
		}
		if stated {
			r.ChunkTokens = make([]int32, n)
		}
		at := r.Sent
		for k := range r.ChunkUS {
			step := 20_000 + rng.NormFloat64()*jitter
			if rng.IntN(20) == 0 {
				step += 30_000
			}
			if k == 0 {
				step += 100_000 + 50_000*rng.Float64()
			}
			r.ChunkUS[k] = int32(math.Max(step, 1))
			at += time.Duration(r.ChunkUS[k]) * time.Microsecond
			if k == 0 {
				r.FirstByte, r.FirstToken, r.FirstOutput = at, at, at
			}
			if stated {
				r.ChunkTokens[k] = 1
			}
		}
		r.LastToken, r.End = at, at+50_000
		requests = append(requests, r)
		tokens += n
	}
	return requests, tokens
}

// BenchmarkWriteTokens writes ten million token times.
func BenchmarkWriteTokens(b *testing.B) {
	for _, c := range []struct {
		name   string
		jitter float64
		stated bool
	}{{"jitter=30us", 30, false}, {"jitter=300us", 300, false}, {"jitter=300us/stated", 300, true}} {
		b.Run(c.name, func(b *testing.B) {
			requests, tokens := engineSteps(20_000, c.jitter, c.stated)
			ids := IDs{Run: "0011223344", Cell: "0123456789ab", Trial: 1, Attempt: 1, Anchor: result.NewAnchor()}
			var size counter
			b.ReportAllocs()
			for b.Loop() {
				size = 0
				if err := WriteRequests(io.Writer(&size), ids, requests); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(size)/float64(tokens), "B/token")
			b.ReportMetric(float64(tokens)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mtok/s")
		})
	}
}
