package shard

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/arrivals"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/result"
)

// digest returns that of the requests of a load, in any order: who sends one does not count,
// and one that is sent twice does.
func digest(t *testing.T, parts ...source.Config) (sum string, n int) {
	t.Helper()
	total := new(big.Int)
	for _, c := range parts {
		src, err := source.New(c)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range jobs(src) {
			j.Shard, j.Slot = 0, 0
			text, err := json.Marshal(j)
			if err != nil {
				t.Fatal(err)
			}
			h := sha256.Sum256(text)
			total.Add(total, new(big.Int).SetBytes(h[:]))
			n++
		}
	}
	return total.Text(16), n
}

// jobs returns all of a source, whose requests take 1 ms.
func jobs(src load.Source) (all []load.Job) {
	prev := make([]*result.Request, src.Loop().Slots)
	for ended := 0; ended < len(prev); {
		ended = 0
		for slot := range prev {
			j, ok := src.Next(slot, prev[slot])
			if !ok {
				ended++
				continue
			}
			at := j.At
			if prev[slot] != nil {
				at += prev[slot].End
			}
			j.At, j.Paused = max(j.At, 0), 0
			if !src.Loop().Open {
				j.At = 0 // a moment of the run
				prev[slot] = &result.Request{Scheduled: at, Sent: at, End: at + time.Millisecond, Status: result.Completed}
				if j.KeepAnswer {
					prev[slot].Answer = fmt.Sprint("answer ", j.N)
				}
			}
			all = append(all, j)
		}
	}
	return all
}

// One client and four send the same requests, at the same times.
func TestOf_sameRequests(t *testing.T) {
	base := source.Config{Seed: 7, Cell: "0123456789ab", Trial: 1, MaxTokens: 16, Prompts: source.Prompts{InputTokens: 40}}
	for name, set := range map[string]func(*source.Config){
		"poisson":       func(c *source.Config) { c.Pace, c.Requests = arrivals.Steady(50, arrivals.Process{}), 203 },
		"closed":        func(c *source.Config) { c.Concurrency, c.Requests = 9, 203 },
		"per worker":    func(c *source.Config) { c.Concurrency, c.RequestsPerWorker = 9, 7 },
		"conversations": func(c *source.Config) { c.Concurrency, c.Requests, c.Conversation.Turns = 9, 203, 3 },
		"warm-up": func(c *source.Config) {
			c.Concurrency, c.Requests, c.WarmupRequests, c.Phase = 9, 203, 18, result.Warmup
		},
		"warm-up of an open loop": func(c *source.Config) {
			c.Pace, c.Requests, c.WarmupRequests, c.Phase = arrivals.Steady(50, arrivals.Process{}), 203, 18, result.Warmup
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := base
			set(&c)
			whole, n := digest(t, c)
			parts := make([]source.Config, Clients(c, 4))
			for i := range parts {
				parts[i] = Of(c, i, len(parts))
			}
			if got, m := digest(t, parts...); len(parts) != 4 || got != whole || m != n || n == 0 {
				t.Errorf("%d clients send %d requests of digest %s, one sends %d of %s", len(parts), m, got, n, whole)
			}
			other := c
			other.Seed++
			if got, _ := digest(t, other); got == whole {
				t.Error("another seed has the same digest")
			}
		})
	}
}

// A closed loop has a slot for each client; probes and open loops have none.
func TestClients(t *testing.T) {
	if n := Clients(source.Config{Concurrency: 3}, 4); n != 3 {
		t.Errorf("%d clients share 3 slots", n)
	}
	if n := Clients(source.Config{Concurrency: 3}, 0); n != 1 {
		t.Errorf("%d clients", n)
	}
	if n := Clients(source.Config{Pace: arrivals.Steady(1, arrivals.Process{})}, 4); n != 4 {
		t.Errorf("%d clients share an open loop", n)
	}
}

// A shard that goes on behind what it sent makes what one without a pause makes.
func TestOf_warmupGoesOn(t *testing.T) {
	c := source.Config{
		Cell: "0123456789ab", Trial: 1, MaxTokens: 1, Prompts: source.Prompts{InputTokens: 20},
		Phase: result.Warmup, Concurrency: 8, Requests: 1, WarmupDuration: time.Hour,
	}
	take := func(c source.Config, n int) (ids []int) {
		src, err := source.New(c)
		if err != nil {
			t.Fatal(err)
		}
		for range n {
			j, _ := src.Next(0, nil)
			ids = append(ids, j.N)
		}
		return ids
	}
	for i := range 3 {
		part := Of(c, i, 3)
		want := take(part, 9)
		got := take(part, 4)
		part.WarmupSent = 4
		if got = append(got, take(part, 5)...); !slices.Equal(got, want) {
			t.Errorf("client %d: %v, want %v", i, got, want)
		}
	}
}

// Moving a record changes no latency and no chunk, and what never happened stays so.
func TestMove(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := func(name string) time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, name))
		}
		r := result.Request{
			Scheduled: at("due"), Sent: at("sent"), FirstByte: result.Never, FirstToken: at("first"),
			FirstOutput: result.Never, LastToken: at("last"), End: at("end"),
		}
		offset := Offset(time.Duration(rapid.Int64Range(-int64(time.Hour), int64(time.Hour)).Draw(t, "offset")))
		moved := r
		Move(&moved, offset)
		if moved.FirstToken-moved.Sent != r.FirstToken-r.Sent || moved.Sent != r.Sent+offset || moved.FirstByte != result.Never {
			t.Fatalf("%+v moved by %v is %+v", r, offset, moved)
		}
		// Chunks are differences of whole microseconds.
		chunk := func(r *result.Request) time.Duration {
			return r.FirstToken.Truncate(grain) - r.Sent.Truncate(grain)
		}
		if moved.Sent >= 0 && moved.FirstToken >= 0 && chunk(&moved) != chunk(&r) {
			t.Fatalf("the first chunk came after %v, and after the move %v", chunk(&r), chunk(&moved))
		}
	})
}

// However the records of clients come in, the order is one.
func TestSort(t *testing.T) {
	want := []result.Request{{N: 4, Scheduled: 1, Sent: 3}, {N: 1, Shard: 1, Scheduled: 2, Sent: 2}, {N: 0, Scheduled: 2, Sent: 4}, {N: 2, Shard: 2, Scheduled: 2, Sent: 4}}
	for range 20 {
		got := slices.Clone(want)
		slices.Reverse(got)
		Sort(got)
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
}

func TestCheck(t *testing.T) {
	fine := []result.Request{{N: 0}, {N: 1, Shard: 1}, {N: 1 << 40, Shard: 1}}
	if err := Check(fine, 2); err != nil {
		t.Error(err)
	}
	for want, more := range map[string]result.Request{
		"request 1 was sent twice, by clients 1 and 0": {N: 1},
		"request 7 is of client 2, and there are 2":    {N: 7, Shard: 2},
	} {
		if err := Check(append(slices.Clone(fine), more), 2); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
