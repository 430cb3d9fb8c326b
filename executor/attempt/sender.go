package attempt

import (
	"context"
	"errors"
	"fmt"
	"os"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/client"
	"sweep.dev/sweep/load/shard"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/load/worker"
	"sweep.dev/sweep/load/worker/processes"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/result"
)

// A sending is one load to send.
type sending struct {
	load   source.Config
	most   int   // requests at most; 0 is all
	rounds []int // requests that were sent before of a warm-up by time, in parts
	rec    load.Recorder
	// watch, if not nil, may end it before its time.
	watch *supervisor
}

// A sender sends loads to the server of a trial.
type sender interface {
	send(ctx context.Context, s sending, opts load.Options) (load.Health, error)
	// processes are the ids of the processes that send.
	processes() []int
	Close()
}

// sender makes what sends the loads of the trial: this process, or several clients.
func (a *Attempt) sender(ctx context.Context, h host.Host) (sender, error) {
	n := a.clients()
	if pods, ok := a.subject.Server.Deployment.(backends.ClientHost); ok && (pods.Remote() || a.pods()) {
		return a.there(ctx, h, pods, n)
	}
	if n == 1 {
		d, err := a.driver(h)
		if err != nil {
			return nil, err
		}
		return alone{d}, nil
	}
	if err := reachable(n, h.Path()); err != nil {
		return nil, err
	}
	if a.config.ClientProcess == nil {
		return nil, errors.New("load.clients: this program cannot start clients")
	}
	target, err := a.target(h)
	if err != nil {
		return nil, err
	}
	p, err := processes.Start(ctx, nil, n, a.config.ClientProcess)
	if err != nil {
		return nil, err
	}
	g, err := worker.Join(ctx, target, p.Addresses())
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return &several{Group: g, all: p}, nil
}

// there makes what sends from where the servers are.
func (a *Attempt) there(ctx context.Context, h host.Host, pods backends.ClientHost, n int) (sender, error) {
	target, err := a.target(h)
	if err != nil {
		return nil, err
	}
	list, err := pods.Clients(ctx, n)
	if err != nil {
		return nil, err
	}
	at := make([]worker.Address, len(list))
	for i, c := range list {
		at[i] = worker.Address{URL: c.URL, Token: c.Token, Coordinator: c.Coordinator, Dial: c.Dial, Gone: c.Gone}
	}
	g, err := worker.Join(ctx, target, at)
	if err != nil {
		return nil, err
	}
	return &several{Group: g}, nil
}

// target returns the server as several clients ask it.
func (a *Attempt) target(h host.Host) (worker.Target, error) {
	c := a.wire(h.URL())
	c.Headers, c.NetworkPath = a.authorize, string(h.Path())
	return worker.NewTarget(c, a.clientKind())
}

// pods reports whether the load of this trial is that of pods.
func (a *Attempt) pods() bool { return a.trial.Cell.Load.Clients.Kind == plan.ClientsKubernetes }

// clients returns how many clients send the load of this trial.
func (a *Attempt) clients() int {
	l := a.trial.Cell.Load
	n := max(1, l.Clients.N)
	if !l.Open() {
		n = min(n, l.Concurrency)
	}
	return n
}

// reachable reports whether several processes can reach a server by its URL alone.
func reachable(clients int, path host.Path) error {
	if clients > 1 && path != host.Direct {
		return fmt.Errorf("load.clients: %d processes would each need a connection of their own, and the server is reached by a %s: leave load.clients out, or run sweep where the server is", clients, path)
	}
	return nil
}

// alone is this process.
type alone struct{ client.Driver }

func (d alone) send(ctx context.Context, s sending, opts load.Options) (load.Health, error) {
	for _, n := range s.rounds {
		s.load.WarmupSent += n
	}
	src, err := source.New(s.load)
	if err != nil {
		return load.Health{}, err
	}
	if s.most > 0 {
		src = &limited{src, s.most}
	}
	if s.watch != nil {
		s.watch.Source = src
		src = s.watch
	}
	return d.Run(ctx, src, s.rec, opts)
}

func (alone) processes() []int { return []int{os.Getpid()} }

// several are clients that are not this process.
type several struct {
	*worker.Group
	all *processes.Clients // of this machine; nil for others
}

func (m *several) send(ctx context.Context, s sending, opts load.Options) (load.Health, error) {
	l := worker.Load{Source: s.load, Most: s.most, Rounds: s.rounds}
	if w := s.watch; w != nil {
		l.Begun, l.Enough = w.started, w.enough
	}
	return m.Run(ctx, l, s.rec, opts)
}

func (m *several) processes() []int {
	if m.all == nil {
		return []int{os.Getpid()}
	}
	return append(m.all.PIDs(), os.Getpid())
}

// Close ends the clients that are of this trial alone. One that had to be killed has said
// why the trial is INVALID.
func (m *several) Close() {
	m.Group.Close()
	if m.all != nil {
		_ = m.all.Close()
	}
}

// together puts the records of several clients into one order.
func together(all []result.Request, h *load.Health) error {
	if len(h.Shards) == 0 {
		return nil
	}
	shard.Sort(all)
	var measured []result.Request
	for i := range all {
		if all[i].Measured() {
			measured = append(measured, all[i])
		}
	}
	return shard.Check(measured, len(h.Shards))
}
