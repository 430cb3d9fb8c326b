package engine

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"

	"sweep.dev/sweep/engine/loglines"
	"sweep.dev/sweep/internal/input"
)

//go:embed profiles/*.yaml profiles/parts/*.yaml
var profiles embed.FS

// builtin reads each embedded profile once, when it is asked for: together they
// take longer than most commands. They are part of the program: one that does
// not parse is a bug that no user can fix, hence the panic.
var builtin = sync.OnceValue(func() map[string]func() *Profile {
	files, err := fs.Glob(profiles, "profiles/*.yaml")
	if err != nil {
		panic(err)
	}
	all := make(map[string]func() *Profile, len(files))
	for _, file := range files {
		name := strings.TrimSuffix(path.Base(file), ".yaml")
		all[name] = sync.OnceValue(func() *Profile {
			p, err := embedded(name, 0)
			if err != nil {
				panic(fmt.Sprintf("engine: %s: %v", file, err))
			}
			if p.Name != name {
				panic(fmt.Sprintf("engine: %s holds the profile %q", file, p.Name))
			}
			return p
		})
	}
	return all
})

// Lookup returns the built-in profile of that name. It is shared and must not
// be changed.
func Lookup(name string) (*Profile, bool) {
	p, ok := builtin()[name]
	if !ok {
		return nil, false
	}
	return p(), true
}

// Names lists the built-in profiles, sorted.
func Names() []string { return slices.Sorted(maps.Keys(builtin())) }

// Parse reads one profile. Unknown keys, unknown canonical names, templates
// and expressions that do not compile or name what there is not are errors, each
// with its line and column.
//
// A profile with like starts from the built-in profile of that name and
// replaces what it says itself, key by key; roles and lists are replaced as a
// whole. Metrics with like do the same with the metrics of a profile. An empty
// list of series takes a quantity away.
func Parse(src []byte) (*Profile, error) {
	if err := guard(src); err != nil {
		return nil, err
	}
	return parse(src, 1)
}

// maxFile bounds a file with a profile.
const maxFile = 256 << 10

// ReadFile reads a file with a profile for [Parse] or [Set.Add], of 256 KiB at
// most. Errors are as those of [input.Open].
func ReadFile(name string) ([]byte, error) { return input.ReadFile(name, maxFile) }

// deepest is how far profiles may be like others that are like others.
const deepest = 4

func parse(src []byte, depth int) (*Profile, error) {
	p, err := base(src, depth)
	if err != nil {
		return nil, err
	}
	parent := p.Metrics
	totals := p.Totals
	dec := yaml.NewDecoder(bytes.NewReader(src), yaml.Strict())
	if err := dec.Decode(p); err != nil {
		return nil, inYAML(err)
	}
	if p.API.MaxTokensField == "" {
		p.API.MaxTokensField = "max_tokens"
	}
	if p.API.VersionField == "" {
		p.API.VersionField = "version"
	}
	if p.MemoryLike == "none" {
		p.MemoryLike = ""
	}
	p.Totals = merged(totals, p.Totals)
	p.Metrics.from(&parent)
	var problems []problem
	if err := p.Metrics.resolve(depth); err != nil {
		problems = append(problems, problem{at: []any{"metrics", "like"}, text: err.Error()})
	}
	for i := range p.Roles {
		if m := p.Roles[i].Metrics; m != nil {
			if err := m.resolve(depth); err != nil {
				problems = append(problems, problem{at: []any{"roles", i, "metrics", "like"}, text: err.Error()})
			}
		}
	}
	if err := p.logs(src); err != nil {
		problems = append(problems, problem{at: []any{"logs", "like"}, text: err.Error()})
	}
	problems = append(problems, p.check()...)
	if len(problems) > 0 {
		return nil, located(src, problems)
	}
	return p, nil
}

// JSON returns the profile under the names of its YAML, with what it has from others.
func (p *Profile) JSON() ([]byte, error) {
	text, err := yaml.MarshalWithOptions(p, yaml.JSON())
	if err != nil {
		return nil, fmt.Errorf("profile %q: %w", p.Name, err)
	}
	return text, nil
}

