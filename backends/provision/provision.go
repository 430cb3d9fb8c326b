// Package provision makes deployments of units. A unit is a container, a pod or
// a process on a host: a place that runs one or more replicas of roles. A
// [Provider] makes, finds, deletes and attaches units; what is the same wherever
// servers run is here, once: the checks of a spec, the ledger, the search for an
// answer that was lost, the order of the roles, the command line with its
// bootstrap, the heartbeat, logs, ends, and giving back after a failure.
//
// # A launch
//
//	Allocate     which units, and where each replica will be; nothing exists
//	render       command lines, environments, files: mistakes are found here
//	intent       the ledger has the deployment's name; from now on it is owed
//	Group        what the units share, if there is such a thing
//	Create       unit after unit, in the order of the roles; each one's id goes
//	             to the ledger; a role is up before the next one begins
//
// Where any of it fails, what was made is deleted, the group last, and the
// ledger says so; or it still owes it.
//
// # Names
//
// A deployment has a [backends.Name], which no other ever has. Its first unit is
// called by it, the others by it, a dot, the role, a dot and the replica's number. Whoever
// finds units by that name, in this process or a later one, can give them back.
package provision

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/bootstrap"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/secret"
)

// Errors of a [Provider] beside those of package backends.
var (
	// ErrUnsure is a create without a clear answer: the unit may exist, now or
	// in a while.
	ErrUnsure = errors.New("whether it was made is not known")
	// ErrTaken is a create that has certainly made nothing because something that
	// Allocate chose is somebody else's by now: another Allocate may do.
	ErrTaken = errors.New("taken by another run")
	// ErrBroken is a connection to a unit that is lost and may come back.
	ErrBroken = errors.New("the connection is lost")
	// ErrLost is a launch of which nothing was to be seen and whose name a
	// [Retirer] watches: another launch may do.
	ErrLost = errors.New("nothing came of it")
	// ErrOwed is a launch that could not give back what it has made: what the
	// ledger has of it must not be overwritten by another launch.
	ErrOwed = errors.New("what it has made may still be there")
)

// A Provider makes units. Methods may be called concurrently.
type Provider interface {
	// Allocate divides a deployment into units and says where each replica will
	// listen and how its peers reach it, as far as that is known before anything
	// exists. It makes nothing that somebody would have to give back. The units
	// are in the order in which they are to be made, each with its Replicas'
	// Role and Place; the rest is filled in by this package.
	Allocate(ctx context.Context, spec backends.Spec, pod backends.Name) (Allocation, error)
	// Create makes one unit and, unless the provider is a [Starter], starts it. An
	// instance with an ID exists, also beside an error; without one nothing was
	// made, unless the error is [ErrUnsure]. A create must not be cut short by ctx
	// where its outcome would be unknown then.
	Create(ctx context.Context, u *Unit) (Instance, error)
	// Find returns the units of a deployment that exist, running or not, by its
	// name; "" returns all that carry sweep's marks. What is not provably made by
	// sweep is never among them.
	Find(ctx context.Context, pod string) ([]Instance, error)
	// Delete ends an instance and returns when it is seen to be gone; that it is
	// gone already is a success. ended, which may be nil, is called when its
	// processes have ended and what they have written can still be read.
	Delete(ctx context.Context, i Instance, grace time.Duration, ended func(context.Context)) error
	// Attach gives access to a unit, when it runs. The hosts of the unit's
	// replicas that it learns it writes to their Places: units that are made later
	// are told.
	Attach(ctx context.Context, i Instance, u *Unit) (Remote, error)
}

// A Grouper is a provider whose units share something that has to be made and
// deleted, such as a network. Optional, found by type assertion.
type Grouper interface {
	// Group makes it, before the first unit. A group that a failed Group leaves
	// is deleted by Ungroup.
	Group(ctx context.Context, pod string, units []*Unit) error
	// Ungroup deletes it, after the last unit. That there is none is a success.
	Ungroup(ctx context.Context, pod string) error
}

// A Starter is a provider whose Create makes a unit and does not start it.
// Optional, found by type assertion.
type Starter interface {
	Start(ctx context.Context, i Instance) error
}

// A Forbidder is a provider that can use up a name: what is still on its way to
// be made under it, and is not found afterwards, then fails. Optional, found by
// type assertion.
type Forbidder interface {
	Forbid(ctx context.Context, pod string) error
}

// A Retirer is a provider that watches over names which were given up, as long as
// any of its units is attached: it ends what shows up late under one. A create
// without an answer, of which nothing was seen in time, is then settled. Optional,
// found by type assertion.
type Retirer interface{ Retire(unit string) }

