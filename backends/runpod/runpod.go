// Package runpod rents pods at RunPod through version 2 of its REST API.
//
// # A create that got no answer
//
// The API has no idempotency key, and is known to answer 500 to a create that
// went well. Every create therefore has a name of its own, which is on the
// ledger before the request is sent. A request without a clear answer is never
// sent again: the account is looked through for the name until the pod shows up
// or [Config.Patience] is over. Names that were given up, and those of pods that
// are gone, are still watched for as long as a deployment lives, and what shows
// up late is deleted.
//
// # What gone means
//
// A pod is gone after its DELETE was answered and two successive lists of the
// whole account do not have it any more. A 404 alone proves nothing. One create
// is known to have made two pods, so a young pod's name is looked for until a
// duplicate would have been listed: twice as long as the pod itself took to be listed,
// two polls at least and a minute at most.
//
// # Several roles
//
// All replicas of a deployment are in one pod, on ports of their own. Package
// bootstrap starts each when the roles before it are up; its log and its end come
// from the agent, those of the pod from the account.
//
// # Calls
//
// All deployments of one Backend share one list of the account and one limit
// of calls. The key goes to the host of base_url and nowhere else.
package runpod

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/provision"
	"sweep.dev/sweep/backends/runpodapi"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/netguard"
)

// A Backend is one RunPod account.
type Backend struct {
	Config
	*provision.Layer // over the pods of the account

	client  *runpodapi.Client
	account *runpodapi.Lister
	// dial reaches the ports of pods; [netguard.Dial] but in tests.
	dial func(ctx context.Context, network, addr string) (net.Conn, error)

	mu     sync.Mutex
	leases map[string]lease // by name
}

var (
	_ backends.Backend    = (*Backend)(nil)
	_ backends.Prober     = (*Backend)(nil)
	_ backends.Quoter     = (*Backend)(nil)
	_ backends.Checker    = (*Backend)(nil)
	_ backends.Accountant = (*Backend)(nil)
	_ backends.Pauser     = (*Backend)(nil)
	_ backends.Adopter    = (*Backend)(nil)
	_ backends.Accessor   = (*Backend)(nil)
	_ backends.Network    = (*Backend)(nil)
	_ backends.Outbound   = (*Backend)(nil)
)

// Factory makes RunPod backends. What a plan leaves out of the key and the
// address comes from RUNPOD_API_KEY and RUNPOD_API_BASE_URL. Without a key a
// plan can still be checked; every call is refused then.
func Factory(fx *effect.Effects) backends.Factory {
	return backends.Factory{
		Kind:     Kind,
		Doc:      "pods rented at RunPod",
		Images:   true,
		Outlives: true,
		Bills:    true,
		Launch:   25 * time.Minute,
		Settle:   2*time.Minute + 30*time.Second,
		Config:   Config{},
		Default: func(env func(string) (string, bool)) (backends.Backend, error) {
			c := DefaultConfig
			c.fromEnv(env)
			if c.Key.IsZero() {
				return nil, errors.New("runpod: RUNPOD_API_KEY is not set")
			}
			return New(fx, c)
		},
		New: func(decode func(any) error) (backends.Backend, error) {
			c := DefaultConfig
			if err := decode(&c); err != nil {
				return nil, err
			}
			c.fromEnv(os.LookupEnv)
			return New(fx, c)
		},
	}
}

// New makes a backend of a configuration. The error names everything that is
// wrong with it.
func New(fx *effect.Effects, c Config) (*Backend, error) {
	base, err := c.check()
	if err != nil {
		return nil, err
	}
	client := runpodapi.New(fx, base, c.Key, c.Rate)
	b := &Backend{Config: c, client: client, account: runpodapi.NewLister(client), dial: netguard.Dial, leases: map[string]lease{}}
	settings := provision.Settings{
		Kind: Kind, Effects: fx, Env: map[string]string{}, Images: true, Keyed: true, SharedDisk: c.Bootstrap,
		At:        func() map[string]string { return map[string]string{atBase: client.Base()} },
		Elsewhere: ": set " + baseVar + ", or base_url in the plan",
		Bootstrap: c.Bootstrap, Heartbeat: c.Heartbeat, Hold: true, GiveBack: giveBack(client.Base()),
		Late: c.Patience, Settle: c.Patience + 20*time.Second,
	}
	for name, value := range c.Env {
		settings.Env[name] = value.Reveal()
	}
	b.Layer = provision.New(settings, pods{b: b})
	return b, nil
}

// atBase is the key of a ledger's At that says which API.
const atBase = "base_url"

// PlainTCP implements [backends.Network]: otherwise it may be the provider's proxy.
func (b *Backend) PlainTCP() bool { return b.Network == networkTCP }

// Probe looks whether the key may list pods.
func (b *Backend) Probe(ctx context.Context) error {
	_, err := b.account.After(ctx, time.Now())
	return err
}

// Pause stops a pod: it keeps its disk, whose price doubles, and loses its GPU.
func (b *Backend) Pause(ctx context.Context, ref backends.Ref) error {
	return b.act(ctx, ref, "stop", runpodapi.StatusExited)
}

// Resume starts a stopped pod, which may fail where its GPU is somebody else's
// by now.
func (b *Backend) Resume(ctx context.Context, ref backends.Ref) error {
	return b.act(ctx, ref, "start", runpodapi.StatusRunning)
}

// act does an action once. Where the answer is unclear the pod itself tells.
func (b *Backend) act(ctx context.Context, ref backends.Ref, action, want string) error {
	if err := b.Mine(ref); err != nil {
		return err
	}
	err := b.client.Act(ctx, ref.ID, action)
	if runpodapi.IsStatus(err, 404) {
		return fmt.Errorf("%w: runpod has no pod %s", backends.ErrNotFound, ref.ID)
	}
	if err == nil || !runpodapi.Transient(err) && !runpodapi.IsStatus(err, 409) {
		return err
	}
	p, readErr := b.client.Pod(ctx, ref.ID)
	if readErr != nil {
		return errors.Join(err, readErr)
	}
	if p.Status == want {
		return nil
	}
	return fmt.Errorf("pod %s is %s: %w", ref.ID, p.Status, err)
}

// Account tells what runs in the account and what pods cost in the last day.
// The API does not tell a balance.
func (b *Backend) Account(ctx context.Context) (backends.Account, error) {
	seen, err := b.account.After(ctx, time.Now())
	if err != nil {
		return backends.Account{}, err
	}
	var a backends.Account
	for _, p := range seen.Pods {
		// A stopped pod keeps the price that it had; it pays for its disk alone.
		if p.Alive() && p.Status != runpodapi.StatusExited {
			a.Pods++
			a.USDPerHour += p.Cost
		}
	}
	spent, err := b.client.Spent(ctx)
	switch {
	case err == nil:
		a.SpentUSD = &spent
	case !errors.Is(err, backends.ErrRefused): // a key without that permission is no fault
		return a, err
	}
	return a, nil
}
