// Package rented lists rented pods: those that the providers of this environment's
// credentials list, and those in the ledger of this machine. It decides which were
// left behind, and stops, starts and terminates pods. It prints nothing.
package rented

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/rundir"
	"sweep.dev/sweep/rundir/podledger"
)

// Sources are where to look for what is rented.
type Sources struct {
	Backends []backends.Factory // every backend there is
	Env      func(string) (string, bool)
	Effects  *effect.Effects
}

// An Inventory is everything that is known to be rented.
type Inventory struct {
	Providers []*Provider // in the order of their backends
	Pods      []Pod       // the oldest first
	Damaged   error       // why the ledger could not be read, or not all of it

	ledger *podledger.Ledger // nil if it cannot be opened
}

// Take looks at everything that is rented: it asks every provider of the kinds
// at once, then reads the ledger, then looks which runs are at work. In this
// order a pod that is listed and whose run is seen not to be at work was left
// behind. Without kinds it asks all. The error is that of a kind that does not
// exist, or whose pods do not outlive sweep.
func (s Sources) Take(ctx context.Context, kinds []string) (*Inventory, error) {
	factories, err := s.outliving(kinds)
	if err != nil {
		return nil, err
	}
	inv := &Inventory{}
	entries := inv.open(s)
	for _, f := range factories {
		inv.Providers = append(inv.Providers, providersOf(f, entries, s.Env)...)
	}
	inv.ask(ctx)
	if inv.ledger != nil { // again: it may have changed while they were asked
		entries, inv.Damaged = inv.ledger.Entries()
	}
	inv.join(entries, func(kind string) bool {
		return slices.ContainsFunc(factories, func(f backends.Factory) bool { return f.Kind == kind })
	})
	return inv, nil
}

// outliving returns the backends whose pods outlive us: those of the kinds, or all.
func (s Sources) outliving(kinds []string) ([]backends.Factory, error) {
	var list []backends.Factory
	var known []string
	for _, f := range s.Backends {
		if f.Outlives {
			known = append(known, f.Kind)
			if len(kinds) == 0 || slices.Contains(kinds, f.Kind) {
				list = append(list, f)
			}
		}
	}
	for _, kind := range kinds {
		if !slices.Contains(known, kind) {
			return nil, fmt.Errorf("--backend %s: want a backend whose pods outlive sweep: %s", kind, strings.Join(known, ", "))
		}
	}
	return list, nil
}

// AddLocal adds the servers of runs that are at work on this machine. They end with
// their runs and need no termination, so only a caller that wants to reach one asks
// for them.
func (s Sources) AddLocal(ctx context.Context, inv *Inventory) {
	for _, f := range s.Backends {
		if f.Outlives || f.Default == nil {
			continue
		}
		p := &Provider{Factory: f}
		if p.backend, p.Err = f.Default(s.Env); p.Err == nil {
			p.listed, p.Err = p.backend.List(ctx, "")
		}
		for _, l := range p.listed {
			inv.Pods = append(inv.Pods, Pod{Listed: l, AtProvider: true, By: p, Run: RunLive})
		}
	}
}

// open reads the ledger of this machine. A missing ledger does not stop a clean-up:
// the names at the providers say enough.
func (inv *Inventory) open(s Sources) (entries []podledger.Entry) {
	if inv.ledger, inv.Damaged = OpenLedger(s.Effects, s.Env); inv.Damaged == nil {
		entries, inv.Damaged = inv.ledger.Entries()
	}
	return entries
}

// ask lists every provider, all at once.
func (inv *Inventory) ask(ctx context.Context) {
	var all sync.WaitGroup
	for _, p := range inv.Providers {
		if p.Err == nil {
			all.Go(func() { p.list(ctx) })
		}
	}
	all.Wait()
}

// join makes one list of both sides. A name is given once; what shares it, as
// if a provider has made two pods of one request, shares its entry and its
// fate. If a provider is asked at two addresses it lists the same pod twice.
func (inv *Inventory) join(entries []podledger.Entry, wanted func(kind string) bool) {
	byName := map[string][]int{}
	for _, p := range inv.Providers {
		for _, l := range p.listed {
			key := l.Kind + " " + l.Name
			if slices.ContainsFunc(byName[key], func(i int) bool { return inv.Pods[i].ID == l.ID }) {
				continue
			}
			byName[key] = append(byName[key], len(inv.Pods))
			inv.Pods = append(inv.Pods, Pod{Listed: l, AtProvider: true, By: p})
		}
	}
	for _, e := range entries {
		if !wanted(e.Kind) {
			continue
		}
		run, holder := seen(e)
		same := byName[e.Kind+" "+e.Name]
		for _, i := range same {
			p := &inv.Pods[i]
			p.Entry, p.Run, p.Holder = &e, run, holder
			p.Pod, p.USDPerHour = cmp.Or(p.Pod, e.Pod), cmp.Or(p.USDPerHour, e.USDPerHour)
			if p.Since.IsZero() {
				p.Since = e.Since
			}
		}
		if len(same) == 0 {
			l := backends.Listed{Ref: e.Find(), Owner: e.Owner, Since: e.Since, USDPerHour: e.USDPerHour}
			l.Name = e.Name
			inv.Pods = append(inv.Pods, Pod{Listed: l, Entry: &e, Run: run, Holder: holder, By: inv.at(e)})
		}
	}
	slices.SortStableFunc(inv.Pods, func(a, b Pod) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Name, b.Name))
	})
}

