package openai

import (
	"context"
	"net/http/httptrace"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/loadtest"
	"sweep.dev/sweep/result"
)

// On a clock that only moves when everybody waits, times are exact: whatever
// the driver adds to a latency by the order of what it does shows here.
func TestDriver_exactTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttft, itl, think = 30 * time.Millisecond, 10 * time.Millisecond, 7 * time.Millisecond
		pipe := loadtest.NewPipe()
		e := loadtest.NewOn(pipe, same(loadtest.Answer{TTFT: ttft, ITL: itl}))
		defer e.Close()
		c := chat(e.URL)
		c.Dial = pipe.Dial
		sc := shape(9, 3)
		sc.ThinkTime = think
		anchor := result.NewAnchor()
		time.Sleep(time.Second) // the load does not begin with the clock
		rows, h := drive(t, t.Context(), c, sc, load.Options{Anchor: anchor})
		for i, r := range rows {
			turn := time.Duration(i / 3)
			if want := time.Second + turn*(ttft+7*itl+think); r.Scheduled != want || r.Sent != want {
				t.Errorf("request %d: scheduled %v, sent %v, want %v", i, r.Scheduled, r.Sent, want)
			}
			if r.FirstByte-r.Sent != ttft || r.FirstToken-r.Sent != ttft || r.LastToken-r.Sent != ttft+7*itl || r.End != r.LastToken {
				t.Errorf("request %d: first byte %v, first token %v, last token %v, end %v after the send",
					i, r.FirstByte-r.Sent, r.FirstToken-r.Sent, r.LastToken-r.Sent, r.End-r.Sent)
			}
			if want := []int32{30000, 0, 10000, 10000, 10000, 10000, 10000, 10000, 10000}; !slices.Equal(r.ChunkUS, want) {
				t.Errorf("request %d: chunks %v, want %v", i, r.ChunkUS, want)
			}
		}
		if h.MaxGap != 0 {
			t.Errorf("gap %v", h.MaxGap)
		}
	})
}

// The deadline counts from the send, and the drain from the end of the run.
func TestDriver_exactDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipe := loadtest.NewPipe()
		e := loadtest.NewOn(pipe, same(loadtest.Answer{Fault: loadtest.HangMidStream, After: 2, ITL: time.Second}))
		defer e.Close()
		c := chat(e.URL)
		c.Dial = pipe.Dial
		sc := shape(100, 1)
		sc.Deadline = 10 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		rows, _ := drive(t, ctx, c, sc, load.Options{Drain: 2 * time.Second})
		if len(rows) != 3 {
			t.Fatalf("%d rows", len(rows))
		}
		for _, r := range rows[:2] {
			if r.End-r.Sent != sc.Deadline || r.ErrorClass != result.ErrTimeout || r.LastToken-r.Sent != time.Second {
				t.Errorf("%+v", r)
			}
		}
		if r := rows[2]; r.End != 27*time.Second || r.Status != result.Cancelled {
			t.Errorf("%+v", r)
		}
	})
}

// A request is sent when it is written, not when net/http is asked to: what
// passes in between is our own lateness, not the server's.
func TestDriver_sentIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const busy, ttft = 5 * time.Millisecond, 30 * time.Millisecond
		pipe := loadtest.NewPipe()
		e := loadtest.NewOn(pipe, same(loadtest.Answer{TTFT: ttft}))
		defer e.Close()
		c := chat(e.URL)
		c.Dial = pipe.Dial
		// Called by the goroutine that writes, before anything has left it.
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			WroteHeaderField: func(name string, _ []string) {
				if name == "Content-Type" {
					time.Sleep(busy)
				}
			},
		})
		rows, _ := drive(t, ctx, c, shape(6, 2), load.Options{})
		for i, r := range rows {
			if r.Sent-r.Scheduled != busy || r.FirstToken-r.Sent != ttft {
				t.Errorf("request %d: sent %v late, first token %v after the send", i, r.Sent-r.Scheduled, r.FirstToken-r.Sent)
			}
		}
	})
}
