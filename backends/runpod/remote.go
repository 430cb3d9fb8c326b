package runpod

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/bootstrap"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/backends/provision"
	"sweep.dev/sweep/backends/runpodapi"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
)

// A remote is access to one pod.
type remote struct {
	b        *Backend
	id, name string
	unit     *provision.Unit
	network  string  // networkTCP or networkProxy
	quoted   float64 // USD per hour; 0: nothing was
	since    time.Time

	watch    watch            // of await, and of Follow after it
	hosts    []*podHost       // of the replicas; nil until the pod's ports are known
	agent    *bootstrap.Agent // nil if there is none
	agentURL string

	mu       sync.Mutex // guards what follows
	terms    backends.Terms
	lastWord string // of the bootstrap
}

var (
	_ provision.TermsUpdater = (*remote)(nil)
	_ provision.Proxied      = (*remote)(nil)
	_ provision.Stager       = (*remote)(nil)
)

// Attach implements [provision.Provider]: it waits until the container runs and
// its ports are known.
func (p pods) Attach(ctx context.Context, i provision.Instance, u *provision.Unit) (provision.Remote, error) {
	r := &remote{b: p.b, id: i.ID, name: u.Name, unit: u}
	r.since = p.b.lease(u.Name, func(l *lease) { l.id = i.ID }).made
	if r.since.IsZero() { // adopted
		r.since = time.Now()
	}
	if p.rent != nil {
		r.network, r.quoted = p.rent.network, p.rent.offer.price
	} else if made, ok := i.Data.(runpodapi.Pod); ok {
		r.network = networkOf(made, u.Replicas[0].Place.Port)
	}
	r.watch = watch{id: i.ID, gpus: max(1, u.Spec.GPUs), pull: p.b.Pull, lag: p.b.freshness(), created: r.since}
	if r.network != networkProxy {
		r.watch.ports = portsOf(u)
	}
	if err := r.await(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

// await returns when the container runs and its ports are known.
func (r *remote) await(ctx context.Context) error {
	for {
		ready, err := r.look(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return r.b.explain(ctx, r.id, err)
		case ready:
			r.terms.ImageDigest = imageDigest(r.b.systemLog(ctx, r.id)) // r is not shared yet
			return nil
		}
		if err := runpodapi.Sleep(ctx, runpodapi.Jitter(r.b.Poll)); err != nil {
			return err
		}
	}
}

// look takes the newest listing of the account, which all deployments share.
// A list that cannot be had says nothing of the pod; only a refusal ends it.
func (r *remote) look(ctx context.Context) (ready bool, err error) {
	since := time.Now().Add(-r.b.Poll / 2)
	if since.Before(r.since) {
		since = r.since
	}
	seen, err := r.b.account.After(ctx, since)
	if err != nil {
		if errors.Is(err, backends.ErrRefused) && !r.watch.settled {
			return false, err
		}
		return false, nil
	}
	p, listed := seen.Find(r.id)
	ready, err = r.watch.look(p, listed, time.Now())
	if listed {
		r.learn(p, time.Now())
		r.discard(ctx, seen)
	}
	if ready && r.hosts == nil {
		r.place(p)
	}
	return ready, err
}

// learn takes what a listing says of the pod, its price and its GPU.
func (r *remote) learn(p runpodapi.Pod, now time.Time) {
	if r.quoted > 0 && p.Cost > 1.1*r.quoted {
		r.note(finding.CostAboveQuote, fmt.Sprintf("RunPod bills $%.2f/h; the catalogue said $%.2f/h", p.Cost, r.quoted))
	}
	r.b.lease(r.name, func(l *lease) {
		if l.listed.IsZero() {
			l.listed = now
		}
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.Cost > 0 {
		r.terms.USDPerHour = p.Cost
	}
	if p.GPU != nil {
		if name := catalogName(p.GPU.ID); name != r.unit.Spec.GPU {
			r.terms.GPU = name
		}
	}
}

// discard deletes what should not be there: other pods of our name, and those of
// names that are over.
func (r *remote) discard(ctx context.Context, seen runpodapi.Listing) {
	for _, p := range seen.Pods {
		l := r.b.lease(p.Name, nil)
		if p.Alive() && (l.over && p.ID != l.id || p.Name == r.name && p.ID != r.id) {
			r.note(finding.DuplicatePod, fmt.Sprintf("pod %s showed up late and was deleted", p.ID))
			// Where it fails the next listing has it again.
			_ = r.b.client.Delete(ctx, p.ID)
		}
	}
}

// place is where the replicas are reached, and finds their agent.
func (r *remote) place(p runpodapi.Pod) {
	targets := map[string]string{}
	for _, port := range portsOf(r.unit) {
		if r.network != networkProxy {
			ip, public, _ := p.Runtime.Mapped(port)
			target := backends.Address{Host: ip, Port: public}.String()
			for _, inside := range []string{"127.0.0.1", "localhost"} {
				targets[inside+":"+strconv.Itoa(port)] = target
			}
			targets[target] = target
		} else if u, err := url.Parse(r.b.proxied(r.id, port)); err == nil {
			target := u.Host
			if u.Port() == "" {
				target += ":" + map[string]string{"http": "80", "https": "443"}[u.Scheme]
			}
			targets[target] = target
		}
	}
	address := func(port int) string {
		if r.network == networkProxy {
			return r.b.proxied(r.id, port)
		}
		return "http://" + targets["127.0.0.1:"+strconv.Itoa(port)]
	}
	path := host.Direct
	if r.network == networkProxy {
		path = host.Proxy
		r.note(finding.NetworkProxy, "requests go through RunPod's HTTP proxy, which adds latency, may buffer, and ends a request after 100 s")
	}
	for _, at := range r.unit.Replicas {
		h := &podHost{r: r, url: address(at.Place.Port), path: path, targets: targets, ports: at.Place.Ports, logged: make(chan struct{})}
		if at.Role.LogPath != nil {
			h.log = at.Role.LogPath(at.Place.Replica)
		}
		r.hosts = append(r.hosts, h)
	}
	if port := r.unit.Replicas[0].Place.Agent; port != 0 {
		r.agentURL = address(port)
		r.agent = bootstrap.NewAgent(r.hosts[0].Dial, r.agentURL, r.unit.Token)
	}
}

// Host implements [provision.Remote].
func (r *remote) Host(n int) host.Host { return r.hosts[n] }

// AgentURL implements [provision.Proxied].
func (r *remote) AgentURL(int) string { return r.agentURL }

// Close implements [provision.Remote]: nothing outlives a Follow.
func (r *remote) Close() {}

// UpdateTerms implements [provision.TermsUpdater].
func (r *remote) UpdateTerms(t *backends.Terms) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.terms.USDPerHour > 0 {
		t.USDPerHour = r.terms.USDPerHour
	}
	t.GPU, t.ImageDigest = r.terms.GPU, r.terms.ImageDigest
	t.Findings = append(t.Findings, r.terms.Findings...)
}

// note adds a finding for the rows, once.
func (r *remote) note(code finding.Code, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f := (result.Finding{Code: code, Text: text}); !slices.Contains(r.terms.Findings, f) {
		r.terms.Findings = append(r.terms.Findings, f)
	}
}

// Follow implements [provision.Remote]. The engine's end is in its log, the agent
// knows it, and the account knows that of the pod: the first that says so is
// believed. The log goes on where it was by itself, so that no offset is needed.
// With the first of several replicas their pod is watched.
func (r *remote) Follow(ctx context.Context, n int, _ int64, w io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	readLog := func(ctx context.Context, n int) error { return r.readLog(ctx, n, w) }
	readReplica := func(ctx context.Context, n int) error { return r.readReplica(ctx, n, w) }
	watches := []func(context.Context, int) error{readLog, r.askAgent, r.keepWatch}
	switch {
	case r.several() && n == 0:
		watches = []func(context.Context, int) error{readReplica, readLog, r.keepWatch}
	case r.several():
		watches = []func(context.Context, int) error{readReplica}
	}
	ends := make(chan error, len(watches))
	var all sync.WaitGroup
	for _, watch := range watches {
		all.Go(func() {
			if err := watch(ctx, n); err != nil {
				ends <- err
			}
		})
	}
	var end error
	select {
	case end = <-ends:
	case <-ctx.Done():
	}
	stop()
	all.Wait()
	return end
}

// several reports whether the pod's engine is one that starts the replicas.
func (r *remote) several() bool { return len(r.unit.Replicas) > 1 }

// keepWatch looks at the pod until it ends or ctx does.
func (r *remote) keepWatch(ctx context.Context, _ int) error {
	for runpodapi.Sleep(ctx, runpodapi.Jitter(r.b.Poll)) == nil {
		if _, err := r.look(ctx); err != nil && ctx.Err() == nil {
			r.mu.Lock()
			word := r.lastWord
			r.mu.Unlock()
			if word != "" {
				err = fmt.Errorf("%w (its last word: %s)", err, word)
			}
			return r.b.explain(ctx, r.id, err)
		}
	}
	return nil
}

const (
	// longestAsk bounds the time between two questions for the engine's end.
	longestAsk = 30 * time.Second
	// lastLines is how long the log of an engine that has ended is waited for.
	lastLines = 2 * time.Second
)

// askAgent hears from the agent when the engine has ended.
func (r *remote) askAgent(ctx context.Context, n int) error {
	if r.agent == nil {
		return nil
	}
	for runpodapi.Sleep(ctx, min(r.b.Heartbeat/4, longestAsk)) == nil {
		s, err := r.agent.Status(ctx)
		if err == nil && s.Exit != nil && runpodapi.Sleep(ctx, lastLines) == nil {
			return r.exit(n, *s.Exit)
		}
	}
	return nil
}

var (
	exitLine = regexp.MustCompile(`^sweep-bootstrap: engine exited with status (\d{1,3})\b`)
	wordLine = regexp.MustCompile(`^sweep-bootstrap: (.+): the pod ends$`)
)

// line looks at one line of the container's log, which may say that the engine
// has ended.
func (r *remote) line(n int, text string) error {
	if r.several() && strings.HasPrefix(text, "sweep-bootstrap: no python3") {
		return &backends.Failure{
			Class: "image", Hint: "an image with python3, or one role in a pod",
			Err: errors.New("the image has no python3, which a pod of several servers needs"),
		}
	}
	if m := exitLine.FindStringSubmatch(text); m != nil && r.several() {
		return fmt.Errorf("what starts the servers of pod %s has exited with status %s", r.id, m[1])
	} else if m != nil {
		if code, err := strconv.Atoi(m[1]); err == nil {
			return r.exit(n, code)
		}
	} else if m := wordLine.FindStringSubmatch(text); m != nil {
		r.mu.Lock()
		r.lastWord = m[1]
		r.mu.Unlock()
	}
	return nil
}

// exit returns the end of an engine, with a status as a shell has it.
func (r *remote) exit(n, status int) error {
	at := r.unit.Replicas[n]
	return backends.ShellExit(at.Role.Name, at.Place.Replica, status, false)
}
