package drill

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/backends/runpod/runpodtest"
	"sweep.dev/sweep/internal/effect"
)

// A mode is one way in which the emulator misbehaves.
type mode struct {
	fault string
	ends  []int // exit codes that a run under it may have
	// lasting says that no clean-up can succeed before it is over: it is lifted
	// after the run.
	lasting bool
}

// modes has every fault of the emulator that a run over TCP can meet.
func modes() []mode {
	return []mode{
		{"create-500-but-creates", []int{0}, false},
		{"create-hangs", []int{0}, false},
		{"create-drops-connection", []int{0}, false},
		{"create-late=1s", []int{0}, false},
		{"create-500=1", []int{0}, false},
		{"double-create", []int{0}, false},
		{"no-capacity=1", []int{0, 3}, false},
		{"stock-gone", []int{3}, true},
		{"balance-gone", []int{8}, true},
		{"price-rise=3", []int{0}, false},
		{"list-lag=1s", []int{0}, false},
		{"get-404-after-create=1s", []int{0}, false},
		{"slow-provision=1s", []int{0}, false},
		{"zero-gpu", []int{0, 3}, false},
		{"runtime-null-forever=cuda", []int{0, 3}, false},
		{"runtime-null-forever=disk", []int{0, 3}, false},
		{"exited-at-once", []int{0, 3}, false},
		{"error-status", []int{0, 3}, false},
		{"host-without-network", []int{0, 3}, false},
		{"pod-dies=300ms", []int{0, 3}, false},
		{"pod-vanishes=300ms", []int{0, 3}, false},
		{"delete-200-but-alive=3", []int{0}, false},
		{"delete-500=5", []int{0}, false},
		{"delete-403", []int{4}, true},
		{"terminated-later=1s", []int{0}, false},
		{"pod-key-forbidden", []int{0}, false},
		{"429=4", []int{0}, false},
		{"read-500=4", []int{0}, false},
		{"html-502=3", []int{0}, false},
	}
}

// proxied returns the modes that only a run through the HTTP proxy can meet.
func proxied() []mode {
	return []mode{
		{"proxy-buffers", []int{0, 3}, true},
		{"proxy-drops=2", []int{0, 3}, false},
	}
}

func modeOf(fault string) (mode, bool) {
	all := append(modes(), proxied()...)
	i := slices.IndexFunc(all, func(m mode) bool { return m.fault == fault })
	if i < 0 {
		name := nameOf(fault)
		i = slices.IndexFunc(all, func(m mode) bool { return nameOf(m.fault) == name })
	}
	if i < 0 {
		return mode{}, false
	}
	return all[i], true
}

// nameOf returns a fault without its value and its count.
func nameOf(fault string) string {
	if i := strings.IndexAny(fault, "=:"); i >= 0 {
		return fault[:i]
	}
	return fault
}

// mayEnd reports whether a run under the scenario's faults may end so.
func (s scenario) mayEnd(code int) bool {
	if code == 0 {
		return !slices.ContainsFunc(s.faults, func(f string) bool {
			m, _ := modeOf(f)
			return !slices.Contains(m.ends, 0)
		})
	}
	return slices.ContainsFunc(s.faults, func(f string) bool {
		m, _ := modeOf(f)
		return slices.Contains(m.ends, code)
	})
}

// hidesPods reports whether an account under a fault may keep anybody from seeing
// that a pod is gone, so that exit 4 is honest though nothing is left.
func (s scenario) hidesPods() bool {
	return slices.ContainsFunc(s.faults, func(f string) bool {
		for _, name := range []string{"create-", "delete-", "terminated-", "list-", "get-404", "read-500", "html-502", "429", "double"} {
			if strings.HasPrefix(f, name) {
				return true
			}
		}
		return false
	})
}

// reached reports whether a run on RunPod can come to a point.
func reached(p effect.Point) bool {
	family, _, _ := strings.Cut(string(p), ".")
	return !slices.Contains([]string{"docker", "ssh", "command", "spawn", "kill", "history", "prune"}, family)
}

// Points that a run comes to only after something else has happened: where it
// was killed before, and what it is asked for.
func rehearsals() map[effect.Point]scenario {
	kept := scenario{keep: true, then: []step{stepTerminate}}
	person := scenario{keep: true, then: []step{stepStop, stepStart, stepTerminate}}
	return map[effect.Point]scenario{
		effect.JournalTruncate: {kill: "attempt.write:after", then: []step{stepTear, stepResume}},
		effect.AdoptJournal:    {kill: "commit.journal:before", then: []step{stepResume}},
		effect.DiscardJournal:  {kill: "attempt.write:after", then: []step{stepResume}},
		effect.RecoverRemove:   {kill: "attempt.write:after", then: []step{stepResume}},
		effect.LedgerKept:      kept,
		effect.AgentEnd:        kept,
		effect.RunpodAction:    person,
	}
}

