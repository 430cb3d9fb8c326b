package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/rundir"
	"sweep.dev/sweep/rundir/podledger"
)

// A rental is a provider that is a folder: a file in it is a pod, and says how
// it behaves. It stands in for all others where the test binary is sweep and
// rentalEnv names the folder.
const (
	rentalEnv  = "SWEEP_TEST_RENTAL"
	rentalKind = "rental"
)

// A rentalPod is a pod's file, called by its id.
type rentalPod struct {
	backends.Listed
	Stuck   bool // it cannot be ended
	Slow    bool // it is not seen to end
	Deaf    bool // it cannot be stopped or started
	Foreign bool // not made by sweep: the provider lists it to others alone
}

type rental struct{ dir string }

var (
	_ backends.Backend    = rental{}
	_ backends.Pauser     = rental{}
	_ backends.Prober     = rental{}
	_ backends.Accountant = rental{}
)

// rentals returns the backends for a test that has such a provider, and one more without
// a key.
func rentals(dir string) []backends.Factory {
	return []backends.Factory{
		{
			Kind: rentalKind, Outlives: true, Bills: true,
			Default: func(env func(string) (string, bool)) (backends.Backend, error) {
				if key, _ := env("RENTAL_KEY"); key == "" {
					return nil, errors.New("rental: RENTAL_KEY is not set")
				}
				return rental{dir}, nil
			},
		},
		{
			Kind: "elsewhere", Outlives: true,
			Config: struct {
				Path string `yaml:"path"`
			}{},
			New: func(decode func(any) error) (backends.Backend, error) {
				var c struct {
					Path string `yaml:"path"`
				}
				err := decode(&c)
				return rental{c.Path}, err
			},
		},
		{Kind: "local"},
	}
}

func (r rental) Launch(context.Context, backends.Spec, backends.Ledger) (backends.Deployment, error) {
	return nil, errors.New("nothing to rent")
}

func (r rental) refuses() error {
	if _, err := os.Stat(filepath.Join(r.dir, "REFUSED")); err == nil {
		return fmt.Errorf("rental: 401: the key is not valid: %w", backends.ErrRefused)
	}
	if _, err := os.Stat(r.dir); err != nil {
		return errors.New("rental: no connection")
	}
	return nil
}

func (r rental) Probe(context.Context) error { return r.refuses() }

func (r rental) Account(ctx context.Context) (backends.Account, error) {
	pods, err := r.all()
	a := backends.Account{Balance: new(12.5), Pods: len(pods), Description: "test@example.com"}
	for _, p := range pods {
		a.USDPerHour += p.USDPerHour
	}
	return a, err
}

func (r rental) all() (list []rentalPod, err error) {
	files, err := filepath.Glob(filepath.Join(r.dir, "*.json"))
	for _, path := range files {
		b, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			continue // another process has just ended it
		}
		if err != nil {
			return nil, err
		}
		var p rentalPod
		if err := json.Unmarshal(b, &p); err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, err
}

func (r rental) List(ctx context.Context, owner string) ([]backends.Listed, error) {
	if err := r.refuses(); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(r.dir, "SLOW")); err == nil {
		return nil, r.hang(ctx)
	}
	pods, err := r.all()
	var list []backends.Listed
	for _, p := range pods {
		if !p.Foreign && (owner == "" || p.Owner == owner || p.Owner == backends.OwnerTag(owner)) {
			list = append(list, p.Listed)
		}
	}
	return list, err
}

// find returns the pod that a ref names.
func (r rental) find(ref backends.Ref) (*rentalPod, error) {
	pods, err := r.all()
	if err != nil {
		return nil, err
	}
	for _, p := range pods {
		if p.ID == ref.ID || ref.ID == "" && p.Name == ref.Name {
			return &p, nil
		}
	}
	return nil, backends.ErrNotFound
}

// hang answers nothing until it is not waited for, and leaves a file that says so.
func (r rental) hang(ctx context.Context) error {
	if err := os.WriteFile(filepath.Join(r.dir, "ASKED"), nil, 0o644); err != nil {
		return err
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

func (r rental) Terminate(ctx context.Context, ref backends.Ref) error {
	p, err := r.find(ref)
	switch {
	case errors.Is(err, backends.ErrNotFound):
		return nil
	case err != nil:
		return err
	case p.Slow:
		return r.hang(ctx)
	case p.Stuck:
		return errors.New("the delete was answered, and the pod is still listed")
	}
	return os.Remove(filepath.Join(r.dir, p.ID+".json"))
}

func (r rental) Pause(_ context.Context, ref backends.Ref) error  { return r.become(ref, "EXITED") }
func (r rental) Resume(_ context.Context, ref backends.Ref) error { return r.become(ref, "RUNNING") }

func (r rental) become(ref backends.Ref, status string) error {
	p, err := r.find(ref)
	if err != nil {
		return err
	}
	if p.Deaf {
		return errors.New("409: it will not")
	}
	p.Status = status
	return p.save(r.dir)
}

func (p rentalPod) save(dir string) error {
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, p.ID+".json"), b, 0o644)
}

