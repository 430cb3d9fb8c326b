package provision

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/bootstrap"
	"sweep.dev/sweep/backends/ending"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
)

// A deployment is the units of one launch.
type deployment struct {
	layer   *Layer
	spec    backends.Spec
	pod     backends.Name
	members []*member         // in the order in which they are made
	grouped bool              // there may be a group
	moved   bool              // an address became known only when its unit ran
	where   map[string]string // see Allocation.At
	release func()            // what Allocate holds; see Allocation.Close
	clients backends.ClientHost
	keep    func(ctx context.Context, until time.Time) error // see Allocation
	quoted  float64                                          // USD per hour; see Allocation
	storage float64
	once    sync.Once

	*ending.Ending

	mu    sync.Mutex // guards terms
	terms backends.Terms
}

// A member is one unit of a deployment, and those who watch it.
type member struct {
	unit     *Unit
	instance Instance // ID is "" before it exists
	remote   Remote   // nil before it is attached

	cancel   context.CancelFunc
	watchers sync.WaitGroup
	followed []chan struct{} // each closed when a replica's log is complete
}

var (
	_ backends.Deployment = (*deployment)(nil)
	_ backends.Rental     = (*deployment)(nil)
	_ backends.Keeper     = (*deployment)(nil)
	_ backends.Server     = (*deployment)(nil)
)

func (l *Layer) newDeployment(spec backends.Spec, pod backends.Name, a Allocation) *deployment {
	d := &deployment{
		layer: l, spec: spec, pod: pod, where: a.At, release: a.Close, clients: a.Clients, keep: a.Keep, Ending: ending.New(),
		quoted: a.USDPerHour, storage: a.StorageUSDPerHour,
	}
	for _, u := range a.Units {
		d.members = append(d.members, &member{unit: u})
	}
	return d
}

// hosting is a deployment that can run clients where its servers run.
type hosting struct {
	*deployment
	backends.ClientHost
}

// seen returns the deployment as others see it.
func (d *deployment) seen() backends.Deployment {
	if d.clients == nil {
		return d
	}
	return hosting{d, d.clients}
}

// at returns what finds the deployment again, beside its name.
func (d *deployment) at() map[string]string {
	at := map[string]string{}
	maps.Copy(at, d.layer.place())
	maps.Copy(at, d.where)
	return at
}

func (d *deployment) units() []*Unit {
	units := make([]*Unit, len(d.members))
	for i, m := range d.members {
		units[i] = m.unit
	}
	return units
}

// lastUnitOf returns the number of the last unit that has a replica of a role.
func (d *deployment) lastUnitOf(role string) int {
	last := -1
	for i, m := range d.members {
		if slices.ContainsFunc(m.unit.Replicas, func(r *Replica) bool { return r.Role.Name == role }) {
			last = i
		}
	}
	return last
}

// learn takes over what a provider says of a unit that it has just made, or that
// is adopted.
func (d *deployment) learn(m *member) {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := m.instance
	if d.terms.Ref.ID == "" {
		details := d.at()
		maps.Copy(details, i.Details)
		details[detailGrace] = d.spec.Grace.String()
		d.terms.Ref = backends.Ref{Kind: d.layer.Kind, RunID: d.spec.RunID, Pod: d.spec.Pod, ID: i.ID, Name: d.pod.String(), Details: details}
		d.terms.Since = i.Since
		if i.Since.IsZero() {
			d.terms.Since = time.Now().UTC()
		}
		d.terms.GPU, d.terms.ImageDigest = i.GPU, i.ImageDigest
	}
	if len(d.members) > 1 {
		units := maps.Clone(d.terms.Ref.Units) // what was given away stays as it was
		if units == nil {
			units = map[string]string{}
		}
		units[i.Unit] = i.ID
		// Written before the next unit is created, so that a crash finds it.
		if next := d.next(); next != nil {
			units[next.unit.Name] = ""
		}
		d.terms.Ref.Units = units
	}
	d.terms.USDPerHour += i.USDPerHour
}

// next returns the first member that is not made; nil if all are.
func (d *deployment) next() *member {
	for _, m := range d.members {
		if m.instance.ID == "" {
			return m
		}
	}
	return nil
}

// price returns what the deployment costs an hour: as quoted, until all of it is made.
func (d *deployment) price() float64 {
	price := d.Terms().USDPerHour
	if d.next() != nil {
		price = max(price, d.quoted)
	}
	return price + d.storage
}