// at returns the provider that an entry of the ledger is of, if it could be asked:
// the one at the same place, else the environment's, which refuses a pod that it
// knows to be elsewhere.
func (inv *Inventory) at(e podledger.Entry) *Provider {
	var best *Provider
	for _, p := range inv.Providers {
		if p.Factory.Kind != e.Kind || p.backend == nil {
			continue
		}
		if p.isAt(e) {
			return p
		}
		if best == nil && p.at == nil {
			best = p
		}
	}
	return best
}

// seen returns what this machine knows of the run that an entry is for. The run is over
// only if its directory still holds that run and is not locked: a directory that is
// gone may have been removed under it.
func seen(e podledger.Entry) (run RunSeen, holder string) {
	if e.Dir == "" {
		return RunUnseen, ""
	}
	if _, err := os.Stat(filepath.Join(e.Dir, layout.Journal)); err != nil {
		return RunUnseen, ""
	}
	h, err := rundir.LockHolder(e.Dir)
	switch {
	case err != nil:
		return RunUnseen, ""
	case h != nil:
		return RunLive, fmt.Sprintf(" as process %d on %s", h.PID, plaintext.Line(h.Host))
	}
	st, err := rundir.Read(e.Dir)
	if err != nil || st.Manifest.RunID != e.RunID {
		return RunUnseen, ""
	}
	return RunEnded, ""
}

// LedgerDir returns the folder of the ledger; "" if it cannot be opened.
func (inv *Inventory) LedgerDir() string {
	if inv.ledger == nil {
		return ""
	}
	return inv.ledger.Dir()
}

// Refused returns the error of the providers that do not take the credentials.
func (inv *Inventory) Refused() error {
	var errs []error
	for _, p := range inv.Providers {
		if errors.Is(p.Err, backends.ErrRefused) {
			errs = append(errs, p.Err)
		}
	}
	return errors.Join(errs...)
}

// Silent names the accounts that did not answer, though there are credentials for
// them; "" for none. One that refuses them has answered. A Docker that does not run here is none of them: what the
// ledger owes of it is in the list.
func (inv *Inventory) Silent() string {
	var list []string
	for _, p := range inv.Providers {
		if p.Factory.Bills && p.backend != nil && p.Err != nil && !errors.Is(p.Err, backends.ErrRefused) {
			list = append(list, p.Where())
		}
	}
	return strings.Join(list, ", ")
}

// Find finds the pod that a person means: by its name or its id at the provider,
// or by the beginning of one of them. The error is an [*UnknownError] if there is
// none.
func (inv *Inventory) Find(id string) (Pod, error) {
	var hits []Pod
	for _, p := range inv.Pods {
		if p.Name == id || p.ID == id {
			return p, nil
		}
		if id != "" && (strings.HasPrefix(p.Name, id) || strings.HasPrefix(p.ID, id)) {
			hits = append(hits, p)
		}
	}
	switch len(hits) {
	case 0:
		return Pod{}, inv.unknown(id)
	case 1:
		return hits[0], nil
	}
	return Pod{}, fmt.Errorf("%q is the beginning of %d pods: %s and %s among them", id, len(hits), hits[0].Label(), hits[1].Label())
}

// An UnknownError says that no pod has a name, and which one was meant or which
// there are.
type UnknownError struct{ text string }

func (e *UnknownError) Error() string { return e.text }

func (inv *Inventory) unknown(name string) error {
	var names []string
	for _, p := range inv.Pods {
		names = append(names, plaintext.Line(p.Label()))
	}
	names = slices.Compact(names)
	const most = 5
	text := fmt.Sprintf("no pod %q is known to sweep", name)
	switch near := syntax.Nearest(name, names); {
	case near != "":
		text += fmt.Sprintf("; did you mean %q?", near)
	case len(names) > 0:
		text += ", only " + humanize.List(names, most)
	}
	return &UnknownError{text}
}

// Named finds the pods of owner that a person means to change, each once. One that
// is not provably the owner's is a [*ForeignError], unless force says to take it.
func (inv *Inventory) Named(ids []string, owner string, force bool) ([]Pod, error) {
	var list []Pod
	for _, id := range ids {
		p, err := inv.Find(id)
		if err != nil {
			return nil, err
		}
		if _, why := ours(p.Listed, owner); why != "" && !force {
			return nil, &ForeignError{id, why}
		}
		if p.By == nil || p.By.backend == nil {
			return nil, fmt.Errorf("pod %s: no %s could be asked", id, p.Kind)
		}
		if !slices.ContainsFunc(list, func(q Pod) bool { return q.Name == p.Name && q.ID == p.ID }) {
			list = append(list, p)
		}
	}
	return once(list), nil
}
