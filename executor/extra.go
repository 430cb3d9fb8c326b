package executor

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/executor/attempt"
	"sweep.dev/sweep/executor/event"
	"sweep.dev/sweep/executor/fingerprint"
	"sweep.dev/sweep/executor/serving"
	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/load/tokens"
	"sweep.dev/sweep/plan"
)

// An Extra is one kind of requests that sweep sends to the servers of a deployment
// beyond the plan's load.
type Extra struct {
	What string `json:"what"` // see docs/given.md
	// Requests is how many at most while nothing has to be tried again, and
	// Completions how many of them ask the model for tokens. Nil is not known
	// beforehand.
	Requests    *int   `json:"requests"`
	Completions *int   `json:"completions"`
	Text        string `json:"text"` // which requests, and when
}

// warmupExtra is the kind of the requests of the warm-up.
const warmupExtra = "warm_up"

// An Announcement lists the requests beyond the load, and the servers that each get them.
type Announcement struct {
	Servers []string // labels
	Extras  []Extra
}

// String returns the announcement on one line: the sum of what is known beforehand with the
// warm-up's part, and the names of what is not known.
func (a Announcement) String() string {
	requests, warmup := 0, 0
	var open []string
	for _, x := range a.Extras {
		if x.Requests == nil {
			open = append(open, strings.ReplaceAll(x.What, "_", " "))
			continue
		}
		requests += *x.Requests
		if x.What == warmupExtra {
			warmup += *x.Requests
		}
	}
	text := fmt.Sprintf("%s: up to %d requests beyond the load", a.Title(), requests)
	if warmup > 0 {
		text += fmt.Sprintf(" (warm-up %d)", warmup)
	}
	if len(open) > 0 {
		text += ", more for " + strings.Join(open, ", ")
	}
	return text
}

// Title says which servers.
func (a Announcement) Title() string {
	switch n := len(a.Servers); n {
	case 1:
		return a.Servers[0]
	case 2:
		return a.Servers[0] + " and 1 more server, each"
	default:
		return fmt.Sprintf("%s and %d more servers, each", a.Servers[0], n-1)
	}
}

// Announce groups what the servers of several deployments are sent beyond the load.
func Announce(p *plan.Plan, deployments []plan.Deployment, b backends.Backend, with serving.Options) (list []Announcement) {
	return announce(p, deployments, func(plan.Cell) int { return p.Repeats.Most() }, b, with)
}

// announce is [Announce] of cells with so many trials.
func announce(p *plan.Plan, deployments []plan.Deployment, trials func(plan.Cell) int, b backends.Backend, with serving.Options) (list []Announcement) {
	for _, d := range deployments {
		extras := extras(p, d, trials, b, with)
		i := slices.IndexFunc(list, func(a Announcement) bool { return reflect.DeepEqual(a.Extras, extras) })
		if i < 0 {
			i = len(list)
			list = append(list, Announcement{Extras: extras})
		}
		list[i].Servers = append(list[i].Servers, ServerLabel(d))
	}
	return list
}

// announce says at the start of a run what its servers are sent beyond the load.
func (r *run) announce() {
	var left []plan.Deployment
	trials := map[string]int{}
	for _, d := range r.pending() {
		one := d.of
		one.Cells = nil
		for _, t := range d.trials {
			if t.done {
				continue
			}
			if trials[t.cell.ID]++; trials[t.cell.ID] == 1 {
				one.Cells = append(one.Cells, t.cell)
			}
		}
		left = append(left, one)
	}
	for _, a := range announce(r.config.Plan, left, func(c plan.Cell) int { return trials[c.ID] }, r.config.Backend, r.config.Servers) {
		r.Emit(event.Event{Type: event.Notice, Text: a.String()})
	}
}

// Extras lists what a deployment of p would be sent beyond its load: known before
// anything is started, and counted in the columns extra_requests and
// extra_completions. Kinds of which there are none are left out.
func Extras(p *plan.Plan, d plan.Deployment, b backends.Backend, with serving.Options) []Extra {
	return extras(p, d, func(plan.Cell) int { return p.Repeats.Most() }, b, with)
}