// none returns points that no run on a provider comes to, with the reason.
func none() map[effect.Point]string {
	return map[effect.Point]string{
		effect.LedgerStopped:  "a person stops a pod outside of its run, in the ledger of the machine",
		effect.AttemptRemove:  "an attempt is discarded while sweep lives only where its server dies",
		effect.ReservedRemove: "a full disk",
		effect.AgentStart:     "each of the deployments is one server",
	}
}

// phases returns the sides of a point.
func phases() []effect.Phase { return []effect.Phase{effect.Before, effect.After} }

// everyPoint kills a run at every point it comes to, on both sides, and then
// resumes it.
func everyPoint() (list []scenario) {
	special := rehearsals()
	for _, p := range effect.Points() {
		if _, never := none()[p]; never || !reached(p) {
			continue
		}
		for _, phase := range phases() {
			at := fmt.Sprintf("%s:%s", p, phase)
			s, indirect := special[p]
			switch {
			case !indirect:
				s = scenario{kill: at, then: []step{stepResume}}
			case s.keep && p != effect.RunpodAction:
				s.kill = at
				s.then = []step{stepResume, stepTerminate}
			default:
				s.again = at
			}
			s.class = "point"
			list = append(list, s)
		}
	}
	return list
}

// mostOps is about how many operations an undisturbed run makes.
const mostOps = 420

// everyOp kills a run at every Nth operation.
func everyOp() (list []scenario) {
	for n := 1; n <= mostOps; n++ {
		list = append(list, scenario{class: "op", kill: fmt.Sprintf("op:before@%d", n), then: []step{stepResume}})
	}
	return list
}

func everyMode() (list []scenario) {
	for _, m := range modes() {
		list = append(list, scenario{class: "mode", faults: []string{m.fault}, then: []step{stepResume}})
	}
	for _, m := range proxied() {
		list = append(list, scenario{class: "mode", net: "proxy", faults: []string{m.fault}, then: []step{stepResume}})
	}
	return append(list,
		scenario{class: "mode", net: "proxy", then: []step{stepResume}},
		scenario{class: "mode", net: "tcp", then: []step{stepResume}},
		scenario{class: "mode", faults: []string{"host-without-network:*"}, then: []step{stepResume}},
	)
}

// dangerous returns the moments in which a pod may be lost.
func dangerous() []string {
	return []string{
		"ledger.intent:after", "ledger.sent:after", "runpod.create:before", "runpod.create:after",
		"ledger.created:before", "ledger.created:after", "podledger.rename:after@2", "ledger.ready:before",
		"begin.journal:after", "commit.journal:before", "ledger.draining:after", "ledger.delete:after",
		"runpod.delete:before", "runpod.delete:after", "ledger.gone:before", "ledger.gone:after", "agent.beat:after",
	}
}

// neverResumed leaves what a dead run has left to the pods themselves and to gc.
func neverResumed() (list []scenario) {
	for _, at := range dangerous() {
		list = append(list,
			scenario{class: "never", kill: at, then: []step{stepLost}},
			scenario{class: "never", kill: at, beat: 4 * time.Second, then: []step{stepBeat, stepLost}},
			scenario{class: "never", kill: at, beat: 4 * time.Second, faults: []string{"pod-key-forbidden"}, then: []step{stepBeat, stepLost}},
			scenario{class: "never", kill: at, then: []step{stepRemove, stepGC}},
			scenario{class: "never", kill: at, then: []step{stepGC, stepResume}},
			scenario{class: "life", kill: at, life: time.Minute, then: []step{stepLife, stepLost}},
			scenario{class: "life", kill: at, life: time.Minute, faults: []string{"pod-key-forbidden"}, then: []step{stepLife, stepLost}},
		)
	}
	return list
}

func everySignal() (list []scenario) {
	for _, fault := range []string{"", "delete-500=3", "delete-200-but-alive=3", "terminated-later=1s", "429=3", "create-hangs", "delete-403"} {
		for _, n := range []int{3, 8, 12, 16, 20, 24} {
			for _, sig := range []string{"INT", "TERM", "HUP"} {
				s := scenario{class: "signal", signal: fmt.Sprintf("%s@%d", sig, n), then: []step{stepResume}}
				if fault != "" {
					s.faults = []string{fault}
				}
				list = append(list, s)
			}
		}
	}
	return list
}

// everyBudget stops runs for money. What a teardown may cost is kept back, which
// is $0.0392 for three pods at once: these leave some seconds for measuring.
func everyBudget() (list []scenario) {
	for _, fault := range []string{"", "delete-500=4", "terminated-later=2s", "create-hangs", "price-rise=3"} {
		for _, cost := range []float64{0.011, 0.03, 0.0395, 0.041} {
			s := scenario{class: "budget", cost: cost, faults: []string{"slow-provision=6s"}, then: []step{stepGC}}
			if fault != "" {
				s.faults = append(s.faults, fault)
			}
			list = append(list, s)
		}
	}
	return list
}