// attach begins to look after a unit that has just been started.
func (d *deployment) attach(ctx context.Context, m *member) error {
	before := m.unit.hosts()
	remote, err := d.layer.provider.Attach(ctx, m.instance, m.unit)
	if err != nil {
		return err
	}
	if !slices.Equal(before, m.unit.hosts()) {
		d.moved = true
		connect(d.units())
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	m.remote, m.cancel = remote, cancel
	for n, r := range m.unit.Replicas {
		log := d.create(r)
		done := make(chan struct{})
		m.followed = append(m.followed, done)
		m.watchers.Go(func() {
			defer close(done)
			d.follow(life, m, n, log)
		})
		if m.speaks(n) && d.layer.Heartbeat > 0 {
			m.watchers.Go(func() { d.beat(life, d.agent(m, n)) })
		}
	}
	return nil
}

// hosts returns where the replicas of a unit are.
func (u *Unit) hosts() []string {
	var hosts []string
	for _, r := range u.Replicas {
		hosts = append(hosts, r.Place.Host)
	}
	return hosts
}

// create makes the file for a replica's log; nil if none is wanted, or if that fails,
// which the rows say.
func (d *deployment) create(r *Replica) *effect.File {
	if r.Role.LogPath == nil || d.layer.LogsInPlace {
		return nil
	}
	log, err := d.layer.Effects.Create(effect.LogCreate, r.Role.LogPath(r.Place.Replica))
	if err != nil {
		d.unlogged(err)
		return nil
	}
	return log
}

// unlogged notes a log that cannot be written: that must not end a run.
func (d *deployment) unlogged(err error) {
	d.note(result.Finding{Code: finding.LogNotWritten, Text: "the server's log could not be written: " + err.Error()})
}

// speaks reports whether a replica has an agent that none before it in its unit has.
func (m *member) speaks(n int) bool {
	agent := m.unit.Replicas[n].Place.Agent
	return agent != 0 && !slices.ContainsFunc(m.unit.Replicas[:n], func(r *Replica) bool { return r.Place.Agent == agent })
}

// agent returns our end of the talk with a replica's bootstrap.
func (d *deployment) agent(m *member, n int) *bootstrap.Agent {
	base := "http://" + backends.Address{Host: "127.0.0.1", Port: m.unit.Replicas[n].Place.Agent}.String()
	if proxied, ok := m.remote.(Proxied); ok {
		base = cmp.Or(proxied.AgentURL(n), base)
	}
	return bootstrap.NewAgent(m.remote.Host(n).Dial, base, m.unit.Token)
}

// lostBeats is how many signs of life in a row have to get lost before it is said.
const lostBeats = 3

// beat tells a unit that we are there, until ctx ends. A beat that gets lost is
// made up for by the next.
func (d *deployment) beat(ctx context.Context, agent *bootstrap.Agent) {
	lost := 0
	bootstrap.Keepalive(ctx, min(d.layer.Heartbeat/4, longestBeat), func(ctx context.Context) error {
		err := d.layer.Effects.Call(ctx, effect.AgentBeat, agent.Beat)
		if err == nil {
			lost = 0
		}
		return err
	}, func(error) {
		if lost++; lost == lostBeats {
			d.note(result.Finding{Code: finding.NoHeartbeat, Text: "the agent beside the server does not answer: without sweep, only the expiry time ends the server"})
		}
	})
}

// note adds a finding for the rows, once.
func (d *deployment) note(f result.Finding) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Contains(d.terms.Findings, f) {
		d.terms.Findings = append(d.terms.Findings, f)
	}
}

// Host implements [backends.Deployment].
func (d *deployment) Host(role string, replica int) host.Host {
	for _, m := range d.members {
		for n, r := range m.unit.Replicas {
			if r.Role.Name == role && r.Place.Replica == replica && m.remote != nil {
				return m.remote.Host(n)
			}
		}
	}
	panic(fmt.Sprintf("%s: no replica %d of role %q", d.layer.Kind, replica, role))
}

// Terms implements [backends.Rental].
func (d *deployment) Terms() backends.Terms {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.terms
	t.Findings = slices.Clone(t.Findings)
	for _, m := range d.members {
		if updater, ok := m.remote.(TermsUpdater); ok {
			updater.UpdateTerms(&t)
		}
	}
	return t
}