// extras is [Extras] of cells with so many trials.
func extras(p *plan.Plan, d plan.Deployment, trials func(plan.Cell) int, b backends.Backend, with serving.Options) []Extra {
	profile, ok := p.Profile(d.Server.Profile)
	if !ok || len(d.Cells) == 0 {
		return nil
	}
	a := announcer{
		config: &Config{Plan: p, Backend: b, Servers: with}, profile: profile, d: d,
		launches: p.Repeats.Launches(most(d.Cells, trials)),
	}
	if p.Find != nil {
		a.launches = max(a.launches, p.Find.Devices)
	}
	for _, s := range Searches(p, d.Cells) { // at most as many, and none greater
		for range s.MaxProbes {
			a.trials = append(a.trials, s.Cells[len(s.Cells)-1].Load)
		}
	}
	for _, cell := range d.Cells {
		for range trials(cell) {
			if p.Find == nil {
				a.trials = append(a.trials, cell.Load)
			}
		}
	}
	return a.all()
}

// most returns the largest number of trials of a cell.
func most(cells []plan.Cell, trials func(plan.Cell) int) (n int) {
	for _, c := range cells {
		n = max(n, trials(c))
	}
	return n
}

// An announcer knows what the requests beyond a load depend on.
type announcer struct {
	config  *Config
	profile *engine.Profile
	d       plan.Deployment
	trials  []plan.Load
	// launches is how many servers are started one after another.
	launches int
}

// all returns the table of everything that is sent beyond a load.
func (a *announcer) all() []Extra {
	var list []Extra
	for _, of := range []func() Extra{a.reachable, a.ready, a.fingerprint, a.count, a.quality, a.reset, a.pairs, a.warmup, a.metrics} {
		if x := of(); x.Text != "" {
			list = append(list, x)
		}
	}
	return list
}

// launchesText returns words if something is sent after each launch, if there are several.
func (a *announcer) launchesText() string {
	if a.launches == 1 {
		return ""
	}
	return fmt.Sprintf(", after each of %d launches", a.launches)
}

// trialsText returns "each of 12 trials".
func (a *announcer) trialsText() string {
	if len(a.trials) == 1 {
		return "the trial"
	}
	return fmt.Sprintf("each of %d trials", len(a.trials))
}

// reachable returns the backend's own question, once in a run.
func (a *announcer) reachable() Extra {
	if _, ok := a.config.Backend.(backends.Prober); !ok || !a.config.Servers.Given || backends.Applies(a.config.Backend) {
		return Extra{}
	}
	return Extra{"reachable", new(1), new(0), "GET /v1/models, once in a run"}
}

// ready returns one round of the readiness rule, which is repeated until it succeeds.
func (a *announcer) ready() Extra {
	api, ready := a.profile.API, a.profile.Ready
	if a.config.Servers.Given {
		ready.Health = ""
	}
	var gets []string
	for _, path := range []string{ready.Health, ready.Models, api.Version} {
		if path != "" {
			gets = append(gets, "GET "+path+", ")
		}
	}
	return Extra{"ready", new((len(gets) + 1) * a.launches), new(a.launches), strings.Join(gets, "") + "a completion of one token" + a.launchesText() + "; again while they fail"}
}

// fingerprint returns how fast each launch computes, before it is measured.
func (a *announcer) fingerprint() Extra {
	if o := a.config.Servers; !a.config.Plan.Fingerprints(o.Given, o.Rents) {
		return Extra{}
	}
	n := fingerprint.Asked() * a.launches
	return Extra{"fingerprint", new(n), new(n), fmt.Sprintf("%d completions of 1 and of %d tokens to prompts of up to %d words, in %d s at most%s", fingerprint.Asked(), fingerprint.Output, fingerprint.Words, int(fingerprint.Limit.Seconds()), a.launchesText())}
}

// count returns how the server's tokens are learned, see package tokens.
func (a *announcer) count() Extra {
	if !slices.ContainsFunc(a.trials, attempt.CountsTokens) {
		return Extra{}
	}
	path := a.profile.API.Tokenize
	switch {
	case a.config.Servers.Given && path != "":
		return Extra{"count", new(tokens.MaxShort + tokens.MaxCounts), new(tokens.MaxShort), fmt.Sprintf(
			"at most %d texts for %s (16 for most tokenizers) and %d completions of one token", tokens.MaxCounts, path, tokens.MaxShort)}
	case a.config.Servers.Given:
		return Extra{"count", new(tokens.MaxShort), new(tokens.MaxShort), fmt.Sprintf("at most %d completions of one token", tokens.MaxShort)}
	case path != "":
		return Extra{"count", nil, nil, "32 to some 400 texts for " + path + " and 8 completions of one token for each kind of prompts" + a.launchesText()}
	}
	return Extra{"count", nil, nil, "40 to some 400 completions of one token" + a.launchesText()}
}

