package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/fieldtag"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/rundir"
	"sweep.dev/sweep/rundir/book"
)

// What is rented, from both sides: the providers that can be asked without a
// plan, and the ledger of this machine.

// lookTimeout bounds one question to one provider.
const lookTimeout = time.Minute

// A vendor is a backend whose pods outlive us, at one place.
type vendor struct {
	factory backends.Factory
	at      map[string]string // nil for the one of the environment
	backend backends.Backend
	pods    []backends.Listed
	err     error // why it could not be asked
}

// where names it for people.
func (p *vendor) where() string {
	if len(p.at) == 0 {
		return p.factory.Kind
	}
	return p.factory.Kind + " at " + place(p.at)
}

func place(at map[string]string) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(at)) {
		parts = append(parts, key+" "+at[key])
	}
	return plaintext.Line(strings.Join(parts, ", "))
}

// An inventory is everything that is known to be rented.
type inventory struct {
	vendors []*vendor  // in the order of their factories
	book    *book.Book // nil where it cannot be opened
	pods    []found    // the oldest first
	damaged error      // of the ledger's files
}

// outliving are the factories whose pods outlive us: those of the kinds, or all.
func (a *app) outliving(fx *effect.Effects, kinds []string) ([]backends.Factory, error) {
	var list []backends.Factory
	var known []string
	for _, f := range a.backends(fx) {
		if f.Outlives {
			known = append(known, f.Kind)
			if len(kinds) == 0 || slices.Contains(kinds, f.Kind) {
				list = append(list, f)
			}
		}
	}
	for _, kind := range kinds {
		if !slices.Contains(known, kind) {
			return nil, &usage{fmt.Errorf("--backend %s: want one whose pods outlive sweep: %s", kind, strings.Join(known, ", "))}
		}
	}
	return list, nil
}

// take looks at everything that is rented: it asks every provider of the kinds
// at once, then reads the ledger, then looks which runs are at work. In this
// order a pod that is listed and whose run is seen not to be at work was left
// behind. kinds are all where empty.
func (a *app) take(ctx context.Context, kinds []string) (*inventory, error) {
	fx, err := a.effects()
	if err != nil {
		return nil, err
	}
	factories, err := a.outliving(fx, kinds)
	if err != nil {
		return nil, err
	}
	inv := &inventory{}
	var entries []book.Entry
	inv.book, entries, inv.damaged = a.owed()
	for _, f := range factories {
		inv.vendors = append(inv.vendors, vendorsOf(f, entries, a.env)...)
	}
	inv.ask(ctx)
	if inv.book != nil { // again: it may have changed while they were asked
		entries, inv.damaged = inv.book.Entries()
	}
	inv.join(entries, func(kind string) bool {
		return slices.ContainsFunc(factories, func(f backends.Factory) bool { return f.Kind == kind })
	})
	return inv, nil
}

// owed reads the ledger of this machine. That there is none is no reason not to
// clean up: the names at the providers say enough.
func (a *app) owed() (*book.Book, []book.Entry, error) {
	b, err := a.book()
	if err != nil {
		return nil, nil, err
	}
	entries, err := b.Entries()
	return b, entries, err
}

// vendorsOf are the providers of one kind: the one that the environment
// names, and those that the ledger remembers.
func vendorsOf(f backends.Factory, entries []book.Entry, env func(string) (string, bool)) []*vendor {
	var list []*vendor
	if f.Default != nil {
		b, err := f.Default(env)
		list = append(list, &vendor{factory: f, backend: b, err: err})
	}
	if f.Bills && f.Default != nil {
		// An account has a key, and that goes to the host alone that the
		// environment names: not to an address that an earlier run had.
		return list
	}
	seen := map[string]bool{}
	for _, e := range entries {
		at := placeOf(f, e.At)
		if e.Kind != f.Kind || len(at) == 0 || seen[place(at)] {
			continue
		}
		seen[place(at)] = true
		b, err := f.New(func(config any) error { return decodeAt(at, config) })
		list = append(list, &vendor{factory: f, at: at, backend: b, err: err})
	}
	return list
}

// placeOf is what of a ledger's At stands in a plan too, as a text or a number:
// it names the place. The rest is about the pod.
func placeOf(f backends.Factory, at map[string]string) map[string]string {
	if f.Config == nil {
		return nil
	}
	where := map[string]string{}
	for _, field := range fieldtag.Of(reflect.TypeOf(f.Config)) {
		text, ok := at[field.Key]
		if kind := field.Type.Kind(); ok && (kind == reflect.String || kind == reflect.Int) {
			where[field.Key] = text
		}
	}
	return where
}

