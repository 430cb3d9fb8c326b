package runpod

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/host"
	"sweep.dev/sweep/internal/bootstrap"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/ending"
	"sweep.dev/sweep/internal/runpodapi"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
)

// A deployment is one pod.
type deployment struct {
	b       *Backend
	ref     backends.Ref
	role    backends.Role
	logPath string
	gpu     string // that was asked for
	quoted  float64
	created time.Time
	expires time.Time
	network string
	secrets keys

	watch watch // of await, and of the watcher that comes after it
	host  *podHost
	agent *bootstrap.Agent // nil where there is none

	stop    context.CancelFunc // of what start has started
	running sync.WaitGroup

	*ending.Ending
	logged chan struct{} // closed with the log's first line
	first  sync.Once

	mu       sync.Mutex // guards what follows
	terms    backends.Terms
	lastWord string    // of the bootstrap
	listed   time.Time // when a list first had the pod
}

var (
	_ backends.Deployment = (*deployment)(nil)
	_ backends.Server     = (*deployment)(nil)
	_ backends.Rental     = (*deployment)(nil)
	_ backends.Keeper     = (*deployment)(nil)
)

func (b *Backend) deployment(spec backends.Spec, p runpodapi.Pod, quoted float64, network string, secrets keys) *deployment {
	role := spec.Roles[0]
	d := &deployment{
		b: b, role: role, gpu: spec.GPU, quoted: quoted, created: time.Now(), expires: spec.Expires, network: network, secrets: secrets,
		ref:    backends.Ref{Kind: Kind, RunID: spec.RunID, Pod: spec.Pod, ID: p.ID, Name: p.Name, Details: b.at()},
		Ending: ending.New(), logged: make(chan struct{}), stop: func() {},
	}
	if role.LogPath != nil {
		d.logPath = role.LogPath(0)
	}
	d.watch = watch{id: p.ID, gpus: max(1, spec.GPUs), pull: b.Pull, lag: b.freshness(), created: d.created}
	if network != networkProxy {
		d.watch.ports = []int{portOf(role)}
		if !secrets.agent.IsZero() {
			d.watch.ports = append(d.watch.ports, agentPort)
		}
	}
	d.terms = backends.Terms{Ref: d.ref, USDPerHour: p.Cost, Since: d.created}
	if p.Cost <= 0 { // it may be unknown for a while after the create
		d.terms.USDPerHour = quoted
	}
	return d
}

// await returns when the container runs and its ports are known.
func (d *deployment) await(ctx context.Context) error {
	for {
		ready, err := d.look(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return d.b.explain(ctx, d.ref.ID, err)
		case ready:
			d.terms.ImageDigest = imageDigest(d.b.systemLog(ctx, d.ref.ID)) // nobody else has d yet
			return nil
		}
		if err := runpodapi.Sleep(ctx, runpodapi.Jitter(d.b.Poll)); err != nil {
			return err
		}
	}
}

// look takes the newest listing of the account, which all deployments share.
// A list that cannot be had says nothing of the pod; only a refusal ends it.
func (d *deployment) look(ctx context.Context) (ready bool, err error) {
	since := time.Now().Add(-d.b.Poll / 2)
	if since.Before(d.created) {
		since = d.created
	}
	seen, err := d.b.account.After(ctx, since)
	if err != nil {
		if errors.Is(err, backends.ErrRefused) && !d.watch.settled {
			return false, err
		}
		return false, nil
	}
	p, listed := seen.Find(d.ref.ID)
	ready, err = d.watch.look(p, listed, time.Now())
	if listed {
		d.learn(p, time.Now())
		d.discard(ctx, seen)
	}
	if ready && d.host == nil {
		d.host = d.place(p)
	}
	return ready, err
}

