package engine

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// A problem is one thing wrong with a profile, and the keys and indices that
// lead to it.
type problem struct {
	at   []any
	text string
}

// located says what is wrong, and where in src, in its order. The place of what a
// profile has from the one it is like is the beginning.
func located(src []byte, problems []problem) error {
	var root ast.Node
	if file, err := parser.ParseBytes(src, 0); err == nil && len(file.Docs) > 0 {
		root = file.Docs[0].Body
	}
	type placed struct {
		line, column int
		text         string
	}
	var all []placed
	for _, p := range problems {
		l := placed{1, 1, pathString(p.at) + ": " + p.text}
		if n := find(root, p.at); n != nil && n.GetToken() != nil {
			l.line, l.column = n.GetToken().Position.Line, n.GetToken().Position.Column
		}
		all = append(all, l)
	}
	slices.SortStableFunc(all, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.column, b.column), cmp.Compare(a.text, b.text))
	})
	var errs []error
	for _, l := range all {
		errs = append(errs, place(l.line, l.column, l.text))
	}
	return errors.Join(errs...)
}

func pathString(at []any) string {
	var b strings.Builder
	for _, step := range at {
		if i, ok := step.(int); ok {
			fmt.Fprintf(&b, "[%d]", i)
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		fmt.Fprint(&b, step)
	}
	return b.String()
}

// find returns the node that the steps lead to, or the last one on the way that
// there is. It is nil if there is not even the first.
func find(n ast.Node, at []any) ast.Node {
	var last ast.Node
	for _, step := range at {
		var next ast.Node
		switch step := step.(type) {
		case string:
			for _, pair := range pairs(n) {
				if pair.Key.GetToken().Value == step {
					last, next = pair.Key, pair.Value
				}
			}
		case int:
			if list, ok := n.(*ast.SequenceNode); ok && step < len(list.Values) {
				next = list.Values[step]
				last = next
			}
		}
		if next == nil {
			return last
		}
		n = next
	}
	if _, isMapping := n.(*ast.MappingNode); isMapping || n == nil {
		return last
	}
	if _, isSequence := n.(*ast.SequenceNode); isSequence {
		return last
	}
	return n
}

func pairs(n ast.Node) []*ast.MappingValueNode {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}
	}
	return nil
}

// MaxReplicas is how many of one role there can be in a deployment.
const MaxReplicas = 1024

// The bounds of a profile beside those of its templates.
const (
	maxRoles      = 32
	maxExpression = 1_000  // bytes of a regular expression
	maxProgram    = 50_000 // instructions of all of them together, of 40 bytes or more each
)

// A checker collects what is wrong with a profile.
type checker struct {
	p        *Profile
	peers    map[string][]Address // for the templates; see [example]
	budget   *budget              // of the templates
	program  int                  // instructions of the regular expressions so far
	problems []problem
}

func (c *checker) fail(at []any, format string, args ...any) {
	c.problems = append(c.problems, problem{at: slices.Clone(at), text: fmt.Sprintf(format, args...)})
}

// at returns a path of keys and indices.
func at(steps ...any) []any { return steps }

func under(path []any, steps ...any) []any { return append(slices.Clone(path), steps...) }

