// Package virtual sends a load to the arithmetic of the simulated engine on virtual time:
// there is no process, no socket and no sleep, and the same load gives the same requests.
package virtual

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"time"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/sim/core"
)

// Turn is from a server's last token to its client's next request of the same slot: the
// client and the network. It makes a request come in the middle of a step.
const Turn = 300 * time.Microsecond

// ErrWork is the error of a load that would take more work than [Server.Work].
var ErrWork = errors.New("the load takes more work than a rehearsal may")

// A Server is an engine to send loads to, and the client's side of it.
type Server struct {
	Engine core.Config
	// Ask is what a job asks of the engine, and the text of its answer, whose n is the number
	// of its tokens.
	Ask func(*load.Job) (r core.Request, answer func(n int) string)
	// Work bounds the tokens that the engine computes, prompts included; 0 is no bound.
	Work int
}

// Tokens asks for prompts of the job's target length whose tokens are all alike, and for
// all of max_tokens: an engine without a prefix cache does not tell them apart.
func Tokens(j *load.Job) (core.Request, func(int) string) {
	return core.Request{Prompt: make([]uint32, j.Prompt.Target), MaxTokens: j.MaxTokens}, nil
}

// A Session is a server that is up. Loads are sent to it one after another, from one
// goroutine.
type Session struct {
	server Server
	engine *core.Engine
	now    time.Duration
	work   int
	looks  looks
}

// New starts a server, at the time 0.
func New(s Server) *Session { return &Session{server: s, engine: core.New(s.Engine)} }

// Now returns the virtual time.
func (s *Session) Now() time.Duration { return s.now }

// Work returns how many tokens the engine has computed.
func (s *Session) Work() int { return s.work }

// Send sends what a source says, and gives each request as it ends to yield, until yield
// returns false. Most is how many requests it takes from the source at most; 0 is all.
//
// The error is that of ctx, [ErrWork], or that the engine cannot take a request.
func (s *Session) Send(ctx context.Context, src load.Source, most int, yield func(*result.Request) bool) error {
	d := driver{Session: s, src: src, began: s.now, left: most, limited: most > 0, loop: src.Loop(), flying: map[int]*flight{}}
	s.looks = looks{before: s.engine.Stats(), began: s.now}
	for slot := range d.loop.Slots {
		d.next(slot, s.now, nil)
	}
	return d.run(ctx, yield)
}

// A send is a request that is due.
type send struct {
	at   time.Duration
	slot int
	job  load.Job
}

// A driver sends one load.
type driver struct {
	*Session
	src     load.Source
	loop    load.Loop
	began   time.Duration
	left    int // jobs that may be taken, if limited
	limited bool
	due     sends
	flying  map[int]*flight // by the engine's id
	// In the order in which they were sent, those that have ended among them: requests with
	// a deadline, which is the same for all, and those that are to be cancelled.
	deadlines, cancels []*flight
}

// next takes a slot's next job. It is due, from a moment on, when the job says;
// an open loop's job says it from the beginning.
func (d *driver) next(slot int, from time.Duration, prev *result.Request) {
	if d.limited && d.left == 0 {
		return
	}
	if j, ok := d.src.Next(slot, prev); ok {
		d.left--
		heap.Push(&d.due, send{from + j.At, slot, j})
	}
}

// room reports whether one more request may be in flight.
func (d *driver) room() bool { return d.loop.MaxInFlight == 0 || len(d.flying) < d.loop.MaxInFlight }