// rent puts a pod where a script wants it, each part as key=value:
//
//	rent id=p1 left=-1h [owner=O] [run=R] [usd=0.5] [state=created] [kept=1h] [dir=D] [name=N] [marked=O] [flags=stuck,deaf,foreign] [in=both|provider|ledger] [at=path]
//
// $ID_NAME becomes its name.
func rent(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("unsupported: ! rent")
	}
	v := map[string]string{"owner": owner(), "run": "0123456789", "usd": "0.5", "state": "created", "in": "both", "left": "1h"}
	for _, arg := range args {
		key, value, ok := strings.Cut(arg, "=")
		if !ok {
			ts.Fatalf("rent: %q is no key=value", arg)
		}
		v[key] = value
	}
	left, err := time.ParseDuration(v["left"])
	ts.Check(err)
	now := time.Now()
	var usd float64
	_, err = fmt.Sscan(v["usd"], &usd)
	ts.Check(err)
	expires := now.Add(left)
	name := backends.NewName(v["owner"], v["run"], expires)
	text := name.String()
	if v["name"] != "" {
		text = v["name"]
	}
	ts.Setenv(strings.ToUpper(v["id"])+"_NAME", text)
	kind, account, at := rentalKind, ts.Getenv(rentalEnv), map[string]string(nil)
	if v["at"] != "" {
		kind, account, at = "elsewhere", ts.MkAbs(v["at"]), map[string]string{"path": ts.MkAbs(v["at"])}
	}
	ref := backends.Ref{Kind: kind, RunID: name.Run, Pod: v["id"] + "-l01", ID: v["id"], Name: text, Details: at}
	if v["in"] != "ledger" {
		p := rentalPod{Listed: backends.Listed{
			Ref: ref, Owner: v["owner"], Status: "RUNNING", GPU: "rtx-2000-ada",
			Since: now.Add(-2 * time.Hour), Expires: name.Expires, USDPerHour: usd,
		}}
		if v["marked"] != "" {
			p.Owner = v["marked"]
		}
		p.Stuck = strings.Contains(v["flags"], "stuck")
		p.Deaf = strings.Contains(v["flags"], "deaf")
		p.Foreign = strings.Contains(v["flags"], "foreign")
		ts.Check(os.MkdirAll(account, 0o755))
		ts.Check(p.save(account))
	}
	if v["in"] == "provider" {
		return
	}
	dir := v["dir"]
	if dir != "" {
		dir = ts.MkAbs(dir)
	}
	b, err := podledger.Open(nil, ts.Getenv("SWEEP_STATE_DIR"))
	ts.Check(err)
	l := b.Ledger(podledger.Run{ID: v["run"], Owner: v["owner"], Dir: dir}, "digest", silentLedger{})
	transitions := []backends.Transition{
		{Pod: ref.Pod, State: backends.Intended, Kind: kind, Name: text, At: at, Expires: &expires, USDPerHour: usd},
		{Pod: ref.Pod, State: backends.Created, Ref: &ref},
	}
	state := backends.Transition{Pod: ref.Pod, State: backends.State(v["state"])}
	if v["kept"] != "" {
		d, err := time.ParseDuration(v["kept"])
		ts.Check(err)
		state.State, state.Expires = backends.Kept, new(now.Add(d))
	}
	for _, a := range append(transitions, state) {
		ts.Check(l.Record(context.Background(), a))
	}
}

type silentLedger struct{}

func (silentLedger) Record(context.Context, backends.Transition) error { return nil }

// mkrun makes a run directory for a run that is over; with -live it stays
// locked until the script ends: mkrun [-live] DIR RUN.
func mkrun(ts *testscript.TestScript, neg bool, args []string) {
	live := len(args) > 0 && args[0] == "-live"
	if live {
		args = args[1:]
	}
	if neg || len(args) != 2 {
		ts.Fatalf("usage: mkrun [-live] DIR RUN")
	}
	d, err := rundir.Create(nil, ts.MkAbs(args[0]), rundir.Manifest{RunID: args[1], Plan: "p", Owner: owner()}, []byte("plan"), []byte("{}"))
	ts.Check(err)
	if live {
		ts.Defer(func() { _ = d.Close() })
		return
	}
	ts.Check(d.Close())
}

// asSweepMain is main of the test binary as the program, where the backends may
// be a test's.
func asSweepMain() int { return newTestApp().main(os.Args) }

func newTestApp() *app {
	a := newApp()
	if dir := os.Getenv(rentalEnv); dir != "" {
		a.backends = func(*effect.Effects) []backends.Factory { return rentals(dir) }
	}
	return a
}

// A person is asked, and only the answer yes is one.
func TestAsk(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in    string
		yes   bool
		there bool
		want  bool
		err   bool
	}{
		{in: "", yes: true, want: true},
		{in: "y\n", there: true, want: true},
		{in: "yes\n", there: true, want: true},
		{in: "n\n", there: true},
		{in: "\n", there: true},
		{in: "", there: true},
		{in: "yesterday\n", there: true},
		{in: "y\n", err: true}, // a pipe cannot confirm
	} {
		a := &app{in: strings.NewReader(c.in), inTTY: c.there, errTTY: true, err: io.Discard}
		got, err := a.ask(c.yes, "end 3 pods?")
		if got != c.want || (err != nil) != c.err {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}
}