var (
	profileName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*$`)
	roleName    = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	variable    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// check returns everything that is wrong with a decoded profile.
func (p *Profile) check() []problem {
	if len(p.Roles) > maxRoles {
		return []problem{{at: at("roles"), text: fmt.Sprintf("%d roles, %d at most", len(p.Roles), maxRoles)}}
	}
	peers := p.examplePeers(func(r *Role) int { return min(max(r.Replicas, 1), MaxReplicas) })
	c := &checker{p: p, peers: peers, budget: newBudget()}
	switch {
	case p.Name == "":
		c.fail(at("name"), "name is missing")
	case !profileName.MatchString(p.Name):
		c.fail(at("name"), "%q: want small letters, digits, dots and dashes", p.Name)
	}
	c.roles()
	if p.Entry != "" && p.Role(p.Entry) == nil {
		c.fail(at("entry"), "there is no role %q", p.Entry)
	}
	c.expression(at("ready", "line"), p.Ready.Line)
	c.path(at("ready", "health"), p.Ready.Health)
	c.path(at("ready", "models"), p.Ready.Models)
	if p.Ready.Timeout < 0 {
		c.fail(at("ready", "timeout"), "%s is less than nothing", p.Ready.Timeout)
	}
	for key, path := range map[string]string{
		"chat": p.API.Chat, "completions": p.API.Completions, "cache_reset": p.API.CacheReset, "tokenize": p.API.Tokenize, "version": p.API.Version,
	} {
		c.path(at("api", key), path)
	}
	c.flags()
	c.speculation()
	c.gpus()
	if memory := []string{"", "none", "vllm", "sglang", "trtllm", "tgi"}; !slices.Contains(memory, p.MemoryLike) {
		c.fail(at("memory_like"), "%q: want %s", p.MemoryLike, strings.Join(memory[1:], ", "))
	}
	c.metrics(at("metrics"), &p.Metrics, nil)
	for _, name := range slices.Sorted(maps.Keys(p.Totals)) {
		if Canonical(name) == "" {
			c.fail(at("totals", name), "%q is not a canonical quantity", name)
		}
		for i, role := range p.Totals[name] {
			if p.Role(role) == nil {
				c.fail(at("totals", name, i), "there is no role %q", role)
			}
		}
	}
	for i, f := range p.Failures {
		if f.Class == "" {
			c.fail(at("failures", i), "failure %.80q has no class", f.Match)
		}
		c.expression(at("failures", i, "match"), "(?i)"+f.Match)
	}
	c.logs()
	return c.problems
}

func (c *checker) roles() {
	seen := map[string]bool{}
	for i, r := range c.p.Roles {
		where := at("roles", i)
		switch {
		case r.Name == "" || seen[r.Name]:
			c.fail(under(where, "name"), "role %q: every role needs a name of its own", r.Name)
		case !roleName.MatchString(r.Name):
			c.fail(under(where, "name"), "role %q: want small letters, digits and underscores", r.Name)
		}
		seen[r.Name] = true
		if !slices.Contains([]string{"", TierEngine, TierFrontend, TierRouter}, r.Tier) {
			c.fail(under(where, "tier"), "%q: want engine, frontend or router", r.Tier)
		}
		c.port(under(where, "port"), r.Port)
		for _, name := range slices.Sorted(maps.Keys(r.Ports)) {
			if !roleName.MatchString(name) {
				c.fail(under(where, "ports", name), "want small letters, digits and underscores")
			}
			c.port(under(where, "ports", name), r.Ports[name])
		}
		if r.Replicas < 0 {
			c.fail(under(where, "replicas"), "%d is less than none", r.Replicas)
		}
		if r.Replicas > MaxReplicas {
			c.fail(under(where, "replicas"), "%d replicas, %d at most", r.Replicas, MaxReplicas)
		}
		if r.KeyEnv != "" && !variable.MatchString(r.KeyEnv) {
			c.fail(under(where, "key_env"), "%q is no name of a variable", r.KeyEnv)
		}
		c.expression(under(where, "ready", "line"), r.Ready.Line)
		c.path(under(where, "ready", "health"), r.Ready.Health)
		if r.Ready.Wait < 0 {
			c.fail(under(where, "ready", "wait"), "%s is less than nothing", r.Ready.Wait)
		}
		c.command(under(where, "command"), &r, r.Command)
		for _, name := range slices.Sorted(maps.Keys(r.Env)) {
			if !variable.MatchString(name) {
				c.fail(under(where, "env", name), "%q is no name of a variable", name)
			}
			c.template(under(where, "env", name), &r, r.Env[name])
		}
		for _, name := range slices.Sorted(maps.Keys(r.Files)) {
			if name == "" || strings.ContainsAny(name, `/\`) || strings.HasPrefix(name, ".") {
				c.fail(under(where, "files", name), "%q: want a plain file name", name)
			}
			c.template(under(where, "files", name), &r, r.Files[name])
		}
		var before []int
		for j, v := range r.Versions {
			below, ok := parseVersion(v.Below)
			if !ok {
				c.fail(under(where, "versions", j, "below"), "%q: want a version such as 0.11", v.Below)
			} else if slices.Compare(below, before) <= 0 {
				c.fail(under(where, "versions", j, "below"), "%q: want the oldest first", v.Below)
			}
			before = below
			if v.Command != nil {
				c.command(under(where, "versions", j, "command"), &r, v.Command)
			}
		}
		if r.Metrics != nil {
			c.metrics(under(where, "metrics"), r.Metrics, &r)
		}
	}
}

func (c *checker) command(where []any, r *Role, command []string) {
	if len(command) == 0 {
		c.fail(where, "role %q has no command", r.Name)
	}
	for i, text := range command {
		if text == flagsElement {
			continue
		}
		if m := eachElement.FindStringSubmatch(text); m != nil {
			if c.p.Role(m[1]) == nil {
				c.fail(under(where, i), "there is no role %q", m[1])
			}
			continue
		}
		c.template(under(where, i), r, text)
	}
}

// template tries a template with every variable that it may use.
func (c *checker) template(where []any, r *Role, text string) {
	if c.budget.steps < 0 {
		return // said once
	}
	_, err := c.budget.render(text, example(r, c.peers), func(_ string, byDefault ...any) (string, error) {
		if len(byDefault) > 1 {
			return "", errors.New("arg: one default at most")
		}
		return "1", nil
	})
	if err != nil {
		c.fail(where, "%v", err)
	}
}

// example returns what the templates of a role see before anything is started.
func example(r *Role, peers map[string][]Address) Vars {
	return Vars{Model: "org/model", Host: "127.0.0.1", Port: 1, Ports: r.Ports, Dir: "/dir", Peers: peers, GPUs: 1, GPU: "gpu", Sweep: "sweep"}
}

// examplePeers returns so many replicas of each role.
func (p *Profile) examplePeers(replicas func(*Role) int) map[string][]Address {
	peers := make(map[string][]Address, len(p.Roles))
	for i := range p.Roles {
		r := &p.Roles[i]
		peers[r.Name] = slices.Repeat([]Address{{Host: "127.0.0.1", Port: 1, Ports: r.Ports, Dir: "/dir"}}, replicas(r))
	}
	return peers
}

// CheckCommand returns what is wrong with each element of a command that a plan
// gives for a role; nil is nothing. The plan may start any number of replicas of
// each role, so each has the most there can be.
func (p *Profile) CheckCommand(role string, command []string) []error {
	wrong := make([]error, len(command))
	r := p.Role(role)
	if r == nil {
		return wrong // nothing of it is started
	}
	c := &checker{p: p, peers: p.examplePeers(func(*Role) int { return MaxReplicas }), budget: newBudget()}
	c.command(nil, r, command)
	for _, one := range c.problems {
		if i, ok := one.at[0].(int); ok && wrong[i] == nil {
			wrong[i] = errors.New(one.text)
		}
	}
	return wrong
}

func (c *checker) flags() {
	f := c.p.Flags
	if !slices.Contains([]string{"", "dash", "underscore"}, f.Style) {
		c.fail(at("flags", "style"), "style %q: want dash or underscore", f.Style)
	}
	if !slices.Contains([]string{"", "spread", "repeat", "comma"}, f.Lists) {
		c.fail(at("flags", "lists"), "lists %q: want spread, repeat or comma", f.Lists)
	}
	if len(f.NestedNames) > 0 && f.Nested == "" {
		c.fail(at("flags", "nested_names"), "there is no flag nested that takes a file")
	}
	for key, list := range map[string][]string{
		"negate": f.Negate, "known": f.Known, "reserved": f.Reserved, "served": {f.Served}, "nested": {f.Nested}, "nested_names": f.NestedNames,
	} {
		for i, name := range list {
			if strings.HasPrefix(name, "-") {
				where := at("flags", key, i)
				if key == "served" || key == "nested" {
					where = where[:2]
				}
				c.fail(where, "%q: want the flag without its dashes", name)
			}
		}
	}
}

// metrics checks what stands in a profile, or in a role r.
func (c *checker) metrics(where []any, m *Metrics, r *Role) {
	c.path(under(where, "path"), m.Path)
	c.path(under(where, "iterations"), m.Iterations)
	for i, path := range m.Fallback {
		c.path(under(where, "fallback", i), path)
	}
	if m.Port != "" && r != nil {
		if _, ok := r.Ports[m.Port]; !ok {
			c.fail(under(where, "port"), "role %q has no port %q", r.Name, m.Port)
		}
	}
	if strings.HasPrefix(m.Flag, "-") {
		c.fail(under(where, "flag"), "%q: want the flag without its dashes", m.Flag)
	}
	if re := c.expression(under(where, "reported"), m.Reported); re != nil && m.Reported != "" && re.NumSubexp() < 1 {
		c.fail(under(where, "reported"), "it has no group for the number")
	}
	if re := c.expression(under(where, "routed"), m.Routed); re != nil && m.Routed != "" {
		for _, group := range []string{"request", "worker", "phase"} {
			if re.SubexpIndex(group) < 0 {
				c.fail(under(where, "routed"), "it has no group (?P<%s>...)", group)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Series)) {
		if Canonical(name) == "" {
			c.fail(under(where, "series", name), "%q is not a canonical quantity", name)
		}
		for i := range m.Series[name] {
			s := &m.Series[name][i]
			c.series(under(where, "series", name, i), s, false)
			if s.Zero != nil && Canonical(name) != Counter {
				c.fail(under(where, "series", name, i, "zero"), "%s is no counter, so an absent one is unknown and not 0", name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Settings)) {
		for i := range m.Settings[name] {
			c.series(under(where, "settings", name, i), &m.Settings[name][i], false)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Meanings)) {
		if m.Meanings[name] == "" {
			c.fail(under(where, "meanings", name), "says nothing")
		}
	}
}

// series checks one series; second says that it is another's times, needs or zero.
func (c *checker) series(where []any, s *Series, second bool) {
	if s.Name == "" && (!second || s.Label == "") {
		c.fail(under(where, "name"), "a series without a name")
	}
	if s.Scale < 0 {
		c.fail(under(where, "scale"), "%g is less than nothing", s.Scale)
	}
	if !slices.Contains([]string{"", "sum", "mean", "max"}, s.Reduce) {
		c.fail(under(where, "reduce"), "reduce %q: want sum, mean or max", s.Reduce)
	}
	if second && (s.Times != nil || s.Needs != nil || s.Zero != nil) {
		c.fail(where, "a series of times, needs or zero has none of these")
		return
	}
	if s.Times != nil {
		c.series(under(where, "times"), s.Times, true)
	}
	for _, other := range []struct {
		key string
		*Series
	}{{"needs", s.Needs}, {"zero", s.Zero}} {
		if other.Series == nil {
			continue
		}
		if other.Name == "" {
			c.fail(under(where, other.key, "name"), "a series without a name")
		}
		c.series(under(where, other.key), other.Series, true)
	}
}

// expression checks a regular expression, and returns nil for one that is wrong.
// Ten bytes of one can become a thousand instructions.
func (c *checker) expression(where []any, expr string) *regexp.Regexp {
	if len(expr) > maxExpression {
		c.fail(where, "a regular expression of %d bytes, %d at most", len(expr), maxExpression)
		return nil
	}
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		c.fail(where, "%v", err)
		return nil
	}
	before := c.program
	if prog, err := syntax.Compile(tree.Simplify()); err == nil {
		c.program += len(prog.Inst)
	}
	if c.program > maxProgram {
		if before <= maxProgram { // said once
			c.fail(where, "the regular expressions have more than %d instructions together", maxProgram)
		}
		return nil
	}
	return regexp.MustCompile(expr)
}

func (c *checker) path(where []any, path string) {
	if path != "" && !strings.HasPrefix(path, "/") {
		c.fail(where, "path %q does not start with a slash", path)
	}
}

func (c *checker) port(where []any, port int) {
	if port < 0 || port > 65535 {
		c.fail(where, "%d is no port", port)
	}
}
