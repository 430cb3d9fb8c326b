// Package backends defines the interface to rent, start and terminate a place that
// runs an inference server. The folders below implement it; backends/all lists them.
package backends

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/result"
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
	Name     string // "server" if there is only one
	Replicas int    // at least 1
	GPUs     int    // of one replica; 0 for a frontend or a router

	// Argv renders the command line of one replica once its port is known.
	// Nil for a backend that starts nothing (endpoint).
	Argv func(Address) ([]string, error)
	Env  map[string]string
	Dir  string // working directory; "" is ours
	// Args are the engine's arguments for this role: Spec.Args with its own over
	// them, and its own alone where it is no engine. Nil is Spec.Args.
	Args map[string]any
	// Extra renders what beside its command line depends on where a replica is.
	// May be nil. A backend that cannot carry it refuses the spec; one that runs
	// no roles side by side carries that of a role that is alone. Env wins over it.
	Extra func(Address) (Extra, error)
	// Started is called after a replica has been started and before the next
	// role is: it returns when that may be. ctx is the launch's. May be nil. A
	// backend that runs one role alone does not call it. See [Role.AwaitStarted].
	Started func(ctx context.Context, h host.Host, replica int) error

	// Port is the port that the role serves on; 0 lets the backend choose a
	// free one, which it passes to Argv.
	Port int
	// Ports are further ports by name, 0 for a free one each.
	Ports map[string]int
	// Image is the container image, and Entrypoint its ENTRYPOINT: with what
	// Argv begins, or nil for an image without one. For backends that run images.
	Image      string
	Entrypoint []string
	// MetricsPaths are where its Prometheus metrics may be, in the order in which
	// they are tried, and MetricsPort is their port of Ports, "" for Port: for a
	// backend that keeps the last of them.
	MetricsPaths []string
	MetricsPort  string
	// MetricsFlag is the argument without which it has no metrics, with their port as its
	// value, and Containers are names of containers that play the role beside another one:
	// for a backend that finds what runs.
	MetricsFlag string
	Containers  []string
	// KeyEnv is the variable from which the engine takes the key that its
	// clients must have; "" for an engine that has none.
	KeyEnv string
	// CPUs pins the role to these CPUs where the backend can; empty is all.
	CPUs []int
	// LogPath is where the backend writes stdout and stderr, in order; the
	// directory exists. With several replicas each gets its number appended by
	// ReplicaLog.
	LogPath func(replica int) string
}

// An Address is where a replica will listen.
type Address struct {
	// Bind is the address that it listens on, "" for Host.
	Bind string
	// Host is by what its peers reach it: a name or an address.
	Host  string
	Port  int
	Ports map[string]int // by the names of Role.Ports
	// Replica is which of its role this is, from 0.
	Replica int
	// Dir is where the files of Extra are; "" if they can be nowhere.
	Dir string
	// Peers is where the replicas of all roles of the deployment listen, this
	// one among them, by role. Their own Peers are nil.
	Peers map[string][]Address
}

// Extra holds a replica's settings beside its command line.
type Extra struct {
	Env   map[string]string
	Files map[string][]byte // by name, under Address.Dir
}

// String returns where its peers reach it: host:port.
func (a Address) String() string { return fmt.Sprintf("%s:%d", a.Host, a.Port) }

// Listen returns the address that it listens on.
func (a Address) Listen() string { return cmp.Or(a.Bind, a.Host) }

// A Spec is what one deployment needs.
type Spec struct {
	Owner string // who runs sweep; scopes List
	RunID string
	Pod   string // unique within the run, and over its launches: <deployment>-l<NN>

	Engine string // the engine profile's name
	Model  string
	// Args are the engine's arguments by name, for a backend that does not run
	// Argv as it is (the simulator). Values are string, int64, float64 or bool.
	Args map[string]any
	// Manifest is the values of places in the manifests of a backend that has some, by
	// their paths.
	Manifest map[string]any
	GPU      string // catalogue name or free label; "" if the plan names none
	GPUs     int    // of all roles and replicas
	Seed     uint64

	Roles []Role
	Entry string // the role that requests go to

	// Grace is how long a server gets between the polite and the final signal.
	Grace time.Duration
	// Expires is when the pod ends itself, even if sweep is gone: the time of the
	// dead-man switch in it. Zero is never, for backends whose servers end with
	// this process.
	Expires time.Time
	// Clients are those that the plan wants where the servers run.
	Clients ClientsWant
	// Digest is equal for two specs whose servers are the same: what a kept pod
	// is adopted by.
	Digest string
}

// A Ref names one pod at its provider, across processes and restarts.
type Ref struct {
	Kind    string            `json:"kind"`             // the backend's
	RunID   string            `json:"run_id,omitempty"` // Spec.RunID: the same Pod may be in two runs
	Pod     string            `json:"pod"`              // Spec.Pod
	ID      string            `json:"id"`               // the provider's
	Name    string            `json:"name,omitempty"`   // at the provider: see Name
	Details map[string]string `json:"details,omitempty"`
	// Units are the provider's ids of all of its parts by their names, if there
	// are several; ID is the first one's. A part with the id "" may be on its way.
	Units map[string]string `json:"units,omitempty"`
}

