package runpod

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/runpodapi"
	"sweep.dev/sweep/result/finding"
)

// maxCreates bounds the creates of one launch: what is turned away by a limit
// of calls, or lost without a trace, is tried again under another name.
const maxCreates = 6

// Launch rents a pod of the first candidate that can be had and returns once its
// container runs and its port is known.
func (b *Backend) Launch(ctx context.Context, spec backends.Spec, l backends.Ledger) (backends.Deployment, error) {
	if err := b.Check(spec); err != nil {
		return nil, err
	}
	if spec.RunID == "" || spec.Pod == "" || spec.Expires.IsZero() || !time.Now().Before(spec.Expires) {
		return nil, fmt.Errorf("%w: a rented pod needs a run, a name and a time to end at", backends.ErrSpec)
	}
	offers, err := b.offers(ctx, spec)
	if err != nil {
		return nil, err
	}
	network := b.Network
	if network == networkAuto {
		network = networkTCP
	}
	var last error
	creates := 0
	for i := 0; i < len(offers); {
		if !offers[i].reach {
			i++
			continue
		}
		if creates++; creates > maxCreates {
			return nil, fmt.Errorf("no pod after %d creates: %w", maxCreates, last)
		}
		d, err := b.launch(ctx, spec, offers[i], network, l)
		switch {
		case err == nil:
			return d, nil
		case ctx.Err() != nil:
			return nil, err
		case errors.Is(err, errNoPort) && b.Network == networkAuto && network == networkTCP:
			network = networkProxy
		case errors.Is(err, backends.ErrCapacity):
			i++
		case !runpodapi.Limited(err) && !errors.Is(err, errLost):
			return nil, err
		}
		last = err
	}
	return nil, none(spec, offers, last)
}

// launch is one create and its wait. On error the pod is gone, or the ledger
// still owes it.
func (b *Backend) launch(ctx context.Context, spec backends.Spec, o offer, network string, l backends.Ledger) (*deployment, error) {
	name := backends.NewName(spec.Owner, spec.RunID, spec.Expires).String()
	secrets := newKeys(spec.Roles[0], b.Bootstrap)
	request, err := b.request(spec, name, o, network, secrets)
	if err != nil {
		return nil, err
	}
	p, twins, err := b.rent(ctx, spec, request, o.price+b.diskPrice(), l)
	if err != nil {
		return nil, err
	}
	d := b.deployment(spec, p, o.price, network, secrets)
	d.note(finding.DuplicatePod, twins...)
	gone := func(err error) error {
		// Released here even if ctx is over; if that fails the ledger still owes
		// the pod.
		ctx, cancel := b.settling(ctx)
		defer cancel()
		if end := d.end(ctx); end != nil {
			return errors.Join(err, end)
		}
		return errors.Join(err, l.Record(ctx, backends.Arrow{Pod: spec.Pod, State: backends.Gone}))
	}
	arrow := backends.Arrow{Pod: spec.Pod, State: backends.Created, Ref: &d.ref, USDPerHour: p.Cost + b.diskPrice()}
	if err := l.Record(ctx, arrow); err != nil {
		return nil, gone(fmt.Errorf("record of pod %s: %w", spec.Pod, err))
	}
	if err := d.await(ctx); err != nil {
		return nil, gone(err)
	}
	d.start()
	return d, nil
}

// diskUSD is what a GB of disk costs for a month of 730 hours while its pod runs,
// beside the price that the API tells: https://docs.runpod.io/pods/pricing
const diskUSD = 0.10

// diskPrice is what the pod's disks cost in an hour. It stands in what a ledger
// says of a pod, so that a budget is never less than the bill.
func (b *Backend) diskPrice() float64 {
	gb := b.Disk
	if b.Volume != nil {
		gb += b.Volume.Size
	}
	return float64(gb) * diskUSD / 730
}

// settling is a context for giving back what ctx has no time for any more.
func (b *Backend) settling(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.WithoutCancel(ctx), b.Patience+30*time.Second, errors.New("the pod was not seen to be gone in time"))
}

// errLost is a create of which nothing is to be seen.
var errLost = errors.New("no pod came of it")

