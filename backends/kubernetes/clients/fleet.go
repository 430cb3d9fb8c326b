// Package clients runs load clients as pods: one Indexed Job, whose pods each run a client
// of package worker. Its control port is on the pod's loopback and is reached through the
// API server; the load itself never leaves the cluster.
//
//	owner (a Job without pods, with a lease)
//	  ├─ Secret          the token of this deployment's clients
//	  └─ Job, Indexed    one pod a client
//
// The pods have no rights in the cluster. They stay for all trials of a deployment. When
// sweep is gone they end by themselves after a minute, and the owner takes them along when
// its lease is over.
package clients

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/kubernetes/owner"
	"sweep.dev/sweep/backends/kubernetes/signs"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/kubeapi"
	"sweep.dev/sweep/internal/netguard"
	"sweep.dev/sweep/internal/secret"
)

const (
	// DefaultLease is how long the pods live without a sign of life of sweep.
	DefaultLease = 5 * time.Minute
	// port is that of each client, on its pod's loopback.
	port = 7070
	// beatsPerLease is how many signs of life there are in a lease: some may get lost.
	beatsPerLease = 5
	// pingEvery is how often a client that has nothing to do hears of us. It ends after a
	// minute without.
	pingEvery = 15 * time.Second
	pingTime  = 10 * time.Second
	lookEvery = 300 * time.Millisecond
	// goneWithin bounds the question how a client ended.
	goneWithin = 5 * time.Second
	// copiesAtOnce bounds the connections over which sweep copies itself.
	copiesAtOnce = 4
)

// A Config says whose clients they are, and how they run.
type Config struct {
	API     *kubeapi.Client
	Effects *effect.Effects
	Name    backends.Name     // of the deployment
	Marks   map[string]string // see [backends.Marks]
	Engine  string
	Want    backends.ClientsWant // with its namespace
	// Owner is that of a launch, which keeps it alive and ends it; then the clients end with
	// the launch. Nil has the clients make one of their own.
	Owner   *owner.Owner
	Lease   time.Duration     // of an own owner; 0 is DefaultLease
	Program string            // this program's file, for pods without it; "" is the running one's
	Note    func(text string) // hears how long what takes; may be nil
}

// A Fleet is the clients of one deployment. Its methods may be called concurrently.
type Fleet struct {
	Config
	space       owner.Namespace
	token       secret.String
	coordinator string
	tag         string // of the names, which those of an earlier fleet of this launch may have

	stop    context.CancelFunc
	beating sync.WaitGroup

	mu    sync.Mutex // of what follows; it is held while pods are made
	owner *owner.Owner
	none  bool   // nothing was made, and nothing has to be given back
	made  int    // Jobs so far
	pods  []*pod // of the last one
	lost  error  // the cluster has ended it
}

// A pod is one client.
type pod struct {
	fleet *Fleet
	name  string
	http  *http.Client
}

// New returns the fleet of a deployment. It asks no cluster.
func New(c Config) *Fleet {
	if c.Lease <= 0 {
		c.Lease = DefaultLease
	}
	if c.Note == nil {
		c.Note = func(string) {}
	}
	token := rand.Text()
	return &Fleet{
		Config: c, space: owner.Namespace{API: c.API, Name: c.Want.Namespace, Effects: c.Effects},
		token: secret.New("the clients' token", token), coordinator: rand.Text(), tag: strings.ToLower(rand.Text()[:4]),
	}
}

// Own makes what owns the clients, unless a launch does, and their Secret, before any of
// them. After an error it must be closed all the same.
func (f *Fleet) Own(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	o := f.Owner
	if o == nil {
		err := signs.Room{}.Await(ctx, func() (err error) {
			o, err = f.space.Create(ctx, owner.Request{Name: f.Name, Marks: f.Marks, Engine: f.Engine, Image: f.image(), Lease: f.Lease})
			f.none = kubeapi.Refused(err) || errors.Is(err, owner.ErrTaken)
			return refused("the Job that ends them", err)
		})
		if err != nil {
			return err
		}
	}
	f.owner = o
	live, stop := context.WithCancel(context.WithoutCancel(ctx))
	f.stop = stop
	f.beating.Go(func() { f.beat(live, o) })
	return f.create(ctx, f.path("/api/v1", "secrets"), "secret "+f.secretName(), f.secret)
}

