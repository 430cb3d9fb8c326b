package rules

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/axes"
	"sweep.dev/sweep/plan/internal/file"
	"sweep.dev/sweep/plan/internal/strict"
)

// engineKeys returns the names of the plan's engines, sorted.
func (c *Checked) engineKeys() []string { return slices.Sorted(maps.Keys(c.Plan.Engines)) }

// profileKeys returns the names of the engines that have a profile, sorted.
func (c *Checked) profileKeys() []string { return slices.Sorted(maps.Keys(c.Profiles)) }

func (c *Checked) engine() {
	switch engines := c.engineKeys(); {
	case c.Plan.Matrix.Axis("engine") != nil || c.Has("matrix", "engine"):
	case len(engines) == 0:
		c.Missing("the plan names no engine", "matrix: {engine: vllm}, "+strict.OneOf(c.Engines), "engines")
	default:
		c.Missing("engines has several, and the matrix does not say which to use", "matrix: {engine: ["+strings.Join(engines, ", ")+"]}", "engines")
	}
}

func (c *Checked) engineNames() {
	for _, key := range c.engineKeys() {
		if !axes.IsArgument(key) {
			c.Report.Node(c.Key("engines", key), "value", "%q cannot be the name of an engine", key).Expected = "letters, digits, dots, dashes and _"
		}
		switch e := c.Plan.Engines[key]; {
		case c.Profiles[key] != nil:
		case e.Profile != "":
			c.unknownEngine(c.At("engines", key, "profile"), e.Profile, c.Engines)
		case !c.Has("engines", key, "profile"):
			c.unknownEngine(c.Key("engines", key), key, c.Engines)
		}
	}
	if c.Plan.Matrix.Axis("engine") == nil {
		return
	}
	for _, n := range c.Values("engine") {
		if _, ok := c.Plan.Engines[n.Text]; !ok && n.Kind == syntax.String && c.Profiles[n.Text] == nil {
			c.unknownEngine(n, n.Text, slices.Concat(c.Engines, c.engineKeys()))
		}
	}
}

func (c *Checked) unknownEngine(n *syntax.Node, name string, names []string) {
	d := c.Report.Node(n, "unknown-engine", "there is no engine %q", name)
	d.Expected = strict.OneOf(names)
	d.Nearest = syntax.Nearest(name, names)
	if n.Text == name && axes.IsArgument(name) {
		d.Hint = "to use a name of your own, say which engine it is: engines.<name>.profile"
	}
}

func (c *Checked) engineUsed() {
	axis := c.Plan.Matrix.Axis("engine")
	if axis == nil {
		return
	}
	used := make(map[plan.Value]bool)
	for _, v := range axis.Values {
		used[v] = true
	}
	for _, n := range c.Values("engine") {
		used[n.Text] = true
	}
	for _, key := range c.engineKeys() {
		if !used[key] {
			c.Ignored("no cell uses this engine", "name it in matrix.engine", "engines", key)
		}
	}
}

// given rejects what cannot reach a server that runs already. A row that claims
// another max-num-seqs than its server has would be worse than none.
func (c *Checked) given() {
	why := "the server runs already"
	if c.Backend.Applies {
		why = "the manifests say how the server is started"
	}
	if !c.Backend.Given || c.Plan.Matrix.Axis("engine") == nil {
		return
	}
	for _, key := range c.engineKeys() {
		for _, what := range []string{"image", "entrypoint", "command", "args", "env", "cpus", "roles"} {
			if c.Has("engines", key, what) {
				c.Ignored(why, "", "engines", key, what)
			}
		}
	}
	for _, a := range c.Plan.Matrix.Axes {
		if kind, _ := axes.Lookup(a.Name); a.Family && kind.Manifest == "" {
			c.Ignored(why, "", "matrix", a.Name)
		}
	}
}