func everyKeep() (list []scenario) {
	for _, at := range []string{
		"podledger.rename:before", "podledger.rename:after", "podledger.rename:before@2", "podledger.rename:after@2", "podledger.dirsync:after@2",
		"podledger.rename:after@4", "podledger.rename:after@6", "ledger.intent:before", "ledger.intent:after", "ledger.sent:before",
		"ledger.sent:after", "ledger.created:before", "ledger.created:after", "ledger.ready:after", "runpod.delete:before",
	} {
		list = append(list, scenario{class: "keep", keep: true, again: at, then: []step{stepAdopt, stepResume}})
	}
	for n := 1; n <= 90; n += 2 {
		list = append(list, scenario{class: "keep", keep: true, pods: 1, again: fmt.Sprintf("op:before@%d", n), then: []step{stepAdopt, stepResume}})
	}
	return append(list, []scenario{
		{class: "keep", keep: true, then: []step{stepTerminate}},
		{class: "keep", keep: true, then: []step{stepAdopt}},
		{class: "keep", keep: true, then: []step{stepStop, stepStart, stepTerminate}},
		{class: "keep", keep: true, again: "runpod.delete:after", then: []step{stepTerminate, stepTerminate}},
		{class: "keep", keep: true, faults: []string{"terminated-later=1s"}, then: []step{stepAdopt}},
	}...)
}

// all returns every scenario that has a place of its own. There are more: see mixed.
func all() []scenario {
	return slices.Concat(everyPoint(), everyOp(), everyMode(), neverResumed(), everySignal(), everyBudget(), everyKeep())
}

// mixed returns a scenario of several things that go wrong at once.
func mixed(r *rand.Rand) scenario {
	any := func(list []string) string { return list[r.IntN(len(list))] }
	var faults []string
	for _, m := range modes() {
		faults = append(faults, m.fault)
	}
	s := scenario{class: "mixed", pods: 1 + r.IntN(3)}
	for range 1 + r.IntN(2) {
		if f := any(faults); !slices.Contains(s.faults, f) {
			s.faults = append(s.faults, f)
		}
	}
	switch r.IntN(4) {
	case 0:
		s.kill = fmt.Sprintf("op:before@%d", 1+r.IntN(mostOps))
	case 1:
		s.signal = fmt.Sprintf("%s@%d", any([]string{"INT", "TERM"}), 3+r.IntN(24))
	default:
		s.kill = any(dangerous())
	}
	s.then = [][]step{{stepResume}, {stepResume}, {stepResume}, {stepLost}, {stepGC, stepResume}, {stepRemove, stepGC}}[r.IntN(6)]
	if s.then[0] == stepResume && s.kill != "" && r.IntN(2) == 0 {
		s.again = any(dangerous())
	}
	return s
}

// classes returns what a quick subset has at least one of.
func classes() []string {
	return []string{"point", "op", "mode", "never", "signal", "budget", "keep", "mixed"}
}

// slow scenarios are left to the full drill: pods live for a minute at least,
// and gc looks for a pod that may show up late for two.
func (s scenario) slow() bool {
	if s.class == "life" || slices.Contains(s.then, stepGC) && s.class != "budget" {
		return true
	}
	return slices.ContainsFunc(s.faults, func(f string) bool {
		return strings.HasPrefix(f, "host-without-network") || strings.HasPrefix(f, "runtime-null")
	})
}

// A plan of the drill: all scenarios in the order in which they are run. What
// seen does not have comes first, and of that the named points; the quick one begins with one of each class
// and leaves out what is slow.
func order(seed uint64, quick bool, seen map[string]int) []scenario {
	r := rand.New(rand.NewPCG(seed, 0x6472696c6c))
	list := all()
	for range len(list) / 2 {
		list = append(list, mixed(r))
	}
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	if quick {
		list = slices.DeleteFunc(list, scenario.slow)
		var first []scenario
		for _, class := range classes() {
			i := slices.IndexFunc(list, func(s scenario) bool { return s.class == class })
			first = append(first, list[i])
			list = slices.Delete(list, i, i+1)
		}
		return append(first, list...)
	}
	later := func(s scenario) int {
		if s.class == "point" {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(list, func(a, b scenario) int {
		return cmp.Or(seen[a.String()]-seen[b.String()], later(a)-later(b))
	})
	return list
}

// covered returns the emulator's faults that a list has somewhere.
func covered(list []scenario) map[string]bool {
	names := map[string]bool{}
	for _, s := range list {
		for _, text := range s.faults {
			if f, err := runpodtest.ParseFault(text); err == nil {
				names[f.Name] = true
			}
		}
	}
	return names
}