// create makes an object of the fleet. While a quota of the namespace is used up it waits, until
// ctx ends.
func (f *Fleet) create(ctx context.Context, collection, what string, object func() map[string]any) error {
	return signs.Room{}.Await(ctx, func() error {
		return refused(what, f.Effects.Call(ctx, effect.KubeCreate, func(ctx context.Context) error {
			return f.API.Create(ctx, collection, object(), nil)
		}))
	})
}

// beat gives signs of life until ctx is done.
func (f *Fleet) beat(ctx context.Context, o *owner.Owner) {
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	var beats <-chan time.Time // never, if the launch keeps the owner alive
	if f.Owner == nil {
		beat := time.NewTicker(f.Lease / beatsPerLease)
		defer beat.Stop()
		beats = beat.C
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ping.C:
			f.ping(ctx)
		case <-beats:
			if err := f.space.Extend(ctx, o, f.Lease); errors.Is(err, owner.ErrLost) {
				f.mu.Lock()
				f.lost = err
				f.mu.Unlock()
				return
			}
		}
	}
}

// ping tells all clients that we live.
func (f *Fleet) ping(ctx context.Context) {
	if !f.mu.TryLock() {
		return // they are being made
	}
	pods := f.pods
	f.mu.Unlock()
	var all sync.WaitGroup
	for _, p := range pods {
		all.Go(func() { _ = p.answers(ctx) }) // whether it does is asked when it is needed
	}
	all.Wait()
}

// Clients returns n clients that live. If there are fewer it makes all anew: a Job's pod that
// has ended stays away.
func (f *Fleet) Clients(ctx context.Context, n int) ([]backends.Client, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lost != nil {
		return nil, fmt.Errorf("the load pods: %w", f.lost)
	}
	if len(f.pods) < n || !all(ctx, f.pods) {
		if err := f.renew(ctx, max(n, f.Want.N)); err != nil {
			return nil, fmt.Errorf("load pods in namespace %s: %w", f.space.Name, err)
		}
	}
	list := make([]backends.Client, n)
	for i, p := range f.pods[:n] {
		list[i] = p.client()
	}
	return list, nil
}

// First returns one client, of which it is not asked whether it lives.
func (f *Fleet) First(ctx context.Context) (backends.Client, error) {
	f.mu.Lock()
	pods := f.pods
	f.mu.Unlock()
	if len(pods) > 0 {
		return pods[0].client(), nil
	}
	list, err := f.Clients(ctx, 1)
	if err != nil {
		return backends.Client{}, err
	}
	return list[0], nil
}

func (p *pod) client() backends.Client {
	return backends.Client{URL: controlURL, Token: p.fleet.token, Coordinator: p.fleet.coordinator, Dial: p.dial, Gone: p.howEnded}
}

// all reports whether all clients answer.
func all(ctx context.Context, pods []*pod) bool {
	var g errgroup.Group
	for _, p := range pods {
		g.Go(func() error { return p.answers(ctx) })
	}
	return g.Wait() == nil
}