// resetCache rejects reset_cache for an engine that has no call for it.
func (c *Checked) resetCache() {
	n := c.Root.Get("backend").Get("reset_cache")
	if !c.Backend.Given || n == nil || n.Text != "between_trials" || c.Plan.Matrix.Axis("engine") == nil {
		return
	}
	for _, key := range c.profileKeys() {
		if profile := c.Profiles[key]; profile.API.CacheReset == "" {
			d := c.Report.Node(n, "no-effect", "engine %s has no call that empties its prefix cache (api.cache_reset of the profile %s)", key, profile.Name)
			d.Expected = "never"
		}
	}
}

func (c *Checked) engineCommand() {
	for _, key := range c.engineKeys() {
		profile := c.Profiles[key]
		if profile == nil {
			continue
		}
		if len(profile.Roles) > 1 && c.Plan.Engines[key].Command != nil {
			var names []string
			for _, r := range profile.Roles {
				names = append(names, r.Name)
			}
			d := c.Report.Node(c.Key("engines", key, "command"), "conflict", "%s has several roles, and one command line cannot be all of them", profile.Name)
			d.Hint = "write it under roles." + strings.Join(names, ", roles.")
		}
		c.command(profile, profile.EntryRole(), "engines", key, "command")
	}
}

// command judges the command line that the plan gives at a path, if any.
func (c *Checked) command(profile *engine.Profile, role string, keys ...string) {
	command, ok := c.Root.At(keys...)
	if ok && command.Kind == syntax.List && len(command.Items) == 0 {
		c.Report.Node(command, "value", "%s is empty", strings.Join(keys, "."))
	}
	nodes := file.Texts(command)
	if !ok || len(nodes) == 0 {
		return // reported already, or not given
	}
	elements := make([]string, len(nodes))
	for i, n := range nodes {
		elements[i] = n.Text
	}
	for i, err := range profile.CheckCommand(role, elements) {
		if err != nil {
			c.Report.Node(nodes[i], "template", "%v", err)
		}
	}
}

func (c *Checked) engineArgs() {
	for _, key := range c.engineKeys() {
		if args := c.Root.Get("engines").Get(key).Get("args"); args != nil && c.Profiles[key] != nil {
			c.args(c.Profiles[key], args)
		}
	}
}

// args judges the args that stand under an engine, or under a role of it.
func (c *Checked) args(profile *engine.Profile, args *syntax.Node) {
	seen := make(map[string]string)
	for _, a := range args.Entries {
		c.arg(profile, a.Key, a.Key.Text)
		flag := profile.ArgName(a.Key.Text)
		if other, ok := seen[flag]; ok {
			c.Report.Node(a.Key, "duplicate", "%s and %s are the same argument", other, a.Key.Text)
		}
		seen[flag] = a.Key.Text
		if a.Value.Kind == syntax.Null {
			c.Report.Node(a.Value, "type", "the argument %s has no value", a.Key.Text).Hint = "write true for an argument without a value"
		}
		c.argValue(a.Value, a.Key.Text, profile)
		if strict.LooksSecret(a.Key.Text) && a.Value.Kind == syntax.String {
			c.Report.Node(a.Key, "secret", "every user of the machine can read a command line, so --%s must not hold a secret", a.Key.Text).Hint = "pass it in env, as a reference: VLLM_API_KEY: ${SWEEP_API_KEY}"
		}
	}
}

// arg judges the name of one argument by an engine's profile. An unknown one is
// passed on, since engines grow faster than lists of their flags, unless it is all
// but one that is known.
func (c *Checked) arg(profile *engine.Profile, at *syntax.Node, name string) {
	switch {
	case !axes.IsArgument(name):
		c.Report.Node(at, "value", "%q cannot be the name of an argument", name).Expected = "a name without dashes in front, like max-num-seqs"
	case profile.Reserved(name):
		c.Report.Node(at, "reserved", "sweep sets --%s itself", profile.FlagName(name))
	case profile.Flags.Served != "" && profile.FlagName(name) == profile.FlagName(profile.Flags.Served):
		c.Report.Node(at, "reserved", "sweep sets --%s itself", profile.FlagName(name)).Hint = "write served_model_name beside args"
	case len(profile.Flags.Known) == 0 || profile.Known(name) || len(name) < 5:
	default:
		flag := profile.FlagName(name)
		for _, known := range profile.Flags.Known {
			known = profile.FlagName(known)
			if d := syntax.Distance(flag, known); d > 0 && d <= 2 && !numbered(flag, known) {
				d := c.Report.Node(at, "unknown-argument", "%s has no argument %q", profile.Name, name)
				d.Nearest = known
				d.Hint = "arguments that are new to sweep are passed on, but this is all but a known one"
				return
			}
		}
	}
}