// decodeAt is a plug-in's decode for a place: its keys are those of the plug-in's
// part of a plan. config is a pointer to that part.
func decodeAt(at map[string]string, config any) error {
	v := reflect.ValueOf(config).Elem()
	for _, f := range fieldtag.Of(v.Type()) {
		text, ok := at[f.Key]
		switch field := v.Field(f.Index); {
		case !ok:
		case field.Kind() == reflect.Int:
			n, err := strconv.Atoi(text)
			if err != nil {
				return fmt.Errorf("the ledger's %s: %w", f.Key, err)
			}
			field.SetInt(int64(n))
		default:
			field.SetString(text)
		}
	}
	return nil
}

// ask lists every provider, all at once.
func (inv *inventory) ask(ctx context.Context) {
	var all sync.WaitGroup
	for _, p := range inv.vendors {
		if p.err != nil {
			continue
		}
		all.Go(func() {
			ctx, cancel := context.WithTimeoutCause(ctx, lookTimeout, fmt.Errorf("no answer within %v", lookTimeout))
			defer cancel()
			p.pods, p.err = p.backend.List(ctx, "")
		})
	}
	all.Wait()
}

// join makes one list of both sides. A name is given once; what shares it, as
// where a provider has made two pods of one request, shares its entry and its
// fate. Where a provider is asked at two addresses it lists the same pod twice.
func (inv *inventory) join(entries []book.Entry, wanted func(kind string) bool) {
	byName := map[string][]int{}
	for _, v := range inv.vendors {
		for _, l := range v.pods {
			key := l.Kind + " " + l.Name
			if slices.ContainsFunc(byName[key], func(i int) bool { return inv.pods[i].ID == l.ID }) {
				continue
			}
			byName[key] = append(byName[key], len(inv.pods))
			inv.pods = append(inv.pods, found{Listed: l, listed: true, by: v})
		}
	}
	for _, e := range entries {
		if !wanted(e.Kind) {
			continue
		}
		run, holder := seen(e)
		same := byName[e.Kind+" "+e.Name]
		for _, i := range same {
			f := &inv.pods[i]
			f.entry, f.run, f.holder = &e, run, holder
			f.Pod, f.USDPerHour = cmp.Or(f.Pod, e.Pod), cmp.Or(f.USDPerHour, e.USDPerHour)
			if f.Since.IsZero() {
				f.Since = e.Since
			}
		}
		if len(same) == 0 {
			l := backends.Listed{Ref: e.Find(), Owner: e.Owner, Since: e.Since, USDPerHour: e.USDPerHour}
			l.Name = e.Name
			inv.pods = append(inv.pods, found{Listed: l, entry: &e, run: run, holder: holder, by: inv.at(e)})
		}
	}
	slices.SortStableFunc(inv.pods, func(a, b found) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Name, b.Name))
	})
}

// at is the provider that an entry of the ledger is of, where it could be
// asked: the one at the same place, else the environment's, which refuses a pod
// that it knows to be elsewhere.
func (inv *inventory) at(e book.Entry) *vendor {
	var best *vendor
	for _, p := range inv.vendors {
		if p.factory.Kind != e.Kind || p.backend == nil {
			continue
		}
		if p.at != nil && maps.Equal(p.at, placeOf(p.factory, e.At)) {
			return p
		}
		if best == nil && p.at == nil {
			best = p
		}
	}
	return best
}

// seen is what can be told from here of the run that an entry is for. Only a
// run directory that still holds that run, and that nobody has locked, says
// that it is over: a directory that is gone may have been removed under it.
func seen(e book.Entry) (run runSeen, holder string) {
	if e.Dir == "" {
		return runUnseen, ""
	}
	if _, err := os.Stat(filepath.Join(e.Dir, rundir.JournalFile)); err != nil {
		return runUnseen, ""
	}
	h, err := rundir.LockHolder(e.Dir)
	switch {
	case err != nil:
		return runUnseen, ""
	case h != nil:
		return runLive, fmt.Sprintf(" as process %d on %s", h.PID, plaintext.Line(h.Host))
	}
	st, err := rundir.Read(e.Dir)
	if err != nil || st.Manifest.RunID != e.RunID {
		return runUnseen, ""
	}
	return runEnded, ""
}

// unasked says on one line each which providers could not be asked, and why.
func (a *app) unasked(inv *inventory) {
	for _, p := range inv.vendors {
		if p.err != nil {
			a.say("sweep: %s was not asked: %s", p.where(), plaintext.Line(p.err.Error()))
		}
	}
	if inv.damaged != nil {
		a.say("sweep: %s", plaintext.Line(inv.damaged.Error()))
	}
}

// refused is the error of a provider that does not take the credentials.
func (inv *inventory) refused() error {
	var errs []error
	for _, p := range inv.vendors {
		if errors.Is(p.err, backends.ErrRefused) {
			errs = append(errs, p.err)
		}
	}
	return errors.Join(errs...)
}
