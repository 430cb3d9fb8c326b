package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// An Arg is one engine argument of a plan: a flag's name without dashes, and a
// string, bool, integer, float, list of those, or mapping.
type Arg struct {
	Name  string
	Value any
}

// flagsElement is the element of a command that the flags take the place of.
const flagsElement = "{{flags}}"

// eachElement is an element that becomes one argument for each replica of a
// role, or two where a text shall stand before each.
var eachElement = regexp.MustCompile(`^\{\{\s*each\s+"([^"]+)"\s+"(URL|Addr)"(?:\s+"([^"]+)")?\s*\}\}$`)

// Argv renders the command line of a role.
//
// Each element of command, or of the role's own where command is nil, is a
// text/template over [Vars] and becomes exactly one argument; no shell is
// involved. {{arg "parallel"}} stands for the value of an argument of the plan
// and is an error without it, {{arg "parallel" 4}} has a default. An element
// {{each "worker" "URL"}} becomes one argument for each replica of that role
// ("URL" or "Addr"), {{each "worker" "URL" "--worker"}} two.
//
// The args that no role's own command used become flags of the roles of tier
// engine, in their order: at the end, or in place of an element that is
// {{flags}}. true is --name; false is --no-name where the profile says so and
// nothing otherwise. Lists are written as the profile says, mappings as JSON. A
// name of one letter gets one dash. For what goes into a file instead see
// [Profile.Extra].
func (p *Profile) Argv(role string, v Vars, args []Arg, command []string) ([]string, error) {
	r := p.Role(role)
	if r == nil {
		return nil, fmt.Errorf("engine %s has no role %q that could be started", p.Name, role)
	}
	if command == nil {
		command = r.Command
	}
	if len(command) == 0 {
		return nil, fmt.Errorf("engine %s: the command of role %q is empty", p.Name, role)
	}

	used := p.usedByOthers(role, args)
	arg, limit := p.argument(args, used), newBudget()
	argv := make([]string, 0, len(command)+2*len(args))
	at := -1
	for _, text := range command {
		if text == flagsElement {
			if at >= 0 {
				return nil, fmt.Errorf("engine %s: %s stands twice in the command", p.Name, flagsElement)
			}
			at = len(argv)
			continue
		}
		if m := eachElement.FindStringSubmatch(text); m != nil {
			list, err := each(v, m[1], m[2], m[3])
			if err == nil {
				err = limit.spend(size(list))
			}
			if err != nil {
				return nil, fmt.Errorf("engine %s: command element %.80q: %w", p.Name, text, err)
			}
			argv = append(argv, list...)
			continue
		}
		s, err := limit.render(text, v, arg)
		if err != nil {
			return nil, fmt.Errorf("engine %s: command element %.80q: %w", p.Name, text, err)
		}
		argv = append(argv, s)
	}
	if !r.Computes() {
		return argv, nil
	}
	flags, err := p.flags(r, v, args, used)
	if err != nil {
		return nil, fmt.Errorf("engine %s: %w", p.Name, err)
	}
	if at < 0 {
		at = len(argv)
	}
	return slices.Insert(argv, at, flags...), nil
}

// InImage returns a command line of a role's own Command as it is in the role's
// image: what begins with another program than the image's ENTRYPOINT begins
// with that one instead. llama-server is /app/llama-server there, and on no PATH.
func InImage(argv, entrypoint []string) []string {
	if len(argv) == 0 || len(entrypoint) == 0 || len(argv) >= len(entrypoint) && slices.Equal(argv[:len(entrypoint)], entrypoint) {
		return argv
	}
	return slices.Concat(entrypoint, argv[1:])
}

// usedByOthers returns the args that the commands of other roles take.
func (p *Profile) usedByOthers(role string, args []Arg) map[string]bool {
	used := make(map[string]bool)
	arg, limit := p.argument(args, used), newBudget()
	for _, r := range p.Roles {
		if r.Name == role {
			continue
		}
		for _, text := range r.Command {
			if strings.Contains(text, "{{arg ") {
				_, _ = limit.render(text, Vars{}, arg) // what it gives is of no interest
			}
		}
	}
	return used
}

// size returns the bytes of a list of arguments, with one for the end of each.
func size(list []string) int {
	n := len(list)
	for _, s := range list {
		n += len(s)
	}
	return n
}

// each returns where the replicas of a role listen, each behind a text unless that
// is "".
func each(v Vars, role, what, before string) ([]string, error) {
	var out []string
	for _, a := range v.Peers[role] {
		if before != "" {
			out = append(out, before)
		}
		if what == "URL" {
			out = append(out, a.URL())
		} else {
			out = append(out, a.String())
		}
	}
	if out == nil {
		return nil, fmt.Errorf("no replica of a role %q is known", role)
	}
	return out, nil
}