// base returns what a profile starts from: nothing, or what it is like.
func base(src []byte, depth int) (*Profile, error) {
	var head struct {
		Like string `yaml:"like"`
	}
	if err := yaml.Unmarshal(src, &head); err != nil {
		return nil, inYAML(err)
	}
	if head.Like == "" {
		return new(Profile), nil
	}
	p, err := embedded(head.Like, depth)
	if err != nil {
		return nil, fmt.Errorf("profile: like: %w", err)
	}
	return p, nil
}

// embedded reads a built-in profile again instead of sharing it: what starts
// from it must not write into it.
func embedded(name string, depth int) (*Profile, error) {
	if depth == deepest {
		return nil, fmt.Errorf("%q is like another that is like another, too many times", name)
	}
	src, err := profiles.ReadFile("profiles/" + name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("there is no profile %q", name)
	}
	p, err := parse(src, depth+1)
	if err != nil {
		return nil, err
	}
	p.Metrics.Like = nil // it has them already
	return p, nil
}

// resolve fills in what metrics with like do not say themselves.
func (m *Metrics) resolve(depth int) error {
	var all Metrics
	for _, name := range m.Like {
		from, err := metricsOf(name, depth)
		if err != nil {
			return err
		}
		all.add(from)
	}
	m.from(&all)
	return nil
}

// metricsOf returns what a built-in profile or part says of metrics.
func metricsOf(name string, depth int) (*Metrics, error) {
	src, err := profiles.ReadFile("profiles/parts/" + name + ".yaml")
	if err != nil {
		p, err := embedded(name, depth)
		if err != nil {
			return nil, err
		}
		return &p.Metrics, nil
	}
	m := new(Metrics)
	if err := yaml.NewDecoder(bytes.NewReader(src), yaml.Strict()).Decode(m); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}

// logs fills in what logs with like do not say themselves. They have nothing of what the
// profile is like.
func (p *Profile) logs(src []byte) error {
	var own struct {
		Logs loglines.Logs `yaml:"logs"`
	}
	if err := yaml.Unmarshal(src, &own); err != nil {
		return inYAML(err)
	}
	if own.Logs.Like == "" {
		return nil
	}
	text, err := profiles.ReadFile("profiles/parts/" + own.Logs.Like + ".yaml")
	if err != nil {
		return fmt.Errorf("there is no part %q", own.Logs.Like)
	}
	part := new(loglines.Logs)
	if err := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict()).Decode(part); err != nil {
		return fmt.Errorf("%s: %w", own.Logs.Like, err)
	}
	own.Logs.From(part)
	own.Logs.Like = "" // it has them now
	p.Logs = own.Logs
	return nil
}

// add joins other metrics to m: each quantity is looked for as m has it, then
// as they have it.
func (m *Metrics) add(other *Metrics) {
	own := *m
	m.from(other)
	for name, list := range other.Series {
		if mine := own.Series[name]; len(mine) > 0 {
			m.Series[name] = slices.Concat(mine, list)
		}
	}
	for name, list := range other.Settings {
		if mine := own.Settings[name]; len(mine) > 0 {
			m.Settings[name] = slices.Concat(mine, list)
		}
	}
}

// from fills in, key by key, what m does not say itself. Where it is read is
// one thing: who says the path says it all.
func (m *Metrics) from(parent *Metrics) {
	if m.Path == "" {
		m.Path, m.Fallback, m.Iterations = parent.Path, parent.Fallback, parent.Iterations
		m.Port, m.Flag = cmp.Or(m.Port, parent.Port), cmp.Or(m.Flag, parent.Flag)
		m.Exclusive = m.Exclusive || parent.Exclusive
	}
	if m.Prefixes == nil {
		m.Prefixes = parent.Prefixes
	}
	m.Reported = cmp.Or(m.Reported, parent.Reported)
	m.Routed = cmp.Or(m.Routed, parent.Routed)
	m.Series = merged(parent.Series, m.Series)
	m.Settings = merged(parent.Settings, m.Settings)
	m.Meanings = merged(parent.Meanings, m.Meanings)
}

// merged is parent with what own says instead.
func merged[V any](parent, own map[string]V) map[string]V {
	if len(parent) == 0 {
		return own
	}
	out := maps.Clone(parent)
	maps.Copy(out, own)
	return out
}