// Authorize implements [backends.Server].
func (d *deployment) Authorize(h backends.Header) {
	if !d.layer.Keyed {
		return
	}
	for _, m := range d.members {
		if !m.unit.key.IsZero() && slices.ContainsFunc(m.unit.Replicas, func(r *Replica) bool { return r.Role.KeyEnv != "" }) {
			h.Set("Authorization", "Bearer "+m.unit.key.Reveal())
			return
		}
	}
}

// Keep implements [backends.Keeper]. A unit without an agent cannot be told when
// to end: it can only be kept until it ends anyway.
func (d *deployment) Keep(ctx context.Context, until time.Time) error {
	err := d.KeepWith(ctx, func() error {
		if until.After(d.pod.Expires.Add(time.Second)) {
			return fmt.Errorf("%w: it ends itself at %s", backends.ErrSpec, d.pod.Expires.Format(time.RFC3339))
		}
		if err := d.extendAgents(ctx, until); err != nil {
			return err
		}
		d.LetGo()
		return nil
	})
	if err != nil {
		return fmt.Errorf("keep pod %s: %w", d.spec.Pod, err)
	}
	return nil
}

// extendAgents tells every agent how long no heartbeat is needed; to the group, where that ends
// the units.
func (d *deployment) extendAgents(ctx context.Context, until time.Time) error {
	if d.keep != nil {
		return d.keep(ctx, until)
	}
	for _, m := range d.members {
		for n, r := range m.unit.Replicas {
			if r.Place.Agent == 0 {
				if until.IsZero() || d.layer.Bootstrap && !until.Before(d.pod.Expires.Add(-time.Minute)) {
					continue
				}
				return fmt.Errorf("only %s has the old expiry time: it runs until %s or until it is stopped: %w",
					r.Name(), d.pod.Expires.Format(time.RFC3339), host.ErrNotSupported)
			}
			if !m.speaks(n) {
				continue
			}
			keep := func(ctx context.Context) error { return d.agent(m, n).Keep(ctx, until) }
			if err := d.layer.Effects.Call(ctx, effect.AgentEnd, keep); err != nil {
				return err
			}
		}
	}
	return nil
}

// Stop implements [backends.Deployment].
func (d *deployment) Stop(ctx context.Context) error {
	err := d.StopWith(ctx, func() error { return d.end(ctx) })
	if err != nil {
		return fmt.Errorf("pod %s: %w", d.spec.Pod, err)
	}
	return nil
}

// logPatience is how long the last lines of a server that has ended are waited for.
const logPatience = 5 * time.Second

// end deletes all units, then what they shared, and returns when all is seen to
// be gone. Logs are copied to their end first.
func (d *deployment) end(ctx context.Context) error {
	d.Ask()
	var made []Instance
	for _, m := range d.members {
		if m.instance.ID != "" {
			made = append(made, m.instance)
		}
	}
	pod := ""
	if d.grouped {
		pod = d.pod.String()
	}
	err := d.layer.delete(ctx, pod, made, d.lastWords)
	d.LetGo() // also of what could not be ended: no sign of life of ours keeps it
	return err
}

// lastWords waits until the logs of a unit that has ended are complete.
func (d *deployment) lastWords(ctx context.Context, i Instance) {
	ctx, cancel := context.WithTimeout(ctx, logPatience)
	defer cancel()
	for _, m := range d.members {
		if m.unit.Name != i.Unit {
			continue
		}
		for _, done := range m.followed {
			select {
			case <-done:
			case <-ctx.Done():
			}
		}
	}
}

// LetGo ends everybody here who watches, and gives back what Allocate holds. The
// units go on.
func (d *deployment) LetGo() {
	d.Ask()
	d.once.Do(func() {
		for _, m := range d.members {
			if m.cancel != nil {
				m.cancel()
			}
		}
		for _, m := range d.members {
			m.watchers.Wait()
			if m.remote != nil {
				m.remote.Close()
			}
		}
		if d.release != nil {
			d.release()
		}
	})
}

// Each calls f for every item at once and joins what they return. A panic of one
// is one of the caller, who can still end the others.
func Each[T any](items []T, f func(T) error) error {
	errs, panics := make([]error, len(items)), make([]any, len(items))
	var all sync.WaitGroup
	for i, item := range items {
		all.Go(func() {
			defer func() { panics[i] = recover() }()
			errs[i] = f(item)
		})
	}
	all.Wait()
	for _, v := range panics {
		if v != nil {
			panic(v)
		}
	}
	return errors.Join(errs...)
}