// A Listed is a pod that a provider knows, as seen there. What is not known is
// zero.
type Listed struct {
	Ref
	Owner      string // as the provider has it: in full, or [OwnerTag]
	Status     string // the provider's own word
	GPU        string
	Since      time.Time
	Expires    time.Time
	Lease      time.Time // when it ends if no further sign of life comes; zero if that is not known
	USDPerHour float64
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
	// List returns everything of this owner that the provider still knows, and
	// for the owner "" everything that carries sweep's marks, of any owner.
	// It never has a pod that is not provably sweep's.
	List(ctx context.Context, owner string) ([]Listed, error)
	// Terminate ends the pod that ref names and returns when it is seen to be
	// gone. A ref that names nothing any more is a success. A ref with an empty
	// ID stands for every pod with its Name, also one that shows up late.
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

// An Exit is the unrequested end of a server.
type Exit struct {
	Role      string
	Replica   int
	Code      int    // exit status; -1 if a signal ended it
	Signal    string // "killed", "segmentation fault", ...; "" if it exited
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

// A Failure is why a server could not be started, where the provider says so:
// the class that a row has, and what to do about it.
type Failure struct {
	Class string // as the engines' own failures have them, or image, registry, host
	Hint  string
	Err   error
}

func (f *Failure) Error() string { return f.Err.Error() }
func (f *Failure) Unwrap() error { return f.Err }

// A Server is a backend, or a deployment, whose servers want to be asked in a
// certain way. Optional, found by type assertion.
type Server interface {
	// Authorize adds what every request to these servers must carry.
	Authorize(h Header)
}

// A Header is an http.Header: net/http is larger than all that this package imports.
type Header interface{ Set(name, value string) }

// A Rental is a deployment that costs money or that somebody must give back.
// Optional, found by type assertion.
type Rental interface{ Terms() Terms }

// Terms are the price, the GPU and the image of a deployment, as its rows record them.
type Terms struct {
	Ref         Ref
	USDPerHour  float64   // as the provider bills it, all GPUs together; 0 if it costs nothing
	Since       time.Time // when it began to cost
	GPU         string    // the catalogue's name of what was really got; "" if it is what was asked for
	GPUs        int       // of all roles, where the plan does not say it; 0 if they are not known
	Version     string    // of the engine, where the backend asked the servers itself; ""
	ImageDigest string    // sha256:..., of several roles each with its name before it; "" if it is not known
	Findings    []result.Finding
}

// A Keeper is a deployment that can be left running. Optional, found by type
// assertion.
type Keeper interface {
	// Keep lets go of the pod and tells it to end itself at until, which is
	// not after Spec.Expires. Afterwards Stop does nothing.
	Keep(ctx context.Context, until time.Time) error
}

// An Adopter is a backend that can take over a kept pod. Optional, found by
// type assertion.
type Adopter interface {
	// Adopt is Launch with a pod that runs already. ErrNotFound if it does
	// not any more.
	Adopt(ctx context.Context, spec Spec, ref Ref) (Deployment, error)
}

// A Pauser is a backend whose pods can be stopped, which keeps their disk and
// its price, and started again. Optional, found by type assertion.
type Pauser interface {
	Pause(ctx context.Context, ref Ref) error
	Resume(ctx context.Context, ref Ref) error
}

// A Gratis backend may cost nothing where its Factory says that it bills: a run does
// not ask then. Optional, found by type assertion.
type Gratis interface{ Free() bool }

// A Quoter is a backend that can tell what it would rent. Optional, found by
// type assertion.
type Quoter interface {
	// Quote lists what could be had for spec now, in the order in which Launch
	// would try it. Stock is a hint, not a reservation.
	Quote(ctx context.Context, spec Spec) ([]Offer, error)
}

// An Offer is one thing to rent.
type Offer struct {
	GPU        string  `json:"gpu"`
	Where      string  `json:"where"`           // "secure", "community EU-RO-1"
	USDPerHour float64 `json:"usd_per_hour"`    // all GPUs of the deployment together
	Stock      string  `json:"stock,omitempty"` // the provider's own word; "" if it does not say
	Available  bool    `json:"available"`
}

// A Checker is a backend that finds in a spec, without any call, what a Launch
// would refuse with ErrSpec. Optional, found by type assertion.
type Checker interface{ Check(spec Spec) error }

// A Standing backend is one whose servers are there before a launch, at an
// address that is known. Optional, found by type assertion.
type Standing interface {
	// Hosts are the replicas of a role, as far as they are known. The entry is the
	// role that requests go to.
	Hosts(role string, entry bool) []host.Host
	// Metrics is where the metrics of a replica are, if that was said.
	Metrics(role string, replica int) (host.Host, bool)
}

// An Accountant is a backend that knows the account behind it. Optional, found
// by type assertion.
type Accountant interface {
	Account(ctx context.Context) (Account, error)
}

// An Account is the money behind a backend.
type Account struct {
	Balance     *float64 `json:"balance_usd,omitempty"` // nil if the provider does not tell
	USDPerHour  float64  `json:"usd_per_hour"`          // of everything that runs there now, not only ours
	Pods        int      `json:"pods"`                  // that run there now, not only ours
	SpentUSD    *float64 `json:"spent_24h_usd,omitempty"`
	Description string   `json:"description,omitempty"` // whose account, as the provider names it
}

// A Simulator is a backend whose servers are simulated: every row of theirs
// says so. Optional, found by type assertion.
type Simulator interface{ Simulated() bool }

// A Network knows before anything runs how requests get to its servers: by HTTP
// over TCP, without TLS, a tunnel or a proxy, as those of a backend do that is no
// Network. Optional, found by type assertion.
type Network interface{ PlainTCP() bool }

// A TimeScaler is a simulator whose servers may run faster or slower than what
// they simulate. Optional, found by type assertion.
type TimeScaler interface {
	// TimeScale is the simulated seconds in a real second, above 0. At 1 the times
	// of a trial are those of the simulated hardware.
	TimeScale() float64
}

// A Computable is a simulator whose servers can be computed without starting them. Optional,
// found by type assertion.
type Computable interface {
	Simulation() Simulation
}

// A Simulation is what a plan says of its simulated servers.
type Simulation struct {
	Jitter  float64   // standard deviation of the logarithm of a step's time
	Devices []float64 // how fast the GPUs are that launches get by turns; none: each launch has a new one, all alike
	Fitted  string    // file of sweep sim fit with the rates of all servers; "" is the data sheet's
	Started []string  // keys of the plan's backend that only servers follow that are started
}

// A Prober can be asked whether it would work at all, before any cell.
// Optional, found by type assertion.
type Prober interface {
	// Probe checks credentials, reachability, quota. The context bounds it.
	Probe(ctx context.Context) error
}

// A Guest is a backend whose servers belong to somebody else. Optional, found by
// type assertion. A backend of given servers without it permits nothing.
type Guest interface {
	// MayResetCache says whether a run may empty the servers' prefix caches
	// between two trials.
	MayResetCache() bool
}

// An Applier is a backend of given servers that may make them all the same, for each
// deployment, as manifests of the plan say. Optional, found by type assertion.
type Applier interface{ Applies() bool }

// Applies reports whether a backend makes servers of manifests.
func Applies(b Backend) bool {
	a, ok := b.(Applier)
	return ok && a.Applies()
}

// A Factory makes a Backend from its part of the plan: it fills defaults,
// decodes over them with decode, and checks. Errors of decode carry positions
// and are passed on as they are.
type Factory struct {
	Kind string
	Doc  string // one line
	// Given says that the servers run already and belong to somebody else:
	// nothing that would change a server reaches one, unless the backend is a
	// [Guest] that may.
	Given bool
	// FreeGPU says that gpu may be a free label, not only a catalogue name.
	FreeGPU bool
	// Outlives says that a pod goes on when this process is gone: it stands in
	// the ledger of this machine too, gets an hour to end at, and is what
	// sweep pods, sweep gc and sweep doctor look for.
	Outlives bool
	// Applies says of a backend of given servers that it makes them all the same, for
	// each deployment, as the user's own manifests say.
	Applies bool
	// Images says that engines start in images, each with the program that its
	// image is for.
	Images bool
	// LoadPods says that its deployments may be a [ClientHost].
	LoadPods bool
	// Bills says that a pod costs money: a run asks before it begins.
	Bills bool
	// Launch is the default of timeouts.launch; 0 is 5 minutes.
	Launch time.Duration
	// Settle is how long its provider may need, beyond the grace, until a pod
	// is seen to be gone.
	Settle time.Duration
	// Default makes the Backend of an empty configuration with the credentials
	// of the environment, for commands that have no plan. Nil if there is no
	// such thing. Its error says what is missing.
	Default func(env func(string) (string, bool)) (Backend, error)
	// There makes the Backend of a place that the ledger remembers ([Transition].At),
	// for those commands. Nil if New makes it of the same keys.
	There func(at map[string]string) (Backend, error)
	// Config is a zero value of the struct that New decodes into, for the
	// schema and for the check of unknown keys.
	Config any
	New    func(decode func(any) error) (Backend, error)
	// Form changes the traits above to those that a configuration has, for a backend
	// of which some configurations start servers and others do not; decode is as for
	// New, which says what is wrong. Nil if they are always the same. See [Factory.Under].
	Form func(f *Factory, decode func(any) error)
}

// Under returns the factory with its traits under a configuration.
func (f Factory) Under(decode func(any) error) Factory {
	if f.Form != nil {
		f.Form(&f, decode)
	}
	return f
}