func (d *driver) run(ctx context.Context, yield func(*result.Request) bool) error {
	for {
		for len(d.due) > 0 && d.due[0].at <= d.now && d.room() {
			if err := d.add(heap.Pop(&d.due).(send)); err != nil {
				return err
			}
			if d.loop.Open {
				d.next(0, d.began, nil)
			}
		}
		step, ok := d.engine.Begin(d.now)
		if !ok {
			if len(d.flying) > 0 {
				return fmt.Errorf("the KV cache of %d tokens does not hold a request", d.server.Engine.KVTokens())
			}
			if len(d.due) == 0 {
				return nil
			}
			d.now = d.due[0].at
			continue
		}
		if d.work += step.Tokens; d.server.Work > 0 && d.work > d.server.Work {
			return ErrWork
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		d.looks.step(d.engine.Stats(), step.End-step.Start)
		d.now = step.End
		for _, o := range d.engine.End() {
			f := d.flying[o.ID]
			f.token(d.now, o)
			d.looks.token(o)
			if o.Finish != core.Running && !d.end(o.ID, f, yield) {
				return nil
			}
		}
		if !d.giveUp(yield) {
			return nil
		}
	}
}

// end hands a request on, and takes the next of its slot; false if no more are wanted.
func (d *driver) end(id int, f *flight, yield func(*result.Request) bool) bool {
	delete(d.flying, id)
	f.over = true
	if !yield(&f.Request) {
		return false
	}
	if !d.loop.Open {
		d.next(f.Slot, d.now+Turn, &f.Request)
	}
	return true
}

// giveUp gives up the requests that the plan cancels, and those whose deadline has
// passed. It looks after each step.
func (d *driver) giveUp(yield func(*result.Request) bool) bool {
	var late []*flight
	late, d.cancels = d.since(d.cancels, func(f *flight) time.Duration { return f.cancel })
	for _, f := range late {
		f.Status, f.Planned = result.Cancelled, true
	}
	overdue, rest := d.since(d.deadlines, func(f *flight) time.Duration { return f.deadline })
	d.deadlines = rest
	for _, f := range overdue {
		if f.Status == "" {
			f.Status, f.ErrorClass, f.Error = result.Failed, result.ErrTimeout, "the deadline of the request has passed"
			late = append(late, f)
		}
	}
	for _, f := range late {
		d.engine.Abort(f.id)
		f.End = d.now
		if !d.end(f.id, f, yield) {
			return false
		}
	}
	return true
}

// since returns the requests of a list that were sent so long ago and have not ended, and the
// rest of the list.
func (d *driver) since(list []*flight, after func(*flight) time.Duration) (late, rest []*flight) {
	for i, f := range list {
		switch {
		case f.over:
		case d.now < f.Sent+after(f):
			return late, list[i:]
		default:
			late = append(late, f)
		}
	}
	return late, nil
}

func (d *driver) add(s send) error {
	asked, answer := d.server.Ask(&s.job)
	if n, most := len(asked.Prompt)+asked.MaxTokens, d.server.Engine.MaxModelLen; most > 0 && n > most {
		return fmt.Errorf("a prompt of %d tokens and max_tokens %d do not fit into the longest sequence of the server, %d tokens", len(asked.Prompt), asked.MaxTokens, most)
	}
	sent := s.at
	if d.loop.MaxInFlight > 0 {
		sent = d.now
	}
	f := &flight{last: sent, answer: answer, deadline: s.job.Deadline, cancel: s.job.CancelAfter, Request: result.Request{
		Shard: s.job.Shard, N: s.job.N, Slot: s.slot, Turn: s.job.Turn, Phase: s.job.Phase,
		Scheduled: s.at, Sent: sent, FirstByte: result.Never, FirstToken: result.Never, FirstOutput: result.Never, LastToken: result.Never, End: result.Never,
		TargetTokens: s.job.Prompt.Target, PromptTokens: len(asked.Prompt), FirstTokenChunk: -1,
		Chosen: s.job.CancelAfter > 0, MaxTokens: s.job.MaxTokens, TokenSource: "usage", ChunkUS: make([]int32, 0, s.job.MaxTokens),
	}}
	if !s.job.KeepAnswer {
		f.answer = nil
	}
	f.id = d.engine.Add(sent, asked)
	d.flying[f.id] = f
	if f.deadline > 0 {
		d.deadlines = append(d.deadlines, f)
	}
	if f.cancel > 0 {
		d.cancels = append(d.cancels, f)
	}
	return nil
}

// A flight is a request that is being answered.
type flight struct {
	result.Request
	id       int
	last     time.Duration
	deadline time.Duration // since its send; 0: none
	cancel   time.Duration // "
	answer   func(n int) string
	over     bool
}

// token takes the next token in.
func (f *flight) token(now time.Duration, o core.Output) {
	if f.CompletionTokens == 0 {
		f.FirstByte, f.FirstToken, f.FirstOutput, f.FirstTokenChunk = now, now, now, 0
		f.CachedTokens = o.Cached
	}
	f.ChunkUS = append(f.ChunkUS, int32(now/time.Microsecond-f.last/time.Microsecond))
	f.CompletionTokens++
	f.last, f.LastToken = now, now
	if o.Finish == core.Running {
		return
	}
	f.End, f.Status, f.FinishReason = now, result.Completed, string(o.Finish)
	if f.answer != nil {
		f.Answer = f.answer(f.CompletionTokens)
	}
}

type sends []send

func (s sends) Len() int           { return len(s) }
func (s sends) Less(i, j int) bool { return s[i].at < s[j].at }
func (s sends) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *sends) Push(x any)        { *s = append(*s, x.(send)) }
func (s *sends) Pop() any {
	old := *s
	x := old[len(old)-1]
	*s = old[:len(old)-1]
	return x
}
