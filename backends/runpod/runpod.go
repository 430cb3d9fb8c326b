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
// twin would have been listed: twice as long as the pod itself took to be listed,
// two polls at least and a minute at most.
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
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/netguard"
	"sweep.dev/sweep/internal/runpodapi"
)

// A Backend is one RunPod account.
type Backend struct {
	Config
	fx      *effect.Effects
	client  *runpodapi.Client
	account *runpodapi.Lister
	// dial reaches the ports of pods; [netguard.Dial] but in tests.
	dial func(ctx context.Context, network, addr string) (net.Conn, error)

	mu sync.Mutex
	// retired are names that no pod may have any more: of pods that are gone, with
	// their ids, and of creates that were given up, with "".
	retired map[string]string
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
)

// Factory makes RunPod backends. What a plan leaves out of the key and the
// address comes from RUNPOD_API_KEY and RUNPOD_API_BASE_URL. Without a key a
// plan can still be checked; every call is refused then.
func Factory(fx *effect.Effects) backends.Factory {
	return backends.Factory{
		Kind:     Kind,
		Doc:      "pods rented at RunPod",
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
			if err := c.known(os.LookupEnv); err != nil {
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
	api := runpodapi.New(fx, base, c.Key, c.Rate)
	return &Backend{Config: c, fx: fx, client: api, account: runpodapi.NewLister(api), dial: netguard.Dial, retired: map[string]string{}}, nil
}

// at is what finds this account's API again.
func (b *Backend) at() map[string]string {
	return map[string]string{"base_url": b.client.Base()}
}

// Probe looks whether the key may list pods.
func (b *Backend) Probe(ctx context.Context) error {
	_, err := b.account.After(ctx, time.Now())
	return err
}

// List returns the pods that sweep has made for owner, or for anybody where
// owner is empty: those whose name is one of sweep's, and whose marks, where
// they are there, do not contradict it.
func (b *Backend) List(ctx context.Context, owner string) ([]backends.Listed, error) {
	seen, err := b.account.After(ctx, time.Now())
	if err != nil {
		return nil, err
	}
	var list []backends.Listed
	for _, p := range seen.Pods {
		if l, ok := b.listed(p); ok && p.Alive() && owns(owner, l.Owner) {
			list = append(list, l)
		}
	}
	return list, nil
}

// owns says whether a pod's owner, in full or as a tag, is the one.
func owns(owner, of string) bool {
	return owner == "" || of == owner || of == backends.OwnerTag(owner)
}

func (b *Backend) listed(p runpodapi.Pod) (backends.Listed, bool) {
	name, ok := backends.ParseName(p.Name)
	if !ok {
		return backends.Listed{}, false
	}
	l := backends.Listed{
		Ref:   backends.Ref{Kind: Kind, RunID: name.Run, ID: p.ID, Name: p.Name, Details: b.at()},
		Owner: name.Owner, Status: p.Status, Since: p.Since(), Expires: name.Expires, USDPerHour: p.Cost,
	}
	if p.GPU != nil {
		l.GPU = catalogName(p.GPU.ID)
	}
	if owner, ok := p.Env[backends.MarkOwner]; ok {
		if backends.OwnerTag(owner) != name.Owner {
			return backends.Listed{}, false
		}
		l.Owner = owner
	}
	if run, ok := p.Env[backends.MarkRun]; ok {
		if backends.RunTag(run) != name.Run {
			return backends.Listed{}, false
		}
		l.RunID = run
	}
	l.Pod = p.Env[backends.MarkPod]
	return l, true
}

// mine finds out whether a ref is of this account's API. Absence from another
// one would prove nothing.
func (b *Backend) mine(ref backends.Ref) error {
	at := ref.Details["base_url"]
	if at == "" || at == b.client.Base() {
		return nil
	}
	return fmt.Errorf("runpod: pod %s%s is at %s, and this is %s", ref.ID, ref.Name, at, b.client.Base())
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
	if err := b.mine(ref); err != nil {
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