// learn takes what a listing says of the pod, its price and its GPU.
func (d *deployment) learn(p runpodapi.Pod, now time.Time) {
	if d.quoted > 0 && p.Cost > 1.1*d.quoted {
		d.note(finding.CostAboveQuote, fmt.Sprintf("RunPod bills $%.2f/h; the catalogue said $%.2f/h", p.Cost, d.quoted))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.listed.IsZero() {
		d.listed = now
	}
	if p.Cost > 0 {
		d.terms.USDPerHour = p.Cost
	}
	if p.GPU != nil {
		if name := catalogName(p.GPU.ID); name != d.gpu {
			d.terms.GPU = name
		}
	}
}

// discard deletes what should not be there: other pods of our name, and those of
// retired names.
func (d *deployment) discard(ctx context.Context, seen runpodapi.Listing) {
	for _, p := range seen.Pods {
		d.b.mu.Lock()
		id, retired := d.b.retired[p.Name]
		d.b.mu.Unlock()
		if p.Alive() && (retired && p.ID != id || p.Name == d.ref.Name && p.ID != d.ref.ID) {
			d.note(finding.DuplicatePod, fmt.Sprintf("pod %s showed up late and was deleted", p.ID))
			// Where it fails the next listing has it again.
			_ = d.b.client.Delete(ctx, p.ID)
		}
	}
}

// place is where the pod is reached, and finds its agent.
func (d *deployment) place(p runpodapi.Pod) *podHost {
	h := &podHost{d: d, targets: map[string]string{}, path: host.Direct}
	address := func(port int) string {
		if d.network == networkProxy {
			u, err := url.Parse(d.b.proxied(d.ref.ID, port))
			if err == nil {
				target := u.Host
				if u.Port() == "" {
					target += ":" + map[string]string{"http": "80", "https": "443"}[u.Scheme]
				}
				h.targets[target] = target
			}
			return d.b.proxied(d.ref.ID, port)
		}
		ip, public, _ := p.Runtime.Mapped(port)
		target := backends.Address{Host: ip, Port: public}.String()
		for _, inside := range []string{"127.0.0.1", "localhost"} {
			h.targets[inside+":"+strconv.Itoa(port)] = target
		}
		h.targets[target] = target
		return "http://" + target
	}
	if !d.secrets.agent.IsZero() {
		d.agent = bootstrap.NewAgent(d.b.dial, address(agentPort), d.secrets.agent)
	}
	h.url = address(portOf(d.role))
	if d.network == networkProxy {
		h.path = host.Proxy
		d.note(finding.NetworkProxy, "requests go through RunPod's HTTP proxy, which adds latency, may buffer, and ends a request after 100 s")
	}
	return h
}

// firstWords is how long a launch waits for the log, so that what is said in a
// short life is not lost with it.
const firstWords = 2 * time.Second

// start begins what lives as long as the pod: the watcher, the heartbeat and
// the copy of the log.
func (d *deployment) start() {
	ctx, cancel := context.WithCancel(context.Background()) // not the launch's: a pod outlives it
	d.stop = cancel
	d.running.Go(func() { d.follow(ctx) })
	d.running.Go(func() { d.keepWatch(ctx) })
	if d.agent != nil {
		d.running.Go(func() { d.beat(ctx) })
	}
	select {
	case <-d.logged:
	case <-time.After(firstWords):
	}
}

// keepWatch looks at the pod until it ends or ctx does.
func (d *deployment) keepWatch(ctx context.Context) {
	for runpodapi.Sleep(ctx, runpodapi.Jitter(d.b.Poll)) == nil {
		if _, err := d.look(ctx); err != nil && ctx.Err() == nil {
			d.mu.Lock()
			word := d.lastWord
			d.mu.Unlock()
			if word != "" {
				err = fmt.Errorf("%w (its last word: %s)", err, word)
			}
			d.Ended(d.b.explain(ctx, d.ref.ID, err))
			return
		}
	}
}

// Between two beats: a quarter of what the pod waits for, and no more than this.
const longestBeat = 30 * time.Second

// beat tells the pod that we are there, and hears from it when its engine has
// ended.
func (d *deployment) beat(ctx context.Context) {
	every := min(d.b.Heartbeat/4, longestBeat)
	failed := 0
	bootstrap.Keepalive(ctx, every, func(ctx context.Context) error {
		if err := d.b.fx.Call(ctx, effect.AgentBeat, d.agent.Beat); err != nil {
			return err
		}
		failed = 0
		s, err := d.agent.Status(ctx)
		if err == nil && s.Exit != nil && runpodapi.Sleep(ctx, 2*time.Second) == nil { // for the log to arrive
			d.exited(*s.Exit)
		}
		return err
	}, func(error) {
		if failed++; failed == 3 {
			d.note(finding.NoHeartbeat, "the pod's agent does not answer: only its lifetime ends the pod without us")
		}
	})
}

var (
	exitLine = regexp.MustCompile(`^sweep-bootstrap: engine exited with status (\d{1,3})\b`)
	wordLine = regexp.MustCompile(`^sweep-bootstrap: (.+): the pod ends$`)
)

// line looks at one line of the container's log.
func (d *deployment) line(text string) {
	d.first.Do(func() { close(d.logged) })
	if m := exitLine.FindStringSubmatch(text); m != nil {
		if code, err := strconv.Atoi(m[1]); err == nil {
			d.exited(code)
		}
	} else if m := wordLine.FindStringSubmatch(text); m != nil {
		d.mu.Lock()
		d.lastWord = m[1]
		d.mu.Unlock()
	}
}

// exited is the end of the engine, with a status as a shell has it.
func (d *deployment) exited(status int) {
	e := &backends.Exit{Role: d.role.Name, Code: status}
	if status > 128 {
		e.Code, e.Signal = -1, syscall.Signal(status-128).String()
	}
	d.Ended(e)
}

// note adds findings for the rows, each once.
func (d *deployment) note(code finding.Code, texts ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, text := range texts {
		if f := (result.Finding{Code: code, Text: text}); !slices.Contains(d.terms.Findings, f) {
			d.terms.Findings = append(d.terms.Findings, f)
		}
	}
}

func (d *deployment) Host(role string, replica int) host.Host {
	if role != d.role.Name || replica != 0 {
		panic(fmt.Sprintf("runpod: no replica %d of role %q", replica, role))
	}
	return d.host
}

// Terms are what is known of the pod by now.
func (d *deployment) Terms() backends.Terms {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.terms
	t.Findings = slices.Clone(t.Findings)
	return t
}

// Authorize adds the key that this pod's engine was started with.
func (d *deployment) Authorize(h http.Header) {
	if !d.secrets.engine.IsZero() {
		h.Set("Authorization", "Bearer "+d.secrets.engine.Reveal())
	}
}