// renew makes n pods in place of those that there are.
func (f *Fleet) renew(ctx context.Context, n int) error {
	if f.made > 0 { // the first ones have the time of the launch
		late := &backends.Failure{Class: "timeout", Err: fmt.Errorf("not all of %d pods were ready within %v", n, backends.ClientsStart)}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, backends.ClientsStart, late)
		defer cancel()
	}
	f.disconnect()
	if err := f.remove(ctx); err != nil {
		return err
	}
	f.made++
	begun := time.Now()
	if err := f.create(ctx, f.path("/apis/batch/v1", "jobs"), "job "+f.jobName(), func() map[string]any { return f.job(n) }); err != nil {
		return err
	}
	names, err := f.started(ctx, n)
	if err != nil {
		return err
	}
	f.Note(fmt.Sprintf("%d load pods run after %.1f s", n, time.Since(begun).Seconds()))
	if f.Want.Image == "" {
		if err := f.copyAll(ctx, names); err != nil {
			return f.explained(ctx, err)
		}
	}
	pods := make([]*pod, n)
	var g errgroup.Group
	for i, name := range names {
		p := &pod{fleet: f, name: name}
		p.http = &http.Client{Transport: &http.Transport{DialContext: p.dial, MaxIdleConnsPerHost: 1, DisableCompression: true}, CheckRedirect: netguard.NoRedirect}
		pods[i] = p
		g.Go(func() error { return p.await(ctx) })
	}
	f.pods = pods
	return f.explained(ctx, g.Wait())
}

// remove deletes the Job of the pods, if there is one.
func (f *Fleet) remove(ctx context.Context) error {
	if f.made == 0 {
		return nil
	}
	err := f.Effects.Call(ctx, effect.KubeDelete, func(ctx context.Context) error {
		return f.API.Delete(ctx, f.path("/apis/batch/v1", "jobs")+"/"+url.PathEscape(f.jobName()), kubeapi.Deletion{Propagation: kubeapi.Background})
	})
	if kubeapi.NotFound(err) {
		return nil
	}
	return err
}

// disconnect forgets the pods.
func (f *Fleet) disconnect() {
	for _, p := range f.pods {
		p.http.CloseIdleConnections()
	}
	f.pods = nil
}

// LetGo ends what this process does for the clients. Without it they end by themselves in
// a minute.
func (f *Fleet) LetGo() {
	f.mu.Lock()
	if f.stop != nil {
		f.stop()
	}
	f.disconnect()
	f.mu.Unlock()
	f.beating.Wait()
}

// Close ends the clients and all that was made for them, and returns when that is seen to
// be gone. Of those that a launch owns only the pods are on their way out then: the end of
// the launch waits for them.
func (f *Fleet) Close(ctx context.Context) error {
	f.LetGo()
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.none:
		return nil
	case f.Owner != nil:
		if err := f.remove(ctx); err != nil {
			return fmt.Errorf("load pods: %w", err)
		}
		return nil
	}
	uid := ""
	if f.owner != nil {
		uid = f.owner.UID
	}
	if err := f.space.Delete(ctx, f.Name.String(), uid); err != nil {
		return fmt.Errorf("load pods: %w", err)
	}
	return nil
}

// dial connects to a port of the pod, its loopback included.
func (p *pod) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	if addr != controlAddr {
		return nil, fmt.Errorf("dial %s: a load pod has its control port alone", addr)
	}
	return p.fleet.API.Dial(ctx, p.fleet.space.Name, p.name, port)
}

// await waits until the client listens.
func (p *pod) await(ctx context.Context) error {
	for {
		err := p.answers(ctx)
		if err == nil {
			return nil
		}
		if how := p.howEnded(); how != "" {
			return &backends.Failure{Class: "deleted", Err: errors.New(how)} // or what the pod says, while it is there
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("pod %s: %w: %w", p.name, context.Cause(ctx), err)
		case <-time.After(lookEvery):
		}
	}
}

// answers reports whether the client answers.
func (p *pod) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, controlURL+"/v1/clock", http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+p.fleet.token.Reveal())
	resp, err := p.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("pod %s: %s", p.name, resp.Status)
	}
	return nil
}

// howEnded returns how the pod ended; "" if it has not, or the cluster does not say.
func (p *pod) howEnded() string {
	ctx, cancel := context.WithTimeout(context.Background(), goneWithin)
	defer cancel()
	var o object
	err := p.fleet.API.Get(ctx, p.fleet.path("/api/v1", "pods")+"/"+url.PathEscape(p.name), &o)
	if kubeapi.NotFound(err) {
		return "its pod " + p.name + " was deleted"
	}
	if err != nil {
		return ""
	}
	return o.ended()
}
