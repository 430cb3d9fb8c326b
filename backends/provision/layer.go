package provision

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"sweep.dev/sweep/backends"
)

// A Layer is the part of a backend that is the same for every provider.
type Layer struct {
	Settings
	provider Provider
}

var (
	_ backends.Backend = (*Layer)(nil)
	_ backends.Checker = (*Layer)(nil)
	_ backends.Adopter = (*Layer)(nil)
)

// New makes the layer over a provider.
func New(s Settings, p Provider) *Layer { return &Layer{Settings: s, provider: p} }

// place returns what finds the provider again.
func (l *Layer) place() map[string]string {
	if l.At == nil {
		return nil
	}
	return l.At()
}

// Launch implements [backends.Backend].
func (l *Layer) Launch(ctx context.Context, spec backends.Spec, ledger backends.Ledger) (backends.Deployment, error) {
	if err := l.check(spec); err != nil {
		return nil, err
	}
	if spec.RunID == "" || spec.Pod == "" || spec.Owner == "" {
		return nil, fmt.Errorf("%w: a pod needs an owner, a run and a name", backends.ErrSpec)
	}
	if spec.Expires.IsZero() && !l.OneLife {
		spec.Expires = time.Now().Add(defaultLife)
	}
	if !spec.Expires.IsZero() && time.Until(spec.Expires) < time.Second {
		return nil, fmt.Errorf("%w: pod %s would expire at %v, before it starts", backends.ErrSpec, spec.Pod, spec.Expires)
	}
	for try := 1; ; try++ {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		d, err := l.launch(ctx, spec, ledger)
		if err == nil {
			return d.seen(), nil
		}
		if !errors.Is(err, ErrTaken) || errors.Is(err, ErrOwed) || try == maxLaunches {
			return nil, err
		}
	}
}

// launch starts a deployment under a new name.
func (l *Layer) launch(ctx context.Context, spec backends.Spec, ledger backends.Ledger) (_ *deployment, err error) {
	expires := spec.Expires
	if expires.IsZero() { // a name has one
		expires = time.Now().Add(defaultLife)
	}
	pod := backends.NewName(spec.Owner, spec.RunID, expires)
	a, err := l.allocate(ctx, spec, pod)
	if err != nil {
		return nil, err
	}
	d := l.newDeployment(spec, pod, a)
	defer func() {
		if err != nil {
			d.LetGo()
		}
	}()
	for _, u := range a.Units { // a mistake in any of them is found before the first is made
		if err := l.renderUnit(u); err != nil {
			return nil, err
		}
	}
	o := &owing{layer: l, ledger: ledger, d: d}
	if err := o.begin(ctx); err != nil {
		return nil, err
	}
	if err := l.bringUp(ctx, o); err != nil {
		return nil, errors.Join(err, o.release(ctx))
	}
	return d, nil
}

// allocate asks the provider and fills in what it need not know.
func (l *Layer) allocate(ctx context.Context, spec backends.Spec, pod backends.Name) (Allocation, error) {
	a, err := l.provider.Allocate(ctx, spec, pod)
	if err != nil {
		return a, err
	}
	key, marks := newToken(), backends.Marks(spec)
	for i, u := range a.Units {
		u.Spec, u.Pod, u.Marks, u.Token, u.key = spec, pod, marks, newToken(), key
		u.Name = unitName(pod, i == 0, u.Replicas[0])
	}
	connect(a.Units)
	return a, nil
}

// PerReplica divides a spec into one unit for each replica, in the order of the
// roles. Each has its name; where its replica will be is the caller's to say.
func PerReplica(spec backends.Spec, pod backends.Name) (units []*Unit) {
	for _, role := range spec.Roles {
		for n := range role.Replicas {
			r := &Replica{Role: role, Place: Place{Address: backends.Address{Replica: n}}}
			units = append(units, &Unit{Name: unitName(pod, len(units) == 0, r), Replicas: []*Replica{r}})
		}
	}
	return units
}

// unitName returns what a unit is called: the first one of a deployment by its name, any
// other also by the first of its replicas.
func unitName(pod backends.Name, first bool, r *Replica) string {
	if first {
		return pod.String()
	}
	return fmt.Sprintf("%s.%s.%d", pod, r.Role.Name, r.Place.Replica)
}

func (l *Layer) renderUnit(u *Unit) error {
	for _, r := range u.Replicas {
		if err := l.render(u, r); err != nil {
			return fmt.Errorf("%s: %w", r.Name(), err)
		}
	}
	if l.Bootstrap && len(u.Replicas) > 1 {
		if err := l.several(u); err != nil {
			return err
		}
	}
	return l.refuse(u)
}

// refuse asks the provider about a rendered unit.
func (l *Layer) refuse(u *Unit) error {
	if r, ok := l.provider.(Refuser); ok {
		if err := r.Refuse(u); err != nil {
			return fmt.Errorf("%s: %w", u.Replicas[0].Name(), err)
		}
	}
	return nil
}

