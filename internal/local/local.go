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
// Every process has the marks below in its environment. They name a pod for
// good; a pid does only together with the boot of the machine and its own start
// time, and is never used without.
package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/host"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/ending"
	"sweep.dev/sweep/internal/guard"
	"sweep.dev/sweep/internal/procfs"
)

// The marks: names of environment variables of every process of a pod.
const (
	MarkBackend = "SWEEP_BACKEND"
	MarkOwner   = backends.MarkOwner
	MarkRun     = backends.MarkRun
	MarkPod     = backends.MarkPod
)

// The details of a ref.
const (
	detailBoot      = "boot_id"
	detailProcesses = "processes" // pid@start of the guards
	detailGrace     = "grace"
)

// A Machine is this machine as a backend. Its fields do not change after the
// first call; its methods may be called concurrently.
type Machine struct {
	Kind    string // the backend's
	Effects *effect.Effects

	// What roles have that do not say otherwise; Env is beside what [Passed]
	// takes of our own.
	Dir  string
	Env  map[string]string
	CPUs []int

	ports given
}

var (
	_ backends.Backend  = (*Machine)(nil)
	_ backends.Accessor = (*Machine)(nil)
)

// Launch starts every replica of every role. What will fail in the same way
// again (no such command, no such CPU) is a [backends.ErrSpec].
func (m *Machine) Launch(ctx context.Context, spec backends.Spec, l backends.Ledger) (_ backends.Deployment, err error) {
	if err := check(spec); err != nil {
		return nil, err
	}
	for _, state := range []backends.State{backends.Intended, backends.Sent} {
		if err := l.Record(ctx, backends.Arrow{Pod: spec.Pod, State: state, Kind: m.Kind}); err != nil {
			return nil, fmt.Errorf("record of pod %s: %w", spec.Pod, err)
		}
	}
	d := &deployment{machine: m, grace: spec.Grace, Ending: ending.New()}
	defer func() {
		if err == nil {
			return
		}
		// Released here, whatever became of ctx; where that fails the ledger
		// still owes the pod.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), spec.Grace+5*time.Second)
		defer cancel()
		if stop := d.Stop(ctx); stop != nil {
			err = errors.Join(err, stop)
			return
		}
		if gone := l.Record(ctx, backends.Arrow{Pod: spec.Pod, State: backends.Gone}); gone != nil {
			err = errors.Join(err, fmt.Errorf("pod %s: %w", spec.Pod, gone))
		}
	}()
	if d.peers, err = m.allocate(ctx, spec, d); err != nil {
		return nil, err
	}
	for _, role := range spec.Roles {
		if err := m.startRole(ctx, spec, role, d); err != nil {
			return nil, err
		}
	}
	ref := m.ref(spec, d)
	if err := l.Record(ctx, backends.Arrow{Pod: spec.Pod, State: backends.Created, Ref: &ref}); err != nil {
		return nil, fmt.Errorf("record of pod %s: %w", spec.Pod, err)
	}
	return d, nil
}

func check(spec backends.Spec) error {
	switch {
	case spec.RunID == "" || spec.Pod == "":
		return fmt.Errorf("%w: a pod needs a run and a name", backends.ErrSpec)
	case len(spec.Roles) == 0:
		return fmt.Errorf("%w: no role", backends.ErrSpec)
	}
	for _, role := range spec.Roles {
		if role.Argv == nil || role.Replicas < 1 {
			return fmt.Errorf("%w: role %s has no command or no replica", backends.ErrSpec, role.Name)
		}
	}
	return nil
}

// allocate gives every replica of every role its ports before any is started:
// each may be told where all the others will listen.
func (m *Machine) allocate(ctx context.Context, spec backends.Spec, d *deployment) (map[string][]backends.Address, error) {
	take := func(want, n int) (int, error) {
		port, err := m.ports.take(ctx, want, n)
		if err == nil {
			d.held = append(d.held, port)
		}
		return port, err
	}
	all := make(map[string][]backends.Address, len(spec.Roles))
	for _, role := range spec.Roles {
		for n := range role.Replicas {
			dir, err := m.directory(spec, role, n)
			if err != nil {
				return nil, err
			}
			a := backends.Address{Host: loopback, Replica: n, Dir: dir}
			if a.Port, err = take(role.Port, n); err != nil {
				return nil, fmt.Errorf("%s: %w", role.ReplicaName(n), err)
			}
			for _, name := range slices.Sorted(maps.Keys(role.Ports)) {
				if a.Ports == nil {
					a.Ports = make(map[string]int, len(role.Ports))
				}
				if a.Ports[name], err = take(role.Ports[name], n); err != nil {
					return nil, fmt.Errorf("%s: port %s: %w", role.ReplicaName(n), name, err)
				}
			}
			all[role.Name] = append(all[role.Name], a)
		}
	}
	return all, nil
}

