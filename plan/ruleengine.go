package plan

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/plan/internal/strict"
)

// Defaults that depend on other keys.
const (
	defaultLaunch = 5 * time.Minute
	defaultReady  = 10 * time.Minute
	defaultTrial  = time.Hour
	trialMargin   = 15 * time.Minute // warm-up, collectors and slack beside load.duration
)

// ReadyTimeout is how long a server of s may take until it answers: the
// plan's timeouts.ready, else its engine profile's, else ten minutes.
func (p *Plan) ReadyTimeout(profile *engine.Profile) time.Duration {
	switch {
	case p.Timeouts.Ready > 0:
		return p.Timeouts.Ready
	case profile != nil && profile.Ready.Timeout > 0:
		return profile.Ready.Timeout
	}
	return defaultReady
}

// checkEngines finds the profile of every engine and checks what the plan says
// to it.
func (l *loader) checkEngines(p *Plan) {
	l.profiles = make(map[string]*engine.Profile)
	if p.Matrix.axis("engine") == nil && !l.has("matrix", "engine") {
		l.impliedEngine(p)
	}
	axis := p.Matrix.axis("engine")
	for _, key := range slices.Sorted(maps.Keys(p.Engines)) {
		l.checkEngine(p, key)
	}
	if axis == nil {
		return
	}
	used := make(map[string]bool)
	for _, n := range l.axisNodes("engine") {
		name := n.Text
		used[name] = true
		if _, ok := p.Engines[name]; ok || n.Kind != syntax.String {
			continue
		}
		profile, ok := l.profile(name)
		if !ok {
			l.unknownEngine(n, name, slices.Concat(l.profileNames(), slices.Sorted(maps.Keys(p.Engines))))
			continue
		}
		l.profiles[name] = profile
	}
	for _, v := range axis.Values {
		if name, ok := v.(string); ok {
			used[name] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(p.Engines)) {
		if !used[key] {
			l.ignored("no cell uses this engine", "name it in matrix.engine", "engines", key)
		}
	}
	l.checkEngineAxes(p)
	if l.backend.Given {
		l.checkGiven(p)
	}
}

// checkGiven rejects what cannot reach a server that runs already. A row that
// claims another max-num-seqs than its server has would be worse than none.
func (l *loader) checkGiven(p *Plan) {
	const why = "the server runs already"
	for _, key := range slices.Sorted(maps.Keys(p.Engines)) {
		for _, what := range []string{"image", "entrypoint", "command", "args", "env", "cpus", "roles"} {
			if l.has("engines", key, what) {
				l.ignored(why, "", "engines", key, what)
			}
		}
	}
	l.checkResetCache()
	for _, a := range p.Matrix.Axes {
		if a.kind.pattern != nil {
			l.ignored(why, "", "matrix", a.Name)
		}
	}
}

// checkResetCache rejects reset_cache for an engine that has no call for it.
func (l *loader) checkResetCache() {
	n := l.root.Get("backend").Get("reset_cache")
	if n == nil || n.Text != "between_trials" {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(l.profiles)) {
		if profile := l.profiles[key]; profile.API.CacheReset == "" {
			d := l.Report.Node(n, "no-effect", "engine %s has no call that empties its prefix cache (api.cache_reset of the profile %s)", key, profile.Name)
			d.Expected = "never"
		}
	}
}

// impliedEngine makes the one engine of a plan an axis, so that rows,
// expressions and cell ids have it whether or not the file spells it out.
func (l *loader) impliedEngine(p *Plan) {
	if len(p.Engines) != 1 {
		if len(p.Engines) == 0 {
			l.missing("the plan names no engine", "matrix: {engine: vllm}, "+strict.OneOf(l.profileNames()), "engines")
		} else {
			l.missing("engines has several, and the matrix does not say which to use", "matrix: {engine: ["+strings.Join(slices.Sorted(maps.Keys(p.Engines)), ", ")+"]}", "engines")
		}
		return
	}
	for key := range p.Engines {
		axis, _ := newAxis("engine", key)
		p.Matrix.Axes = append([]Axis{axis}, p.Matrix.Axes...)
	}
}

// roleNames are the roles of the plan's engines that have several, each once.
func (l *loader) roleNames() []string {
	var names []string
	for _, key := range slices.Sorted(maps.Keys(l.profiles)) {
		if roles := l.profiles[key].Roles; len(roles) > 1 {
			for _, r := range roles {
				names = append(names, r.Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (l *loader) unknownEngine(n *syntax.Node, name string, names []string) {
	d := l.Report.Node(n, "unknown-engine", "there is no engine %q", name)
	d.Expected = strict.OneOf(names)
	d.Nearest = syntax.Nearest(name, names)
	if n.Text == name && flagName.MatchString(name) {
		d.Hint = "an engine by another name says which it speaks like: engines.<name>.profile"
	}
}

func (l *loader) checkEngine(p *Plan, key string) {
	e := p.Engines[key]
	if !flagName.MatchString(key) {
		l.Report.Node(l.key("engines", key), "value", "%q cannot be the name of an engine", key).Expected = "letters, digits, dots, dashes and _"
	}
	name, at := key, l.key("engines", key)
	if e.Profile != "" {
		name, at = e.Profile, l.at("engines", key, "profile")
	}
	profile, ok := l.profile(name)
	if !ok {
		if e.Profile != "" || !l.has("engines", key, "profile") {
			l.unknownEngine(at, name, l.profileNames())
		}
		return
	}
	l.profiles[key] = profile
	if len(profile.Roles) > 1 && e.Command != nil {
		var names []string
		for _, r := range profile.Roles {
			names = append(names, r.Name)
		}
		d := l.Report.Node(l.key("engines", key, "command"), "conflict", "%s has several roles, and one command line cannot be all of them", profile.Name)
		d.Hint = "write it under roles." + strings.Join(names, ", roles.")
	}
	if args := l.root.Get("engines").Get(key).Get("args"); args != nil {
		l.checkArgs(profile, args)
	}
	l.checkCommand(profile, profile.EntryRole(), "engines", key, "command")
	l.checkRoles(p, key, profile)
}

// checkCommand judges the command line that the plan gives at a path, if any.
func (l *loader) checkCommand(profile *engine.Profile, role string, keys ...string) {
	command, ok := l.root.At(keys...)
	if ok && command.Kind == syntax.List && len(command.Items) == 0 {
		l.Report.Node(command, "value", "%s is empty", strings.Join(keys, "."))
	}
	nodes := items(command)
	if !ok || len(nodes) == 0 {
		return // reported already, or not given
	}
	elements := make([]string, len(nodes))
	for i, n := range nodes {
		elements[i] = n.Text
	}
	for i, err := range profile.CheckCommand(role, elements) {
		if err != nil {
			l.Report.Node(nodes[i], "template", "%v", err)
		}
	}
}

// checkArgs judges the args that stand under an engine, or under a role of it.
func (l *loader) checkArgs(profile *engine.Profile, args *syntax.Node) {
	seen := make(map[string]string)
	for _, a := range args.Entries {
		l.checkArg(profile, a.Key, a.Key.Text)
		flag := profile.ArgName(a.Key.Text)
		if other, ok := seen[flag]; ok {
			l.Report.Node(a.Key, "duplicate", "%s and %s are the same argument", other, a.Key.Text)
		}
		seen[flag] = a.Key.Text
		if a.Value.Kind == syntax.Null {
			l.Report.Node(a.Value, "type", "the argument %s has no value", a.Key.Text).Hint = "write true for an argument without a value"
		}
		l.checkArgValue(a.Value, a.Key.Text, profile)
		if strict.LooksSecret(a.Key.Text) && a.Value.Kind == syntax.String {
			l.Report.Node(a.Key, "secret", "everybody on the machine can read a command line: --%s does not belong there", a.Key.Text).Hint = "give it by env and a reference, like VLLM_API_KEY: ${SWEEP_API_KEY}"
		}
	}
}

// checkArg judges the name of one argument by an engine's profile. An unknown
// one is passed on, since engines grow faster than lists of their flags, unless
// it is all but one that is known.
func (l *loader) checkArg(profile *engine.Profile, at *syntax.Node, name string) {
	switch {
	case !flagName.MatchString(name):
		l.Report.Node(at, "value", "%q cannot be the name of an argument", name).Expected = "a name without dashes in front, like max-num-seqs"
	case profile.Reserved(name):
		l.Report.Node(at, "reserved", "sweep sets --%s itself", profile.FlagName(name))
	case profile.Flags.Served != "" && profile.FlagName(name) == profile.FlagName(profile.Flags.Served):
		l.Report.Node(at, "reserved", "sweep sets --%s itself", profile.FlagName(name)).Hint = "write served_model_name beside args"
	case len(profile.Flags.Known) == 0 || profile.Known(name) || len(name) < 5:
	default:
		flag := profile.FlagName(name)
		for _, known := range profile.Flags.Known {
			known = profile.FlagName(known)
			if d := syntax.Distance(flag, known); d > 0 && d <= 2 && !numbered(flag, known) {
				d := l.Report.Node(at, "unknown-argument", "%s has no argument %q", profile.Name, name)
				d.Nearest = known
				d.Hint = "arguments that are new to sweep are passed on, but this is all but a known one"
				return
			}
		}
	}
}

// checkArgValue finds the one unit of this language that no engine reads. An
// argument goes to the engine as it is written.
func (l *loader) checkArgValue(n *syntax.Node, name string, profiles ...*engine.Profile) {
	number, ok := strings.CutSuffix(n.Text, "%")
	share, err := strconv.ParseFloat(number, 64)
	known := func(p *engine.Profile) bool { return p.Known(name) }
	if n.Kind != syntax.String || !ok || err != nil || !slices.ContainsFunc(profiles, known) {
		return
	}
	d := l.Report.Node(n, "value", "%s takes no %%: arguments reach the engine as they are written", name)
	d.Hint = "write " + strconv.FormatFloat(share/100, 'g', 6, 64)
}

// numbered says whether two names differ in digits alone: no slip.
func numbered(a, b string) bool {
	strip := func(s string) string { return strings.Trim(s, "0123456789") }
	return strip(a) == strip(b)
}

// checkEngineAxes holds args.*, env.* and roles.* against every engine that gets them.
func (l *loader) checkEngineAxes(p *Plan) {
	for _, a := range p.Matrix.Axes {
		at := l.key("matrix", a.Name)
		switch arg, name := a.kind.arg, a.kind.env; {
		case a.kind.role != "":
			l.checkRoleAxis(p, at, a.kind.role, arg)
		case arg != "":
			for _, n := range l.axisNodes(a.Name) {
				l.checkArgValue(n, arg, slices.Collect(maps.Values(l.profiles))...)
			}
			for _, key := range slices.Sorted(maps.Keys(l.profiles)) {
				profile := l.profiles[key]
				l.checkArg(profile, at, arg)
				for fixed := range p.Engines[key].Args {
					if profile.ArgName(fixed) == profile.ArgName(arg) {
						l.conflict("keep one of them", path("engines", key, "args", fixed), "engines.%s.args.%s is also an axis of the matrix", key, fixed)
					}
				}
			}
		case name != "":
			for _, key := range slices.Sorted(maps.Keys(p.Engines)) {
				if _, ok := p.Engines[key].Env[name]; ok {
					l.conflict("keep one of them", path("engines", key, "env", name), "engines.%s.env.%s is also an axis of the matrix", key, name)
				}
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(p.Engines)) {
		for name := range p.Engines[key].Env {
			if !envName.MatchString(name) {
				l.Report.Node(l.key("engines", key, "env", name), "value", "%q cannot be the name of an environment variable", name)
			}
		}
	}
}
