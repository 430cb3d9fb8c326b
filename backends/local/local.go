// Package local runs the roles of a deployment as processes of this machine:
// what every backend needs that starts its servers here. Each process is under
// a guard (package guard), so that it ends with us.
//
// # Ports
//
// A server gets a port that was free when it was started, below the range from
// which the kernel gives ports to outgoing connections: a load of a thousand
// connections must not take the port of a server that needs a minute before it
// listens. Nothing holds the port until then. Should somebody take it all the
// same, the server ends by itself and says so, and its next launch gets
// another one.
//
// # Finding them again
//
// Every process has the marks below in its environment. They name a unit for good;
// a pid does only together with its own start time, and is never used without.
package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"slices"
	"syscall"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/backends/provision"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/guard"
)

// Marks in the environment of every process of a pod, beside those of package
// backends: a pod is found by them and by nothing else, whatever became of its
// parent.
const (
	MarkBackend = "SWEEP_BACKEND"
	markUnit    = "SWEEP_UNIT"
)

// A Machine starts every replica of every role as a process of this machine, under
// a guard that ends it with us. Kind and what follows it are set before the first
// call.
type Machine struct {
	Kind    string // the backend's
	Effects *effect.Effects

	// Dir, Env and CPUs are the defaults of roles. Env is added to the variables that
	// [Passed] takes from sweep's own environment.
	Dir  string
	Env  map[string]string
	CPUs []int

	ports given
}

var (
	_ backends.Backend   = (*Machine)(nil)
	_ backends.Checker   = (*Machine)(nil)
	_ backends.Accessor  = (*Machine)(nil)
	_ provision.Provider = processes{}
)

// layer returns the launch layer over this machine's processes.
func (m *Machine) layer() *provision.Layer {
	env := Passed(os.Environ())
	maps.Copy(env, m.Env)
	return provision.New(provision.Settings{
		Kind: m.Kind, Effects: m.Effects, Env: env, SharedDisk: true, OneLife: true, LogsInPlace: true, Settle: settle,
	}, processes{m})
}

// A deployment is local processes, which are neither rented nor kept.
type deployment struct{ backends.Deployment }

// Launch implements [backends.Backend].
func (m *Machine) Launch(ctx context.Context, spec backends.Spec, l backends.Ledger) (backends.Deployment, error) {
	d, err := m.layer().Launch(ctx, spec, l)
	if err != nil {
		return nil, err
	}
	return deployment{d}, nil
}

// Check implements [backends.Checker].
func (m *Machine) Check(spec backends.Spec) error { return m.layer().Check(spec) }

// List implements [backends.Backend].
func (m *Machine) List(ctx context.Context, owner string) ([]backends.Listed, error) {
	return m.layer().List(ctx, owner)
}

// Terminate implements [backends.Backend].
func (m *Machine) Terminate(ctx context.Context, ref backends.Ref) error {
	return m.layer().Terminate(ctx, ref)
}

// processes is the [provision.Provider] of this machine: a unit is one replica, a
// process tree under a guard of its own.
type processes struct{ m *Machine }

// Allocate chooses ports, and makes the folders for files.
func (p processes) Allocate(ctx context.Context, spec backends.Spec, _ backends.Name) (a provision.Allocation, err error) {
	var held []int
	a.Close = func() { p.m.ports.give(held) }
	defer func() {
		if err != nil {
			a.Close()
		}
	}()
	take := func(want, n int) (int, error) {
		port, err := p.m.ports.take(ctx, want, n)
		if err == nil {
			held = append(held, port)
		}
		return port, err
	}
	for _, role := range spec.Roles {
		for n := range role.Replicas {
			dir, err := p.m.directory(spec, role, n)
			if err != nil {
				return a, err
			}
			at := backends.Address{Host: loopback, Replica: n, Dir: dir}
			if at.Port, err = take(role.Port, n); err != nil {
				return a, fmt.Errorf("%s: %w", role.ReplicaName(n), err)
			}
			for _, name := range slices.Sorted(maps.Keys(role.Ports)) {
				if at.Ports == nil {
					at.Ports = make(map[string]int, len(role.Ports))
				}
				if at.Ports[name], err = take(role.Ports[name], n); err != nil {
					return a, fmt.Errorf("%s: port %s: %w", role.ReplicaName(n), name, err)
				}
			}
			a.Units = append(a.Units, &provision.Unit{Replicas: []*provision.Replica{{Role: role, Place: provision.Place{Address: at}}}})
		}
	}
	return a, nil
}

// Create starts a process, its log in its file.
func (p processes) Create(ctx context.Context, u *provision.Unit) (provision.Instance, error) {
	r := u.Replicas[0]
	if err := p.m.write(r.Place.Dir, r.Files); err != nil {
		return provision.Instance{}, err
	}
	marks := map[string]string{MarkBackend: p.m.Kind, markUnit: u.Name, backends.MarkServer: r.Env[backends.MarkServer]}
	maps.Copy(marks, u.Marks)
	start := guard.Spec{
		Argv: r.Argv, Env: r.Env, Dir: cmp.Or(r.Role.Dir, p.m.Dir), CPUs: r.Role.CPUs, Grace: u.Spec.Grace, Marks: marks,
	}
	if len(start.CPUs) == 0 {
		start.CPUs = p.m.CPUs
	}
	if r.Role.LogPath != nil {
		start.LogPath = r.Role.LogPath(r.Place.Replica)
	}
	process, err := guard.Start(ctx, p.m.Effects, start)
	for _, permanent := range []error{exec.ErrNotFound, fs.ErrNotExist, fs.ErrPermission, syscall.EINVAL, syscall.ENOEXEC} {
		if errors.Is(err, permanent) {
			return provision.Instance{}, fmt.Errorf("%w: %w", backends.ErrSpec, err)
		}
	}
	if err != nil {
		return provision.Instance{}, err
	}
	return provision.Instance{ID: u.Spec.RunID + "/" + u.Spec.Pod, Running: true, Data: process}, nil
}

// Attach implements [provision.Provider]. What another process of ours has started
// it cannot look after.
func (p processes) Attach(_ context.Context, i provision.Instance, u *provision.Unit) (provision.Remote, error) {
	process, ok := i.Data.(*guard.Process)
	if !ok {
		return nil, fmt.Errorf("%s was started by another process: %w", i.Unit, host.ErrNotSupported)
	}
	r := u.Replicas[0]
	h := &localHost{fx: p.m.Effects, address: r.Place.Address, process: process}
	if r.Role.LogPath != nil {
		h.log = r.Role.LogPath(r.Place.Replica)
	}
	return remote{h, r}, nil
}

// A remote is one process.
type remote struct {
	host    *localHost
	replica *provision.Replica
}

func (r remote) Host(int) host.Host { return r.host }
func (r remote) Close()             {}

// Follow waits for the end of the process: its log is in place already.
func (r remote) Follow(ctx context.Context, _ int, _ int64, _ io.Writer) error {
	select {
	case <-r.host.process.Done():
	case <-ctx.Done():
		return nil
	}
	e := r.host.process.Exit()
	exit := &backends.Exit{Role: r.replica.Role.Name, Replica: r.replica.Place.Replica, Code: e.Code, OOMKilled: e.OOM}
	if e.Signal != 0 {
		exit.Signal = e.Signal.String()
	}
	return exit
}