// startRole starts all replicas of a role, and returns when the next role may
// be. A server that ends while we wait for that ends the launch.
func (m *Machine) startRole(ctx context.Context, spec backends.Spec, role backends.Role, d *deployment) error {
	for n, address := range d.peers[role.Name] {
		address.Peers = d.peers
		if err := m.start(ctx, spec, role, address, d); err != nil {
			return fmt.Errorf("%s: %w", role.ReplicaName(n), err)
		}
	}
	return role.AwaitStarted(ctx, d)
}

// start starts one replica and adds it to d.
func (m *Machine) start(ctx context.Context, spec backends.Spec, role backends.Role, address backends.Address, d *deployment) error {
	argv, err := role.Argv(address)
	if err != nil {
		return fmt.Errorf("%w: %w", backends.ErrSpec, err)
	}
	env := Passed(os.Environ())
	maps.Copy(env, m.Env)
	if role.Extra != nil {
		extra, err := role.Extra(address)
		if err != nil {
			return fmt.Errorf("%w: %w", backends.ErrSpec, err)
		}
		maps.Copy(env, extra.Env)
		if err := m.write(address.Dir, extra.Files); err != nil {
			return err
		}
	}
	maps.Copy(env, role.Env)
	start := guard.Spec{
		Argv: argv, Env: env, Dir: cmp.Or(role.Dir, m.Dir), CPUs: role.CPUs, Grace: spec.Grace,
		Marks: map[string]string{
			MarkBackend: m.Kind, MarkOwner: spec.Owner, MarkRun: spec.RunID, MarkPod: spec.Pod,
			backends.MarkServer: backends.ServerMark(spec, role, address),
		},
	}
	if len(start.CPUs) == 0 {
		start.CPUs = m.CPUs
	}
	if role.LogPath != nil {
		start.LogPath = role.LogPath(address.Replica)
	}
	p, err := guard.Start(ctx, m.Effects, start)
	for _, permanent := range []error{exec.ErrNotFound, fs.ErrNotExist, fs.ErrPermission, syscall.EINVAL, syscall.ENOEXEC} {
		if errors.Is(err, permanent) {
			return fmt.Errorf("%w: %w", backends.ErrSpec, err)
		}
	}
	if err != nil {
		return err
	}
	d.add(role.Name, address.Replica, p, &localHost{
		fx: m.Effects, address: address, log: start.LogPath, process: p,
	})
	return nil
}

func (m *Machine) ref(spec backends.Spec, d *deployment) backends.Ref {
	var processes []string
	for _, p := range d.processes {
		if q, ok := procfs.Stat(p.GuardPID()); ok {
			processes = append(processes, fmt.Sprintf("%d@%d", q.PID, q.Start))
		}
	}
	return backends.Ref{
		Kind: m.Kind, RunID: spec.RunID, Pod: spec.Pod, ID: spec.RunID + "/" + spec.Pod,
		Details: map[string]string{
			detailBoot:      procfs.BootID(),
			detailProcesses: strings.Join(processes, " "),
			detailGrace:     spec.Grace.String(),
		},
	}
}

// A deployment is the processes of one launch.
type deployment struct {
	machine   *Machine
	grace     time.Duration
	processes []*process
	held      []int // ports
	peers     map[string][]backends.Address
	give      sync.Once

	watchers sync.WaitGroup
	*ending.Ending
}

type process struct {
	*guard.Process
	role    string
	replica int
	host    *localHost
}

var _ backends.Deployment = (*deployment)(nil)

func (d *deployment) add(role string, n int, p *guard.Process, h *localHost) {
	d.processes = append(d.processes, &process{p, role, n, h})
	d.watchers.Go(func() {
		<-p.Done()
		d.exited(role, n, p.Exit())
	})
}

func (d *deployment) exited(role string, n int, e guard.Exit) {
	exit := &backends.Exit{Role: role, Replica: n, Code: e.Code, OOMKilled: e.OOM}
	if e.Signal != 0 {
		exit.Signal = e.Signal.String()
	}
	d.Ended(exit)
}

func (d *deployment) Host(role string, replica int) host.Host {
	for _, p := range d.processes {
		if p.role == role && p.replica == replica {
			return p.host
		}
	}
	panic(fmt.Sprintf("local: no replica %d of role %q", replica, role))
}

func (d *deployment) Stop(ctx context.Context) error {
	d.Ask()
	errs, panics := make([]error, len(d.processes)), make([]any, len(d.processes))
	var all sync.WaitGroup
	for i, p := range d.processes {
		all.Go(func() {
			defer func() { panics[i] = recover() }()
			errs[i] = p.Stop(ctx)
		})
	}
	all.Wait()
	for _, v := range panics {
		if v != nil {
			panic(v) // in our caller, who can still stop the others
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	d.watchers.Wait()
	// Once: a second Stop must not give what is another deployment's by now.
	d.give.Do(func() { d.machine.ports.give(d.held) })
	return nil
}

// parseProcess reads pid@start.
func parseProcess(s string) (pid int, start uint64, ok bool) {
	a, b, _ := strings.Cut(s, "@")
	pid, errPID := strconv.Atoi(a)
	start, errStart := strconv.ParseUint(b, 10, 64)
	return pid, start, errPID == nil && errStart == nil && pid > 1
}