// quality returns the plan's prompts of quality, once in the life of a deployment.
func (a *announcer) quality() Extra {
	q := a.config.Plan.Quality
	if q == nil || q.LMEval != nil {
		return Extra{}
	}
	return Extra{"quality", new(q.Asked()), new(q.Asked()), fmt.Sprintf("completions of %s, each twice, once before the first trial", humanize.Plural(q.Count, "quality prompt"))}
}

// reset empties prefix caches.
func (a *announcer) reset() Extra {
	path := a.profile.API.CacheReset
	if path == "" || !attempt.MayResetCache(a.config.Backend, a.config.Servers.Given) {
		return Extra{}
	}
	replicas := 0
	for i := range a.profile.Roles {
		if role := &a.profile.Roles[i]; role.Computes() {
			replicas += a.d.Server.ReplicasOf(role)
		}
	}
	return Extra{"reset", new(len(a.trials) * max(1, replicas)), new(0), "POST " + path + " before " + a.trialsText()}
}

// pairs returns the warm-up of what moves between the servers of a stack.
func (a *announcer) pairs() Extra {
	if !attempt.WarmsPairs(a.profile, a.config.Backend, a.config.Servers.Given) {
		return Extra{}
	}
	return Extra{"pairs", nil, nil, fmt.Sprintf(
		"at most %d completions of %d prompt tokens for each pair of a prefill and a decode server, once and after a restart of one of them; their number is said before they are sent", attempt.PairRounds, attempt.PairTokens)}
}

// warmup returns the plan's own.
func (a *announcer) warmup() Extra {
	n, flat, timed, open, until := 0, 0, false, false, ""
	for _, l := range a.trials {
		open = open || l.Open() && l.Warmup == (plan.Warmup{})
		n += l.WarmupRequests()
		timed = timed || l.WarmupRequests() == 0 && l.Warmup.Duration > 0
		if attempt.WarmsUntilFlat(a.config.Plan, a.profile, a.config.Servers.Given, l) {
			flat += attempt.FlatRequests(l, max(1, l.Concurrency))
		}
	}
	const caches = "until the hit rate of the prefix cache and the KV occupancy are flat"
	if flat > 0 {
		n += flat
		until = fmt.Sprintf(", up to %d of them %s", flat, caches)
	}
	switch {
	case open:
		if flat > 0 {
			until = ", and more " + caches
		}
		return Extra{warmupExtra, nil, nil, "2 completions, and 2 for each that these let expect in flight, before " + a.trialsText() + until}
	case timed:
		return Extra{warmupExtra, nil, nil, "completions for the time of load.warmup before " + a.trialsText()}
	case n == 0:
		return Extra{}
	}
	return Extra{warmupExtra, new(n), new(n), "completions before " + a.trialsText() + until}
}

// metrics returns the looks of the collector prom.
func (a *announcer) metrics() Extra {
	if !slices.ContainsFunc(a.config.Plan.Collect, func(c plan.Plugin) bool { return c.Kind == "prom" }) {
		return Extra{}
	}
	all := []*engine.Metrics{&a.profile.Metrics}
	for _, role := range a.profile.Roles {
		all = append(all, a.profile.MetricsOf(role.Name))
	}
	var gets []string
	for _, m := range all {
		if m == nil {
			continue
		}
		paths := []string{m.Path}
		if !a.config.Servers.Given { // an answer of statistics empties the server's queue of them
			paths = append(paths, m.Iterations)
		}
		for _, path := range paths {
			if get := "GET " + path; path != "" && !slices.Contains(gets, get) {
				gets = append(gets, get)
			}
		}
	}
	if len(gets) == 0 {
		return Extra{}
	}
	text := strings.Join(gets, ", ") + " before, at each interval during, and after " + a.trialsText()
	if slices.ContainsFunc(a.trials, func(l plan.Load) bool {
		return attempt.WarmsUntilFlat(a.config.Plan, a.profile, a.config.Servers.Given, l)
	}) {
		text += ", and so with each round of a warm-up until the caches are flat"
	}
	return Extra{"metrics", nil, new(0), text}
}