// argument returns the function arg of the templates: the value of an argument of
// the plan, whose name is added to used.
func (p *Profile) argument(args []Arg, used map[string]bool) argFunc {
	return func(name string, byDefault ...any) (string, error) {
		if len(byDefault) > 1 {
			return "", fmt.Errorf("arg %q: one default at most", name)
		}
		for _, a := range args {
			if p.FlagName(a.Name) == p.FlagName(name) {
				used[p.FlagName(name)] = true
				return scalar(a.Value)
			}
		}
		if len(byDefault) == 1 {
			return scalar(byDefault[0])
		}
		return "", fmt.Errorf("the plan has no argument %q", name)
	}
}

// FlagName returns the one spelling of a flag that may be written with dashes or
// underscores: the engine's, without the leading dashes.
func (p *Profile) FlagName(name string) string {
	if p.Flags.Style == "underscore" {
		return strings.ReplaceAll(name, "-", "_")
	}
	return strings.ReplaceAll(name, "_", "-")
}

// Reserved reports whether sweep sets this flag itself, so that a plan must not.
func (p *Profile) Reserved(name string) bool {
	return p.listed(p.Flags.Reserved, name)
}

// Known reports whether the profile lists this flag. An unknown one is passed on.
func (p *Profile) Known(name string) bool {
	return p.listed(p.Flags.Known, name)
}

func (p *Profile) listed(list []string, name string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return p.FlagName(s) == p.FlagName(name) })
}

func (p *Profile) flags(r *Role, v Vars, args []Arg, used map[string]bool) ([]string, error) {
	var out []string
	seen := make(map[string]bool)
	for _, a := range args {
		name := p.FlagName(a.Name)
		switch {
		case name == "" || strings.HasPrefix(name, "-") || strings.ContainsAny(name, "= \t\n"):
			return nil, fmt.Errorf("argument %q: want a flag's name without dashes", a.Name)
		case used[name]:
			continue
		case seen[name]:
			return nil, fmt.Errorf("argument %q is given twice", a.Name)
		case p.Reserved(name):
			return nil, fmt.Errorf("argument %q: sweep sets --%s itself", a.Name, name)
		}
		seen[name] = true
		if p.nested(a) {
			continue
		}
		flag, err := p.flag(name, a.Value)
		if err != nil {
			return nil, fmt.Errorf("argument %q: %w", a.Name, err)
		}
		out = append(out, flag...)
	}
	served := p.FlagName(p.Flags.Served)
	if v.Served != "" && v.Served != v.Model && served != "" && !seen[served] && !used[served] {
		out = append(out, dashed(served), v.Served)
	}
	if p.hasArgsFile(r, args) {
		nested := p.FlagName(p.Flags.Nested)
		if seen[nested] {
			return nil, fmt.Errorf("argument %q: sweep has settings of its own for this file; give them one by one", nested)
		}
		out = append(out, dashed(nested), path.Join(v.Dir, ArgsFile))
	}
	return out, nil
}

func (p *Profile) flag(name string, value any) ([]string, error) {
	switch value := value.(type) {
	case bool:
		if value {
			return []string{dashed(name)}, nil
		}
		if slices.Contains(p.Flags.Negate, "*") || p.listed(p.Flags.Negate, name) {
			return []string{dashed(p.FlagName("no-" + name))}, nil
		}
		return nil, nil
	case []any:
		return p.list(name, value)
	}
	s, err := scalar(value)
	if err != nil {
		return nil, err
	}
	return pair(name, s, value), nil
}

func (p *Profile) list(name string, values []any) ([]string, error) {
	texts := make([]string, 0, len(values))
	for _, v := range values {
		s, err := scalar(v)
		if err != nil {
			return nil, err
		}
		texts = append(texts, s)
	}
	if len(texts) == 0 {
		return nil, errors.New("the list is empty")
	}
	switch p.Flags.Lists {
	case "comma":
		return []string{dashed(name), strings.Join(texts, ",")}, nil
	case "repeat":
		var out []string
		for i, s := range texts {
			out = append(out, pair(name, s, values[i])...)
		}
		return out, nil
	default:
		return append([]string{dashed(name)}, texts...), nil
	}
}

// pair is --name value, or --name=value for a text that would be taken for a
// flag itself. Negative numbers are not.
func pair(name, text string, value any) []string {
	if _, isText := value.(string); isText && strings.HasPrefix(text, "-") && len(name) > 1 {
		return []string{dashed(name) + "=" + text}
	}
	return []string{dashed(name), text}
}

func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

func scalar(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", errors.New("has no value")
	case string:
		if strings.ContainsRune(v, 0) {
			return "", errors.New("holds a NUL byte")
		}
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case int:
		return strconv.Itoa(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case uint64:
		return strconv.FormatUint(v, 10), nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return "", fmt.Errorf("%v is not a number an engine could take", v)
		}
		// 1e6 must be 1000000: engines parse whole numbers strictly.
		if a := math.Abs(v); a == 0 || a >= 1e-6 && a < 1e18 {
			return strconv.FormatFloat(v, 'f', -1, 64), nil
		}
		return strconv.FormatFloat(v, 'g', -1, 64), nil
	case map[string]any:
		b, err := json.Marshal(v)
		if err != nil {
			return "", fmt.Errorf("as JSON: %w", err)
		}
		return string(b), nil
	default:
		return "", fmt.Errorf("a value of type %T cannot be an argument", v)
	}
}
