package engine

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"
)

//go:embed profiles/*.yaml
var profiles embed.FS

// builtin reads the embedded profiles once. They are part of the program: one
// that does not parse is a bug that no user can mend, hence the panic.
var builtin = sync.OnceValue(func() map[string]*Profile {
	names, err := fs.Glob(profiles, "profiles/*.yaml")
	if err != nil {
		panic(err)
	}
	all := make(map[string]*Profile, len(names))
	for _, name := range names {
		src, err := profiles.ReadFile(name)
		if err != nil {
			panic(err)
		}
		p, err := Parse(src)
		if err != nil {
			panic(fmt.Sprintf("engine: %s: %v", name, err))
		}
		if p.Name+".yaml" != path.Base(name) {
			panic(fmt.Sprintf("engine: %s holds the profile %q", name, p.Name))
		}
		all[p.Name] = p
	}
	return all
})

// Lookup returns the built-in profile of that name. It is shared and must not
// be changed.
func Lookup(name string) (*Profile, bool) {
	p, ok := builtin()[name]
	return p, ok
}

// Names lists the built-in profiles, sorted.
func Names() []string {
	var names []string
	for name := range builtin() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Parse reads one profile. Unknown keys, unknown canonical names, templates
// and expressions that do not compile are errors. A profile with like starts
// from the built-in profile of that name and replaces what it says itself, key
// by key.
func Parse(src []byte) (*Profile, error) {
	p, err := base(src)
	if err != nil {
		return nil, err
	}
	dec := yaml.NewDecoder(bytes.NewReader(src), yaml.Strict())
	if err := dec.Decode(p); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the profile is empty")
		}
		return nil, fmt.Errorf("profile: %w", err)
	}
	if p.API.MaxTokensField == "" {
		p.API.MaxTokensField = "max_tokens"
	}
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("profile %q: %w", p.Name, err)
	}
	return p, nil
}

// base is what a profile starts from: nothing, or what it is like.
func base(src []byte) (*Profile, error) {
	var head struct {
		Like string `yaml:"like"`
	}
	if err := yaml.Unmarshal(src, &head); err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	if head.Like == "" {
		return new(Profile), nil
	}
	// Read again instead of copied: the two must not share a slice or map.
	parent, err := profiles.ReadFile("profiles/" + head.Like + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("profile: like: there is no profile %q", head.Like)
	}
	var p Profile
	if err := yaml.NewDecoder(bytes.NewReader(parent), yaml.Strict()).Decode(&p); err != nil {
		return nil, fmt.Errorf("profile: like %q: %w", head.Like, err)
	}
	if p.Like != "" {
		return nil, fmt.Errorf("profile: like: %q is itself like another", head.Like)
	}
	return &p, nil
}

// check returns everything that is wrong with a decoded profile.
func (p *Profile) check() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if p.Name == "" {
		fail("name is missing")
	}
	seen := map[string]bool{}
	for _, r := range p.Roles {
		if r.Name == "" || seen[r.Name] {
			fail("role %q: every role needs a name of its own", r.Name)
		}
		seen[r.Name] = true
		if len(r.Command) == 0 {
			fail("role %q has no command", r.Name)
		}
		for _, text := range r.Command {
			if text == flagsElement {
				continue
			}
			if _, err := parseTemplate(text, nil); err != nil {
				fail("role %q: %w", r.Name, err)
			}
		}
	}
	if !slices.Contains([]string{"", "dash", "underscore"}, p.Flags.Style) {
		fail("flags.style %q: want dash or underscore", p.Flags.Style)
	}
	if !slices.Contains([]string{"", "spread", "repeat", "comma"}, p.Flags.Lists) {
		fail("flags.lists %q: want spread, repeat or comma", p.Flags.Lists)
	}
	for name, list := range p.Metrics.Series {
		if Canonical(name) == "" {
			fail("metrics.series: %q is not a canonical quantity", name)
		}
		for _, s := range list {
			if s.Name == "" {
				fail("metrics.series.%s: a series without a name", name)
			}
			if !slices.Contains([]string{"", "sum", "mean", "max"}, s.Reduce) {
				fail("metrics.series.%s: reduce %q: want sum, mean or max", name, s.Reduce)
			}
		}
	}
	for _, path := range []string{p.Ready.Health, p.Ready.Models, p.API.Chat, p.API.Completions, p.API.CacheReset, p.API.Version, p.Metrics.Path} {
		if path != "" && !strings.HasPrefix(path, "/") {
			fail("path %q does not start with a slash", path)
		}
	}
	for _, f := range p.Failures {
		if err := f.check(); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (f Failure) check() error {
	if f.Class == "" {
		return fmt.Errorf("failure %q has no class", f.Match)
	}
	if _, err := regexp.Compile("(?i)" + f.Match); err != nil {
		return fmt.Errorf("failure %s: %w", f.Class, err)
	}
	return nil
}
