package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// ArgsFile is the name of the file of settings that [Flags].Nested takes.
const ArgsFile = "sweep-args.yaml"

// Extra renders what a replica of a role gets beside its command line: its
// environment, and the files that [Profile.Argv] expects under v.Dir, by name.
// Either may be nil.
//
// Where the profile has a flag for a file of settings, the args of a role of
// tier engine that are mappings, have a dot in their name or are listed in
// [Flags].NestedNames are in [ArgsFile], a dot for each level and underscores for
// dashes, over what the role itself puts there.
func (p *Profile) Extra(role string, v Vars, args []Arg) (env map[string]string, files map[string][]byte, err error) {
	r := p.Role(role)
	if r == nil {
		return nil, nil, nil // nothing of it is started
	}
	arg, limit := p.argument(args, map[string]bool{}), newBudget()
	for name, text := range r.Env {
		if env == nil {
			env = make(map[string]string, len(r.Env))
		}
		if env[name], err = limit.render(text, v, arg); err != nil {
			return nil, nil, fmt.Errorf("engine %s: env %s: %w", p.Name, name, err)
		}
	}
	for name, text := range r.Files {
		if files == nil {
			files = make(map[string][]byte, len(r.Files))
		}
		text, err := limit.render(text, v, arg)
		if err != nil {
			return nil, nil, fmt.Errorf("engine %s: file %s: %w", p.Name, name, err)
		}
		files[name] = []byte(text)
	}
	if !r.Computes() || !p.hasArgsFile(r, args) {
		return env, files, nil
	}
	if files == nil {
		files = make(map[string][]byte, 1)
	}
	if files[ArgsFile], err = p.argsFile(files[ArgsFile], args); err != nil {
		return nil, nil, fmt.Errorf("engine %s: %w", p.Name, err)
	}
	return env, files, nil
}

// nested reports whether an argument is a setting in a file instead of a flag.
func (p *Profile) nested(a Arg) bool {
	if p.Flags.Nested == "" {
		return false
	}
	_, mapping := a.Value.(map[string]any)
	return mapping || strings.Contains(a.Name, ".") || p.listed(p.Flags.NestedNames, a.Name)
}

// hasArgsFile reports whether a role of tier engine needs the file of settings.
func (p *Profile) hasArgsFile(r *Role, args []Arg) bool {
	if p.Flags.Nested == "" {
		return false
	}
	if _, ok := r.Files[ArgsFile]; ok {
		return true
	}
	return slices.ContainsFunc(args, p.nested)
}

// argsFile writes the nested args over the settings in own.
func (p *Profile) argsFile(own []byte, args []Arg) ([]byte, error) {
	settings := map[string]any{}
	if err := yaml.Unmarshal(own, &settings); err != nil {
		return nil, fmt.Errorf("file %s: %w", ArgsFile, err)
	}
	plans := map[string]any{} // apart, so that one argument cannot hide another
	for _, a := range args {
		if !p.nested(a) {
			continue
		}
		if err := put(plans, strings.Split(strings.ReplaceAll(a.Name, "-", "_"), "."), a.Value); err != nil {
			return nil, fmt.Errorf("argument %q: %w", a.Name, err)
		}
	}
	out, err := yaml.Marshal(over(settings, plans))
	if err != nil {
		return nil, fmt.Errorf("file %s: %w", ArgsFile, err)
	}
	return out, nil
}

// put sets the value at a path of keys in m. What stands there already is an
// error, unless both are mappings without a key in common.
func put(m map[string]any, keys []string, value any) error {
	key := keys[0]
	if key == "" {
		return errors.New("a level of it has no name")
	}
	if len(keys) == 1 {
		mapping, ok := value.(map[string]any)
		if !ok {
			if _, taken := m[key]; taken {
				return fmt.Errorf("%s is given twice", key)
			}
			m[key] = value
			return nil
		}
		if _, taken := m[key]; !taken {
			m[key] = map[string]any{}
		}
		for k, v := range mapping {
			if err := put(m, []string{key, k}, v); err != nil {
				return err
			}
		}
		return nil
	}
	inner, ok := m[key].(map[string]any)
	if !ok {
		if _, taken := m[key]; taken {
			return fmt.Errorf("%s is given as one value too", key)
		}
		inner = map[string]any{}
		m[key] = inner
	}
	return put(inner, keys[1:], value)
}

// over returns base with what top says instead, level by level.
func over(base, top map[string]any) map[string]any {
	out := maps.Clone(base)
	if out == nil {
		out = map[string]any{}
	}
	for key, value := range top {
		b, ok := out[key].(map[string]any)
		t, both := value.(map[string]any)
		if ok && both {
			value = over(b, t)
		}
		out[key] = value
	}
	return out
}
