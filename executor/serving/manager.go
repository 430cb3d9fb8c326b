package serving

import (
	"context"
	"errors"
	"sync"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/executor/event"
	"sweep.dev/sweep/executor/serving/budget"
	"sweep.dev/sweep/executor/serving/ready"
	"sweep.dev/sweep/executor/serving/render"
	"sweep.dev/sweep/internal/secret"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/rundir"
)

// Options are how the servers of a run are got and given back.
type Options struct {
	Given  bool // the backend's servers run already, and outlive an attempt
	Rents  bool // they cost money
	Images bool // the backend runs images

	MaxCost float64 // USD; 0: none
	// Lifetime is the time after which a pod ends itself, even if sweep is gone; 0
	// for a backend whose servers end with this process.
	Lifetime time.Duration
	// Keep is how long a server is left running after its last trial, on a
	// backend that can; 0 is not at all.
	Keep time.Duration
	// PodLedger is the ledger outside of the run directory; nil for none.
	PodLedger PodLedger
	// StopSlack is what the backend's provider may need beyond the plan's
	// timeouts.stop until a pod is seen to be gone.
	StopSlack time.Duration

	Sweep    string         // path of this program, for engines that are part of it
	Patience ready.Patience // shorter in tests
}

// With returns the inputs of a rendering beside the plan.
func (o Options) With() render.With { return render.With{Sweep: o.Sweep, Images: o.Images} }

// A Config is what the servers of a run depend on.
type Config struct {
	Options Options
	Plan    *plan.Plan
	State   *rundir.State // what earlier runs of the directory left
	Backend backends.Backend
	Dir     Dir
	Run     Run
	Mask    secret.Mask // for all that servers say, where it comes in
	// Environ is the environment of this process, as name=value. It is only
	// looked at for what was not passed on; see [Failure].
	Environ []string
	// Teardown outlives the run's context; its end gives up what is being ended.
	Teardown context.Context
}

// A Dir is the run directory.
type Dir interface {
	LaunchDir(deployment string, launch int) (string, error)
	WriteLaunch(deployment string, launch int, record any) error
	// HideInLogs takes secrets out of the logs of a launch that has ended.
	HideInLogs(deployment string, launch int, mask secret.Mask) error
	Ledger() backends.Ledger
}

// A Run receives the events of its servers.
type Run interface {
	Emit(event.Event)
	Record(context.Context, event.Event) error // Emit, and into the journal
	// Stop ends the run: nothing more can be started, or be kept.
	Stop(cause error)
}

// A PodLedger is a ledger outside of run directories, which knows the pods of all
// runs of this machine.
type PodLedger interface {
	// Ledger writes every transition of a launch in this ledger too. digest is its
	// Spec's.
	Ledger(digest string, inner backends.Ledger) backends.Ledger
	// Adopt takes over a kept pod that was launched with digest and still has
	// life for that long, if there is one: from then on it is this run's. ok is
	// false if there is none.
	Adopt(digest string, life time.Duration) (o rundir.Owed, ok bool, err error)
	// Holds says whether a pod that this run directory has kept is still its to
	// give back: false if another run has taken it over, or it is gone.
	Holds(pod string) (bool, error)
}

// A Manager owns all servers of a run, and what of them is owed.
type Manager struct {
	config *Config
	ledger backends.Ledger // of the run directory and, if there is one, the ledger of the machine
	budget *budget.Budget

	mu   sync.Mutex
	left Left // but for Spending
}

// Left lists what a run's servers leave behind.
type Left struct {
	// Cleanup is what could not be given back or verified; it means that
	// something may still be running.
	Cleanup error
	// Owed is what Cleanup is about: pods that may still cost money.
	Owed []rundir.Owed
	// Kept is what was left running on purpose.
	Kept []rundir.Owed
	// Spending is what the run has cost when it ended.
	Spending event.Spending
}

// New makes the manager of a run, which has started nothing yet.
func New(c Config) *Manager {
	m := &Manager{config: &c, ledger: c.Dir.Ledger()}
	if c.Options.PodLedger != nil {
		m.ledger = c.Options.PodLedger.Ledger("", m.ledger)
	}
	m.budget = budget.New(c.Options.MaxCost, c.Plan.Timeouts.Stop+c.Options.StopSlack, Spent(c.State, time.Now()))
	return m
}

// Servers returns those of one deployment, of which none is up yet.
func (m *Manager) Servers(d plan.Deployment, profile *engine.Profile, label string, by Measurer) *Servers {
	return &Servers{m: m, config: m.config, of: d, profile: profile, label: label, measurer: by}
}

// WatchCost shows what the run costs, and ends the run when it has used up what it
// may. It returns then, or with ctx.
func (m *Manager) WatchCost(ctx context.Context) {
	m.budget.Watch(ctx, func(s event.Spending) { m.config.Run.Emit(event.Event{Type: event.Money, Spending: &s}) }, m.config.Run.Stop)
}

// Left returns what the servers leave behind at this moment.
func (m *Manager) Left() Left {
	m.mu.Lock()
	defer m.mu.Unlock()
	left := m.left
	left.Spending = m.budget.Spending(time.Now())
	return left
}

// Spent returns the cost in USD of the pods of a journal: of those that are gone in
// full, of those that are owed until now.
func Spent(st *rundir.State, now time.Time) float64 {
	usd := st.SpentUSD
	for _, o := range st.Owed {
		until := now
		if o.State == backends.Kept {
			until = o.Changed // from then on it is not this run's expense
		}
		usd += o.USDPerHour * until.Sub(o.Since).Hours()
	}
	return usd
}

// stopTimeout bounds the end of one server: the grace it is given, and as much
// again as a provider may need until it is seen to be gone.
func (m *Manager) stopTimeout() time.Duration {
	return m.config.Plan.Timeouts.Stop + m.config.Options.StopSlack + 5*time.Second
}

// teardown returns the context to end something in; late says what did not end in time.
func (m *Manager) teardown(late string) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(m.config.Teardown, m.stopTimeout(), errors.New("timeouts.stop: "+late))
}

// hideInLogs takes what a launch that has ended wrote of the plan's secrets out
// of its logs. Where that fails nothing else has to.
func (m *Manager) hideInLogs(deployment string, launch int) {
	if err := m.config.Dir.HideInLogs(deployment, launch, m.config.Mask); err != nil {
		m.config.Run.Emit(event.Event{Type: event.Notice, Deployment: deployment, Launch: launch, Text: err.Error()})
	}
}

func (m *Manager) addCleanup(err error) {
	if err == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left.Cleanup = errors.Join(m.left.Cleanup, err)
}

// owe notes that a pod could not be ended.
func (m *Manager) owe(o rundir.Owed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left.Owed = append(m.left.Owed, o)
}

// addKept notes that a pod was left running on purpose.
func (m *Manager) addKept(o rundir.Owed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left.Kept = append(m.left.Kept, o)
}