// rent creates one pod and returns it, with findings about pods that should not
// have come of it as well.
func (b *Backend) rent(ctx context.Context, spec backends.Spec, r runpodapi.CreateRequest, price float64, l backends.Ledger) (runpodapi.Pod, []string, error) {
	intent := backends.Arrow{
		Pod: spec.Pod, State: backends.Intended, Kind: Kind, Name: r.Name, At: b.at(), Expires: &spec.Expires, USDPerHour: price,
	}
	if err := l.Record(ctx, intent); err != nil {
		return runpodapi.Pod{}, nil, fmt.Errorf("intent of pod %s: %w", spec.Pod, err)
	}
	nothing := func(err error) (runpodapi.Pod, []string, error) {
		gone := l.Record(context.WithoutCancel(ctx), backends.Arrow{Pod: spec.Pod, State: backends.Gone})
		return runpodapi.Pod{}, nil, errors.Join(err, gone)
	}
	if ctx.Err() != nil {
		return nothing(context.Cause(ctx))
	}
	if err := l.Record(ctx, backends.Arrow{Pod: spec.Pod, State: backends.Sent}); err != nil {
		return nothing(fmt.Errorf("record of pod %s: %w", spec.Pod, err))
	}
	p, err := b.client.Create(ctx, r, b.Patience)
	switch {
	case err == nil:
		return p, nil, nil
	case runpodapi.Certain(err):
		return nothing(err)
	case ctx.Err() != nil:
		// The caller looks for it, with more patience than we have left.
		return runpodapi.Pod{}, nil, fmt.Errorf("%w; whether pod %s was created is not known: %w", context.Cause(ctx), r.Name, err)
	}
	found, lookErr := b.look(ctx, r.Name)
	switch {
	case lookErr != nil:
		return runpodapi.Pod{}, nil, fmt.Errorf("whether pod %s was created is not known: %w", r.Name, errors.Join(err, lookErr))
	case len(found) == 0:
		b.retire(r.Name, "")
		return nothing(fmt.Errorf("%w within %v: %w", errLost, b.Patience, err))
	}
	twins, discardErr := b.discard(ctx, found[1:])
	if discardErr != nil {
		return runpodapi.Pod{}, nil, fmt.Errorf("pod %s was created more than once: %w", r.Name, discardErr)
	}
	return found[0], twins, nil
}

// retire notes that no pod may have this name any more: [deployment.discard]
// deletes each that does. An old list may still have the pod id, which is gone.
func (b *Backend) retire(name, id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.retired[name] = id
}

// look searches the account for a name until something has it or the patience
// is over. It returns all living pods that have it, the best one first.
func (b *Backend) look(ctx context.Context, name string) ([]runpodapi.Pod, error) {
	deadline := time.Now().Add(b.Patience)
	for try := 0; ; try++ {
		seen, err := b.account.After(ctx, time.Now())
		if err != nil && !runpodapi.Transient(err) {
			return nil, err
		}
		if found := named(seen.Pods, name); len(found) > 0 {
			return found, nil
		}
		if time.Now().After(deadline) {
			return nil, err // an account that could not be read has proven nothing
		}
		if err := runpodapi.Sleep(ctx, min(runpodapi.Backoff(try), runpodapi.Jitter(b.Poll))); err != nil {
			return nil, err
		}
	}
}

// named are the living pods with a name, those that run first.
func named(pods []runpodapi.Pod, name string) []runpodapi.Pod {
	var found []runpodapi.Pod
	for _, p := range pods {
		if p.Name == name && p.Alive() {
			found = append(found, p)
		}
	}
	slices.SortStableFunc(found, func(a, b runpodapi.Pod) int { return rank(a) - rank(b) })
	return found
}

func rank(p runpodapi.Pod) int {
	switch p.Status {
	case runpodapi.StatusRunning:
		return 0
	case runpodapi.StatusExited, runpodapi.StatusError:
		return 2
	}
	return 1
}

// discard deletes pods that one create has made too many of.
func (b *Backend) discard(ctx context.Context, pods []runpodapi.Pod) (findings []string, err error) {
	if len(pods) == 0 {
		return nil, nil
	}
	for _, p := range pods {
		findings = append(findings, fmt.Sprintf("one create made pod %s as well, which was deleted", p.ID))
	}
	return findings, b.end(ctx, termination{ids: idsOf(pods), price: pods[0].Cost})
}