// bringUp makes the group and the units, and waits for each role before the next.
func (l *Layer) bringUp(ctx context.Context, o *owing) error {
	d := o.d
	if g, ok := l.provider.(Grouper); ok {
		d.grouped = true
		if err := g.Group(ctx, d.pod.String(), d.units()); err != nil {
			return fmt.Errorf("what the servers of %s share: %w", d.spec.Pod, err)
		}
	}
	for i, m := range d.members {
		if ctx.Err() != nil { // since the role before it was up
			return context.Cause(ctx)
		}
		if err := o.make(ctx, m); err != nil {
			return fmt.Errorf("%s: %w", m.unit.Replicas[0].Name(), err)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := d.attach(ctx, m); err != nil {
			return fmt.Errorf("%s: %w", m.unit.Replicas[0].Name(), err)
		}
		for _, role := range d.spec.Roles {
			if err := d.stage(ctx, m, role.Name); err != nil {
				return fmt.Errorf("%s: %w", role.Name, err)
			}
			if d.lastUnitOf(role.Name) == i {
				if err := role.AwaitStarted(ctx, d); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// stage starts the replicas of a role in a unit that has not started them.
func (d *deployment) stage(ctx context.Context, m *member, role string) error {
	stager, ok := m.remote.(Stager)
	if !ok {
		return nil
	}
	up, stop := backends.WhileUp(ctx, d)
	defer stop()
	for n, r := range m.unit.Replicas {
		if r.Role.Name != role {
			continue
		}
		err := stager.StartReplica(up, n)
		if ended := d.Err(); ended != nil {
			return ended
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// List implements [backends.Backend]: each deployment goes by its first unit.
func (l *Layer) List(ctx context.Context, owner string) ([]backends.Listed, error) {
	all, err := l.provider.Find(ctx, "")
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, byUnit)
	var pods []backends.Listed
	var last backends.Name
	for _, i := range all {
		name, ok := i.pod()
		if !ok || owner != "" && i.owner(name) != owner && i.owner(name) != backends.OwnerTag(owner) ||
			name == last {
			continue
		}
		last = name
		expires := i.Expires
		if expires.IsZero() && !l.OneLife {
			expires = name.Expires
		}
		ref := l.ref(i, name)
		if l.OneLife {
			ref.Name = "" // a person says the run and the pod, which the ID is
		}
		pods = append(pods, backends.Listed{
			Ref: ref, Owner: i.owner(name), Status: i.Status, GPU: i.GPU,
			Since: i.Since, Expires: expires, USDPerHour: i.USDPerHour,
		})
	}
	return pods, nil
}

// byUnit puts the units of a deployment side by side, the first one first.
func byUnit(a, b Instance) int {
	x, _ := a.pod()
	y, _ := b.pod()
	return cmp.Or(cmp.Compare(x.String(), y.String()), cmp.Compare(len(a.Unit), len(b.Unit)), cmp.Compare(a.Unit, b.Unit))
}

// pod returns the deployment's name, if the unit provably is one of sweep's: a name
// that only sweep makes, and marks that do not contradict it.
func (i Instance) pod() (backends.Name, bool) {
	name, ok := podOf(cmp.Or(i.Pod, i.Unit))
	if owner := i.Marks[backends.MarkOwner]; ok && owner != "" {
		ok = backends.OwnerTag(owner) == name.Owner
	}
	if run := i.Marks[backends.MarkRun]; ok && run != "" {
		ok = backends.RunTag(run) == name.Run
	}
	return name, ok
}

// podOf returns the deployment's name in that of a unit.
func podOf(unit string) (backends.Name, bool) {
	for n, c := range unit {
		if c == '.' {
			unit = unit[:n]
			break
		}
	}
	return backends.ParseName(unit)
}

// owner returns whose an instance is: in full where the marks say it, else its tag.
func (i Instance) owner(name backends.Name) string {
	return cmp.Or(i.Marks[backends.MarkOwner], name.Owner)
}

// ref names the deployment of an instance.
func (l *Layer) ref(i Instance, name backends.Name) backends.Ref {
	details := map[string]string{}
	maps.Copy(details, l.place())
	maps.Copy(details, i.Details)
	if i.Grace > 0 {
		details[detailGrace] = i.Grace.String()
	}
	return backends.Ref{
		Kind: l.Kind, RunID: cmp.Or(i.Marks[backends.MarkRun], name.Run), Pod: i.Marks[backends.MarkPod],
		ID: i.ID, Name: name.String(), Details: details,
	}
}

const detailGrace = "grace"

// Mine refuses a ref that names nothing of this provider: absence here would
// prove nothing.
func (l *Layer) Mine(ref backends.Ref) error {
	switch {
	case ref.Kind != l.Kind:
		return fmt.Errorf("pod %s is of backend %s, not %s: %w", ref.Pod, ref.Kind, l.Kind, backends.ErrNotFound)
	case ref.ID == "" && ref.Name == "":
		return fmt.Errorf("ref of pod %s names nothing: %w", ref.Pod, backends.ErrNotFound)
	}
	for key, here := range l.place() {
		if there := ref.Details[key]; there != "" && there != here {
			return fmt.Errorf("pod %s is at another place than this backend's: its %s is %s, and this one is %s%s", ref.Pod, key, there, here, l.Elsewhere)
		}
	}
	return nil
}

// Instances returns the units of a ref that exist, the first one first: by its name, or
// by its ID if it has none.
func (l *Layer) Instances(ctx context.Context, ref backends.Ref) ([]Instance, error) {
	if err := l.Mine(ref); err != nil {
		return nil, err
	}
	all, err := l.provider.Find(ctx, ref.Name)
	if err != nil {
		return nil, fmt.Errorf("pod %s: %w", ref.Pod, err)
	}
	var found []Instance
	for _, i := range all {
		name, ok := i.pod()
		if ok && (name.String() == ref.Name || ref.Name == "" && i.ID == ref.ID) {
			found = append(found, i)
		}
	}
	slices.SortFunc(found, byUnit)
	return found, nil
}

// Terminate implements [backends.Backend].
func (l *Layer) Terminate(ctx context.Context, ref backends.Ref) error {
	if err := l.Mine(ref); err != nil {
		return err
	}
	release, err := l.hold(ctx, ref.Name)
	if err != nil {
		return fmt.Errorf("pod %s: %w", ref.Pod, err)
	}
	defer release()
	// A create that was cut short may still be on its way: of the first unit where the
	// ref has no id, and of one that it names without an id.
	f, forbids := l.provider.(Forbidder)
	onWay := ref.ID == "" || slices.Contains(slices.Collect(maps.Values(ref.Units)), "")
	if forbids && onWay {
		if err := f.Forbid(ctx, ref.Name); err != nil {
			return fmt.Errorf("pod %s: %w", ref.Pod, err)
		}
	}
	found, err := l.Instances(ctx, ref)
	if err != nil {
		return err
	}
	if onWay && !forbids {
		late, err := l.late(ctx, ref, found)
		if err != nil {
			return fmt.Errorf("pod %s: %w", ref.Pod, err)
		}
		found = append(found, late...)
	}
	// The units that the ref names and no list has: a unit is gone if it is seen to be gone.
	named := map[string]string{ref.Name: ref.ID}
	maps.Copy(named, ref.Units)
	for _, unit := range slices.Sorted(maps.Keys(named)) {
		if id := named[unit]; id != "" && !slices.ContainsFunc(found, func(i Instance) bool { return i.ID == id }) {
			found = append(found, Instance{ID: id, Unit: unit, Details: ref.Details})
		}
	}
	grace, _ := time.ParseDuration(ref.Details[detailGrace]) // 0 if it is not known
	for n := range found {
		found[n].Grace = max(found[n].Grace, grace)
	}
	if err := l.delete(ctx, ref.Name, found, nil); err != nil {
		return fmt.Errorf("pod %s: %w", ref.Pod, err)
	}
	return nil
}

// late waits for what of a ref may be on its way and is not found.
func (l *Layer) late(ctx context.Context, ref backends.Ref, found []Instance) ([]Instance, error) {
	if l.Late <= 0 {
		return nil, nil
	}
	if ref.ID == "" && len(found) == 0 {
		return l.await(ctx, ref.Name, "", l.Late)
	}
	for unit, id := range ref.Units { // one at most
		if id == "" && !slices.ContainsFunc(found, func(i Instance) bool { return i.Unit == unit }) {
			return l.await(ctx, ref.Name, unit, l.Late)
		}
	}
	return nil, nil
}

// hold keeps open what calls about a deployment share.
func (l *Layer) hold(ctx context.Context, pod string) (release func(), err error) {
	if h, ok := l.provider.(Holder); ok {
		return h.Hold(ctx, pod)
	}
	return func() {}, nil
}

// delete ends instances at once, then what they shared. ended may be nil.
func (l *Layer) delete(ctx context.Context, pod string, all []Instance, ended func(context.Context, Instance)) error {
	err := Each(all, func(i Instance) error {
		var last func(context.Context)
		if ended != nil {
			last = func(ctx context.Context) { ended(ctx, i) }
		}
		return l.provider.Delete(ctx, i, i.Grace, last)
	})
	if g, ok := l.provider.(Grouper); ok && err == nil && pod != "" {
		err = g.Ungroup(ctx, pod)
	}
	return err
}

// await looks for the units of a name, or for one of them, until there is one or
// the patience is over. None is no error; not to know is one.
func (l *Layer) await(ctx context.Context, pod, unit string, patience time.Duration) ([]Instance, error) {
	for end, pause := time.Now().Add(patience), lookEvery; ; pause = min(2*pause, slowLook) {
		found, err := l.provider.Find(ctx, pod)
		found = slices.DeleteFunc(found, func(i Instance) bool { return unit != "" && i.Unit != unit })
		left := time.Until(end)
		if len(found) > 0 || left <= 0 || errors.Is(err, backends.ErrRefused) {
			return found, err
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), err)
		case <-time.After(min(pause, left)): // the last look is at the end of the patience
		}
	}
}
