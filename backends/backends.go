// Package backends defines what it means to rent, start and give back a place
// that runs an inference server. The folders below it implement it; backends/all
// lists them.
package backends

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"sweep.dev/sweep/host"
)

// Errors a caller branches on. Implementations wrap them.
var (
	ErrCapacity = errors.New("no capacity")                   // nothing to rent now; another time or place may do
	ErrRefused  = errors.New("provider refused")              // credentials, balance or quota: exit 8
	ErrNotFound = errors.New("not found")                     // the ref names nothing that exists
	ErrSpec     = errors.New("specification is not possible") // will fail the same way again
)

// A Role is one kind of process of a deployment, as a backend needs to know it.
// Everything about engines (flags, templates) has been resolved before.
type Role struct {
	Name     string // "server" where there is only one
	Replicas int    // at least 1

	// Argv renders the command line of one replica once its port is known.
	// Nil for a backend that starts nothing (endpoint).
	Argv func(Address) ([]string, error)
	Env  map[string]string
	Dir  string // working directory; "" is ours

	// Port is the port that the role serves on; 0 lets the backend choose a
	// free one, which it passes to Argv.
	Port int
	// CPUs pins the role to these CPUs where the backend can; empty is all.
	CPUs []int
	// LogPath is where the backend writes stdout and stderr, in order; the
	// directory exists. With several replicas each gets its number appended by
	// ReplicaLog.
	LogPath func(replica int) string
}

// An Address is where a replica will listen.
type Address struct {
	Host string
	Port int
}

func (a Address) String() string { return fmt.Sprintf("%s:%d", a.Host, a.Port) }

// A Spec is what one deployment needs.
type Spec struct {
	Owner string // who runs sweep; scopes List
	RunID string
	Pod   string // unique within the run, and over its launches: <deployment>-l<NN>

	Engine string // the engine profile's name
	Model  string
	// Args are the engine's arguments by name, for a backend that does not run
	// Argv as it is (the simulator). Values are string, int64, float64 or bool.
	Args  map[string]any
	GPU   string // catalogue name or free label; "" where the plan names none
	GPUs  int
	Image string
	Seed  uint64

	Roles []Role

	// Grace is how long a server gets between the polite and the final signal.
	Grace time.Duration
	// Labels are what a backend that can label stores with the pod.
	Labels map[string]string
}

// A Ledger records every pod on disk before the provider hears of it, so that
// no crash can lose one. Methods return after the record is durable. A backend
// calls Intent before anything that may start or rent, and Created as soon as
// it knows the id; the executor records the rest of a pod's life.
type Ledger interface {
	Intent(ctx context.Context, pod, kind string) error
	Created(ctx context.Context, pod string, ref Ref) error
	Gone(ctx context.Context, pod string) error
}

// A Ref names one pod at its provider, across processes and restarts.
type Ref struct {
	Kind    string            `json:"kind"`             // the backend's
	RunID   string            `json:"run_id,omitempty"` // Spec.RunID: the same Pod may be in two runs
	Pod     string            `json:"pod"`              // Spec.Pod
	ID      string            `json:"id"`               // the provider's
	Details map[string]string `json:"details,omitempty"`
}

// A Backend starts and rents places to run servers. Methods may be called
// concurrently.
type Backend interface {
	// Launch starts all roles of spec and returns as soon as they are started;
	// whether they answer is the caller's question. The context bounds the
	// launch, not the deployment's life. Each intent goes to the ledger before
	// the call that may cost money. On error Launch has already released what
	// it took, or the ledger still owes it.
	Launch(ctx context.Context, spec Spec, l Ledger) (Deployment, error)
	// List returns everything of this owner that the provider still knows.
	List(ctx context.Context, owner string) ([]Ref, error)
	// Terminate ends what ref names and returns when it is seen to be gone.
	// A ref that names nothing any more is a success.
	Terminate(ctx context.Context, ref Ref) error
}

// A Deployment is one started set of roles. Methods may be called concurrently.
type Deployment interface {
	// Host is the place of one replica of a role. It panics on a role or
	// replica that the Spec does not have.
	Host(role string, replica int) host.Host
	// Done is closed when any role has exited by itself.
	Done() <-chan struct{}
	// Err says why, after Done: an *Exit for a process. Nil before.
	Err() error
	// Stop ends everything and returns when it is seen to be gone. It is
	// idempotent and safe at any time, also after Done and concurrently.
	Stop(ctx context.Context) error
}

// An Exit is the end of a server that nobody asked to end.
type Exit struct {
	Role      string
	Replica   int
	Code      int    // exit status; -1 where a signal ended it
	Signal    string // "killed", "segmentation fault", ...; "" where it exited
	OOMKilled bool   // the kernel's out-of-memory killer did it
}

func (e *Exit) Error() string {
	switch {
	case e.OOMKilled:
		return fmt.Sprintf("%s was killed by the kernel: out of host memory", e.Role)
	case e.Signal != "":
		return fmt.Sprintf("%s was ended by signal: %s", e.Role, e.Signal)
	default:
		return fmt.Sprintf("%s exited with status %d", e.Role, e.Code)
	}
}

// A Server is a backend whose servers have traits that a request or a row must
// know. Optional, found by type assertion.
type Server interface {
	// Authorize adds what every request to this backend's servers must carry.
	Authorize(h http.Header)
}

// A Simulator is a backend whose servers are simulated: every row of theirs
// says so. Optional, found by type assertion.
type Simulator interface{ Simulated() bool }

// A Prober can be asked whether it would work at all, before any cell.
// Optional, found by type assertion.
type Prober interface {
	// Probe checks credentials, reachability, quota. The context bounds it.
	Probe(ctx context.Context) error
}

// A Factory makes a Backend from its part of the plan: it fills defaults,
// decodes over them with decode, and checks. Errors of decode carry positions
// and are passed on as they are.
type Factory struct {
	Kind string
	Doc  string // one line
	// Starts says that this backend runs engines' command lines itself.
	Starts bool
	// Given says that the servers run already: nothing that would change a
	// server can reach one.
	Given bool
	// FreeGPU says that gpu may be a free label, not only a catalogue name.
	FreeGPU bool
	// Config is a zero value of the struct that New decodes into, for the
	// schema and for the check of unknown keys.
	Config any
	New    func(decode func(any) error) (Backend, error)
}