// A Holder is a provider for which calls about one deployment share something: a
// connection. Optional, found by type assertion.
type Holder interface {
	// Hold keeps it until release is called, for calls that no Allocate began.
	Hold(ctx context.Context, pod string) (release func(), err error)
}

// A Refuser is a provider that finds in a rendered unit, without any call, what
// it could not start. Optional, found by type assertion.
type Refuser interface {
	// Refuse returns a [backends.ErrSpec] or nil.
	Refuse(u *Unit) error
}

// An Inspector is a provider that can say what its units were started with. What
// is kept for later runs needs it. Optional, found by type assertion.
type Inspector interface {
	// Inspect returns the environment of each replica of a unit, credentials
	// among it. It asks the provider and no server.
	Inspect(ctx context.Context, i Instance) ([]map[string]string, error)
}

// A Resumer is a Grouper whose group needs somebody who keeps it alive. Optional, found by
// type assertion.
type Resumer interface {
	// Resume finds a group that an earlier run has kept, with its units. Its end stays as
	// it was until the allocation's Begin. The units of the allocation do not count.
	// [backends.ErrNotFound] if the group is gone.
	Resume(ctx context.Context, pod backends.Name, units []*Unit) (Allocation, error)
}

// An Allocation is how a deployment is divided.
type Allocation struct {
	Units []*Unit
	// At is what finds its units again, beside [Settings].At.
	At map[string]string
	// USDPerHour is what its units are expected to cost. The ledger has it before
	// any exists, with StorageUSDPerHour: what their disks cost beside the price
	// that a provider quotes for a unit, so that a budget is never less than the bill.
	USDPerHour, StorageUSDPerHour float64
	// Clients runs clients where the servers run; nil if nothing does.
	Clients backends.ClientHost
	// Keep has the group of the units end them at a time, without further signs of life of
	// this process. Nil if there is no such group.
	Keep func(ctx context.Context, until time.Time) error
	// Begin keeps the group of a [Resumer] alive from now on, in place of the end that it
	// was kept for. It is called once, when all its units are attached; not if the take-over
	// has failed before. [backends.ErrNotFound] if the group is gone.
	Begin func(ctx context.Context) error
	// Close gives back what Allocate holds in this process: a connection, a
	// claim. It is called once, when the deployment is over or was let go. May
	// be nil.
	Close func()
}

// A Place is where a replica is.
type Place struct {
	backends.Address
	// Agent is the port of its bootstrap's agent, which replicas of one unit share; 0
	// for none.
	Agent int
	// Env is what the place gives it, such as which GPUs it sees.
	Env map[string]string
}

// Ports of a replica that has a container to itself.
const (
	EnginePort  = 8000 // of the engine, if its role has none
	furtherPort = 8011 // the first of the others
)

// Everywhere is the address of servers that listen on all interfaces.
const Everywhere = "0.0.0.0"

// PlaceOf chooses the ports of a replica that has a container to itself, and one for an
// agent. host is what the other replicas call it.
func PlaceOf(role backends.Role, replica int, host string, agent bool) Place {
	at := Place{Address: backends.Address{Bind: Everywhere, Host: host, Port: cmp.Or(role.Port, EnginePort), Replica: replica}}
	used := append(slices.Collect(maps.Values(role.Ports)), at.Port)
	next := func() int {
		port := furtherPort
		for slices.Contains(used, port) {
			port++
		}
		used = append(used, port)
		return port
	}
	if agent {
		at.Agent = next()
	}
	for _, name := range slices.Sorted(maps.Keys(role.Ports)) {
		if at.Ports == nil {
			at.Ports = map[string]int{}
		}
		if at.Ports[name] = role.Ports[name]; at.Ports[name] == 0 {
			at.Ports[name] = next()
		}
	}
	return at
}

// A Unit is what a provider makes in one piece.
type Unit struct {
	Spec backends.Spec
	Pod  backends.Name // of the deployment
	Name string        // no other unit ever has it

	Replicas []*Replica
	// Marks say whose it is; they are in the environment of each replica, and a
	// provider keeps them if it can be asked for them.
	Marks map[string]string
	// Token signs what is said to the agents.
	Token secret.String
	key   secret.String // that clients must have; the same for all of a deployment
	// Argv and Env start a unit of several replicas, with a bootstrap. Its Remote is
	// a [Stager] then.
	Argv []string
	Env  map[string]string
	// Data is the provider's own, from Allocate to Create and Attach.
	Data any
}

// A Replica is one server of a unit.
type Replica struct {
	Role  backends.Role
	Place Place

	// Argv starts the server, by way of the bootstrap where [Settings] have one;
	// Env is all of its environment beyond what the place has by itself.
	Argv []string
	Env  map[string]string
	// Command is the engine's own part of Argv.
	Command []string
	// Files are what the engine is configured with, to be written to Place.Dir;
	// nil if the bootstrap does that.
	Files map[string][]byte
}

