package rented

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/fieldtag"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/rundir/podledger"
)

// A Provider is a backend whose pods outlive us, at one place.
type Provider struct {
	Factory backends.Factory
	Err     error // why it could not be asked

	at      map[string]string // nil for the one of the environment
	backend backends.Backend  // nil if it could not be made
	listed  []backends.Listed
}

// askTimeout bounds one question to one provider.
const askTimeout = time.Minute

// asking returns ctx for one question.
func asking(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, askTimeout, fmt.Errorf("no answer within %v", askTimeout))
}

func (p *Provider) list(ctx context.Context) {
	ctx, cancel := asking(ctx)
	defer cancel()
	p.listed, p.Err = p.backend.List(ctx, "")
}

// Where names it for people.
func (p *Provider) Where() string {
	if len(p.at) == 0 {
		return p.Factory.Kind
	}
	return p.Factory.Kind + " at " + placeText(p.at)
}

func placeText(at map[string]string) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(at)) {
		parts = append(parts, key+" "+at[key])
	}
	return plaintext.Line(strings.Join(parts, ", "))
}

// Made reports whether the environment has what it takes to ask the provider.
func (p *Provider) Made() bool { return p.backend != nil }

// Examine asks whether the provider takes the credentials, and about the account
// behind them: nil if it has no accounts. accountErr is why the account cannot be
// read.
func (p *Provider) Examine(ctx context.Context) (account *backends.Account, accountErr, err error) {
	if p.Err != nil {
		return nil, nil, p.Err
	}
	ctx, cancel := asking(ctx)
	defer cancel()
	if prober, ok := p.backend.(backends.Prober); ok {
		if err := prober.Probe(ctx); err != nil {
			return nil, nil, err
		}
	}
	accountant, ok := p.backend.(backends.Accountant)
	if !ok {
		return nil, nil, nil
	}
	a, err := accountant.Account(ctx)
	if err != nil {
		return nil, err, nil
	}
	return &a, nil, nil
}

// providersOf returns the providers of one kind: the one that the environment
// names, and those that the ledger remembers.
func providersOf(f backends.Factory, entries []podledger.Entry, env func(string) (string, bool)) []*Provider {
	var list []*Provider
	if f.Default != nil {
		b, err := f.Default(env)
		list = append(list, &Provider{Factory: f, backend: b, Err: err})
	}
	if f.Bills && f.Default != nil {
		// An account has a key, and that goes to the host alone that the
		// environment names: not to an address that an earlier run had.
		return list
	}
	seen := map[string]bool{}
	for _, e := range entries {
		at := placeOf(f, e.At)
		if e.Kind != f.Kind || len(at) == 0 || seen[placeText(at)] {
			continue
		}
		seen[placeText(at)] = true
		made := f.There
		if made == nil {
			made = func(at map[string]string) (backends.Backend, error) {
				return f.New(func(config any) error { return decodeAt(at, config) })
			}
		}
		b, err := made(at)
		list = append(list, &Provider{Factory: f, at: at, backend: b, Err: err})
	}
	return list
}

func (p *Provider) isAt(e podledger.Entry) bool {
	return p.at != nil && maps.Equal(p.at, placeOf(p.Factory, e.At))
}

// placeOf returns what of a ledger's At is in a plan too, as a text or a number:
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

// decodeAt decodes for a plug-in at a place: its keys are those of the plug-in's
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
