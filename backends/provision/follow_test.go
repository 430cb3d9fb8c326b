package provision_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/backendtest"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/backends/provision"
	"sweep.dev/sweep/result/finding"
)

// A brittle provider's remotes break as told.
type brittle struct {
	provider
	follow func(ctx context.Context, w io.Writer) error
}

func (p brittle) Attach(context.Context, provision.Instance, *provision.Unit) (provision.Remote, error) {
	return follows{p.follow}, nil
}

type follows struct {
	follow func(ctx context.Context, w io.Writer) error
}

func (follows) Host(int) host.Host { return nil }
func (follows) Close()             {}
func (r follows) Follow(ctx context.Context, _ int, _ int64, w io.Writer) error {
	return r.follow(ctx, w)
}

// TestFollow_broken: a server that can never be followed is one that is lost, after
// a while and with a finding; one that can be now and then goes on.
func TestFollow_broken(t *testing.T) {
	broken := fmt.Errorf("%w: no such job", provision.ErrBroken)
	var tries atomic.Int64
	wait := func(ctx context.Context, d time.Duration) {
		select {
		case <-ctx.Done():
		case <-time.After(d):
		}
	}
	for name, test := range map[string]struct {
		follow      func(ctx context.Context, w io.Writer) error
		found, over bool
	}{
		"always": {func(context.Context, io.Writer) error { return fmt.Errorf("%w, try %d", broken, tries.Add(1)) }, true, true},
		"lasts":  {func(ctx context.Context, _ io.Writer) error { wait(ctx, time.Minute); return broken }, false, false},
		"says": {func(_ context.Context, w io.Writer) error {
			_, err := io.WriteString(w, "a line\n")
			return errors.Join(broken, err)
		}, false, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := provision.New(provision.Settings{Kind: "cloud"}, brittle{provider{newCloud(), nil}, test.follow})
			spec := twoRoles()
			spec.Roles, spec.Entry = spec.Roles[:1], ""
			d, err := l.Launch(t.Context(), spec, &backendtest.Ledger{})
			if err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			select {
			case <-d.Done():
			case <-time.After(10 * time.Minute):
			}
			took := time.Since(begun)
			var codes []finding.Code
			for _, f := range d.(backends.Rental).Terms().Findings {
				codes = append(codes, f.Code)
			}
			found := len(codes) == 2 && codes[0] == finding.ServerNotFollowed // one for each replica
			over := took >= 2*time.Minute && took < 3*time.Minute && d.Err() != nil && strings.Contains(d.Err().Error(), "no such job")
			if found != test.found || over != test.over || !found && len(codes) > 0 || !over && d.Err() != nil {
				t.Errorf("%s: found %v, after %v %v", name, codes, took, d.Err())
			}
			if err := d.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