// Name returns what a person calls the replica.
func (r *Replica) Name() string { return r.Role.ReplicaName(r.Place.Replica) }

// An Instance is one unit as its provider knows it. What is not known is zero.
type Instance struct {
	ID      string            // the provider's
	Unit    string            // its name
	Pod     string            // the deployment's, where the unit's does not begin with it
	Marks   map[string]string // see [backends.Marks]
	Details map[string]string // what finds it again, beside [Settings].At
	Status  string            // the provider's own word
	Running bool
	GPU     string // the catalogue's name
	Since   time.Time
	Expires time.Time
	Grace   time.Duration // that it was made with

	USDPerHour  float64
	ImageDigest string // sha256:...
	// Data is the provider's own, from Create and Find to Attach and Delete.
	Data any
}

// A Remote is access to the replicas of one running unit, by their number in it.
// Methods may be called concurrently.
type Remote interface {
	// Host is the place of one replica.
	Host(n int) host.Host
	// Follow writes what a replica says to w, from an offset in bytes on, until
	// it has ended and all of it is written, and returns how: an
	// [backends.Exit], or why the unit is over. It returns nil when ctx ends, and
	// [ErrBroken] where it has to be called again.
	Follow(ctx context.Context, n int, offset int64, w io.Writer) error
	// Close ends the access. The unit goes on.
	Close()
}

// A TermsUpdater is a Remote that learns more of the terms of its unit while it runs.
// Optional, found by type assertion.
type TermsUpdater interface{ UpdateTerms(t *backends.Terms) }

// A Stager is a Remote whose replicas do not run when it is attached: those of one
// role are started when the roles before it are up. Optional, found by type
// assertion.
type Stager interface {
	// StartReplica returns when a replica is about to be started. It tries as
	// long as ctx lasts.
	StartReplica(ctx context.Context, n int) error
}

// A Proxied is a Remote of which some agents are not reached by dialling their port
// of 127.0.0.1 on their host, as behind a proxy with TLS. Optional, found by type
// assertion.
type Proxied interface {
	// AgentURL is the base URL of a replica's agent, to be dialled on its host; ""
	// is its port of 127.0.0.1.
	AgentURL(n int) string
}

// Settings are what a backend says of itself once, for all of its deployments.
type Settings struct {
	Kind    string
	Effects *effect.Effects
	// At is what finds the provider again; see [backends.Transition]. Nil is nothing.
	At func() map[string]string
	// Elsewhere is what to do about a ref of another place, in words.
	Elsewhere string
	// Env is the environment of all servers; what the plan says of an engine
	// wins over it.
	Env map[string]string
	// Keyed says that anybody can reach the servers, so that an engine that can
	// have a key gets one.
	Keyed bool
	// Images says that the engines run in images, whose ENTRYPOINT a command line
	// must not repeat.
	Images bool
	// SharedDisk says that the replicas of a deployment see each other's
	// [backends.Address].Dir.
	SharedDisk bool

	// Files says that the provider puts the files of a replica into its
	// [backends.Address].Dir, where no bootstrap does.
	Files bool

	// OneLife says that the servers end with this process: they have no time of
	// their own to end at.
	OneLife bool
	// LogsInPlace says that the provider itself writes what a replica says to its
	// role's file.
	LogsInPlace bool

	// Bootstrap says that package bootstrap's script starts the engines: it ends
	// a unit at its expiry time, and where it has an agent also when no sign of
	// life has come for Heartbeat (0: never).
	Bootstrap bool
	Heartbeat time.Duration
	// Hold keeps a unit whose engine has ended, for a provider that would start
	// it again.
	Hold bool
	// AgentHost is where agents listen; "" is everywhere.
	AgentHost string
	// GiveBack is how a unit ends itself at its provider; see [bootstrap.Options].
	GiveBack []bootstrap.Request
	// LogTo is a file on the unit for the engine's output beside stdout; nil
	// leaves that to the bootstrap.
	LogTo func(unit string) string

	// Late is how long a unit can stay unseen whose create got no answer.
	Late time.Duration
	// Settle is how long a deletion can take beyond the grace.
	Settle time.Duration
}

const (
	// defaultLife is how long a deployment lives whose Spec says nothing.
	defaultLife = 24 * time.Hour
	// maxLaunches bounds launches of which each was ErrTaken.
	maxLaunches = 4
	// longestBeat bounds the time between two signs of life.
	longestBeat = 30 * time.Second
	// lookEvery is the first pause between two looks for a unit; it doubles up
	// to slowLook.
	lookEvery = 100 * time.Millisecond
	slowLook  = 2 * time.Second
)