// argValue finds the one unit of this language that no engine reads. An argument
// goes to the engine as it is written.
func (c *Checked) argValue(n *syntax.Node, name string, profiles ...*engine.Profile) {
	number, ok := strings.CutSuffix(n.Text, "%")
	share, err := strconv.ParseFloat(number, 64)
	known := func(p *engine.Profile) bool { return p.Known(name) }
	if n.Kind != syntax.String || !ok || err != nil || !slices.ContainsFunc(profiles, known) {
		return
	}
	d := c.Report.Node(n, "value", "%s takes no %%: arguments reach the engine as they are written", name)
	d.Hint = "write " + strconv.FormatFloat(share/100, 'g', 6, 64)
}

// numbered reports whether two names differ in digits alone: no slip.
func numbered(a, b string) bool {
	strip := func(s string) string { return strings.Trim(s, "0123456789") }
	return strip(a) == strip(b)
}

func (c *Checked) engineEnv() {
	for _, key := range c.engineKeys() {
		c.env("engines", key)
		if c.Profiles[key] == nil {
			continue
		}
		for name := range c.Plan.Engines[key].Roles {
			if c.Profiles[key].Role(name) != nil {
				c.env("engines", key, "roles", name)
			}
		}
	}
}

// env judges the names of the variables that stand at a path.
func (c *Checked) env(keys ...string) {
	n, ok := c.Root.At(append(keys, "env")...)
	if !ok {
		return
	}
	for _, e := range file.Entries(n) {
		if !axes.IsVariable(e.Key.Text) && e.Key.Text != "" {
			c.Report.Node(e.Key, "value", "%q cannot be the name of an environment variable", e.Key.Text)
		}
	}
}

// engineAxes holds args.*, env.* and roles.* against every engine that gets them.
func (c *Checked) engineAxes() {
	if c.Plan.Matrix.Axis("engine") == nil {
		return
	}
	for _, a := range c.Plan.Matrix.Axes {
		switch kind, _ := axes.Lookup(a.Name); {
		case kind.Role != "":
			c.roleAxis(a.Name, kind)
		case kind.Arg != "":
			c.argAxis(a.Name, kind.Arg)
		case kind.Env != "":
			for _, key := range c.engineKeys() {
				if _, ok := c.Plan.Engines[key].Env[kind.Env]; ok {
					c.alsoAxis("engines", key, "env", kind.Env)
				}
			}
		}
	}
}

func (c *Checked) argAxis(axis, arg string) {
	for _, n := range c.Values(axis) {
		c.argValue(n, arg, slices.Collect(maps.Values(c.Profiles))...)
	}
	for _, key := range c.profileKeys() {
		c.arg(c.Profiles[key], c.Key("matrix", axis), arg)
		c.fixedArgs(c.Profiles[key], arg, c.Plan.Engines[key].Args, "engines", key, "args")
	}
}

// fixedArgs rejects values that the plan gives, at a path, to an argument that is
// an axis.
func (c *Checked) fixedArgs(profile *engine.Profile, arg string, args map[string]any, keys ...string) {
	for fixed := range args {
		if profile.ArgName(fixed) == profile.ArgName(arg) {
			c.alsoAxis(append(slices.Clone(keys), fixed)...)
		}
	}
}

// alsoAxis rejects a key that is also an axis.
func (c *Checked) alsoAxis(keys ...string) {
	c.Conflict("keep one of them", keys, "%s is also an axis of the matrix", strings.Join(keys, "."))
}
