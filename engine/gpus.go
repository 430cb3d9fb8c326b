package engine

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// GPUs says which GPUs one replica of a role of tier engine uses. Roles of the
// other tiers use none.
type GPUs struct {
	// Sizes multiply to the GPUs of one replica. A size that no argument gives is
	// 1. An engine without sizes uses what it gets: the plan's gpu_count says it.
	Sizes []Size `yaml:"sizes,omitempty" doc:"Sizes of the engine's parallelism, which multiply to the GPUs of one replica; one that no argument gives is 1." default:"none: the plan's gpu_count says how many GPUs there are"`
	// All: without any of these arguments the engine uses all GPUs that it sees.
	All bool `yaml:"all,omitempty" doc:"Without any of these arguments it uses all GPUs that it sees, so gpu_count says how many." default:"false"`
	// None: its replicas compute nothing.
	None bool `yaml:"none,omitempty" doc:"It needs no GPU." default:"false"`
	// Elsewhere lists arguments that name a file in which sizes may stand. With
	// one of them a size that is not on the command line is not known.
	Elsewhere []string `yaml:"elsewhere,omitempty" doc:"Arguments that name a file in which sizes may stand." default:"none"`
}

// A Size is one kind of parallelism that needs GPUs of its own. Expert and
// decode-context parallelism share those of the others and are none.
type Size struct {
	Name string `yaml:"name" doc:"Kind of parallelism." enum:"tensor,pipeline,data,context"`
	// Args are the names of one argument: the first is the one to name in
	// messages. The last on a command line counts, as it does for the engines.
	Args []string `yaml:"args" doc:"Names of the argument, without dashes, the usual one first."`
	// Unless lists arguments with which the size shares the GPUs of the others.
	Unless []string `yaml:"unless,omitempty" doc:"Arguments with which it needs no GPUs of its own." default:"none"`
}

// Kinds of parallelism.
const (
	TensorParallel   = "tensor"
	PipelineParallel = "pipeline"
	DataParallel     = "data"
	ContextParallel  = "context"
)

// A Parallelism is how one replica of a role spreads over GPUs.
type Parallelism struct {
	// GPUs is the product of Sizes; 0 for a role that uses none.
	GPUs int
	// Known is false if the arguments do not say it: GPUs is 1 then, and the
	// plan's gpu_count may say otherwise.
	Known bool
	Sizes []GivenSize // those that arguments give, in the profile's order
}

// A GivenSize is a size as an argument gives it.
type GivenSize struct {
	Name string // as in [Size]
	Arg  string // the name that was used, without dashes
	N    int
}

// String returns the sizes for people: "tensor-parallel-size 2 x data-parallel-size 4".
func (p Parallelism) String() string {
	var parts []string
	for _, s := range p.Sizes {
		parts = append(parts, fmt.Sprintf("%s %d", s.Arg, s.N))
	}
	return strings.Join(parts, " x ")
}

// Only reports whether these are the only sizes above 1.
func (p Parallelism) Only(names ...string) bool {
	return !slices.ContainsFunc(p.Sizes, func(s GivenSize) bool { return s.N > 1 && !slices.Contains(names, s.Name) })
}

// A WrongSize is the value of a parallelism argument that is no number of GPUs.
type WrongSize struct {
	Arg   string // as given, without dashes
	Value string
}

func (w WrongSize) String() string {
	return fmt.Sprintf("%s is %q: want a whole number from 1, and at most %d GPUs in all", w.Arg, w.Value, MaxGPUs)
}

// MaxGPUs bounds the GPUs of a deployment.
const MaxGPUs = 4096

// Parallelism reads how many GPUs one replica of a role uses from the command
// line that args and command give, as in [Profile.Argv]; command nil is the
// role's own. Of v it takes the Model, Served, GPU and GPUs. It is not known if
// a value is wrong.
func (p *Profile) Parallelism(role string, v Vars, args []Arg, command []string) (Parallelism, []WrongSize) {
	r := p.Role(role)
	if !r.Computes() || p.GPUs.None {
		return Parallelism{Known: true}, nil
	}
	unknown := Parallelism{GPUs: 1}
	if r == nil || len(p.GPUs.Sizes) == 0 {
		return unknown, nil
	}
	ex := example(r, p.examplePeers(func(*Role) int { return 1 }))
	ex.Model, ex.Served, ex.GPU, ex.GPUs = v.Model, v.Served, v.GPU, v.GPUs
	given := p.options(role, ex, args, command)
	out := Parallelism{GPUs: 1, Known: command == nil && !p.GPUs.All && !p.givesAny(given, p.GPUs.Elsewhere)}
	var wrong []WrongSize
	for _, size := range p.GPUs.Sizes {
		o, ok := p.last(given, size.Args)
		if !ok || p.givesAny(given, size.Unless) {
			continue
		}
		n, err := strconv.Atoi(o.value)
		if err != nil || n < 1 || n > MaxGPUs || out.GPUs*n > MaxGPUs {
			wrong = append(wrong, WrongSize{Arg: o.name, Value: o.value})
			continue
		}
		out.GPUs *= n
		out.Known = true
		out.Sizes = append(out.Sizes, GivenSize{Name: size.Name, Arg: o.name, N: n})
	}
	if len(wrong) > 0 {
		return unknown, wrong
	}
	return out, nil
}

// The roles of an engine that prefills and decodes apart.
const (
	RolePrefill = "prefill"
	RoleDecode  = "decode"
)

// Disaggregated reports whether prompts are computed by servers of their own.
func (p *Profile) Disaggregated() bool {
	return p.Role(RolePrefill) != nil && p.Role(RoleDecode) != nil
}

// MovesByNIXL reports whether a command line, as in [Profile.Parallelism], names NIXL as what
// moves KV caches.
func (p *Profile) MovesByNIXL(role string, v Vars, args []Arg, command []string) bool {
	r := p.Role(role)
	if r == nil {
		return false
	}
	ex := example(r, p.examplePeers(func(*Role) int { return 1 }))
	ex.Model, ex.Served, ex.GPU, ex.GPUs = v.Model, v.Served, v.GPU, v.GPUs
	return slices.ContainsFunc(p.options(role, ex, args, command), func(o option) bool { return strings.Contains(strings.ToLower(o.value), "nixl") })
}

// An option is one flag of a command line with what follows it.
type option struct{ name, value string }

// options returns the flags of a command line, also of one inside a shell's line. If
// the command line cannot be made, which is reported elsewhere, they are those of
// the arguments.
func (p *Profile) options(role string, v Vars, args []Arg, command []string) []option {
	argv, err := p.Argv(role, v, args, command)
	if err != nil {
		argv = nil
		for _, a := range args {
			if flag, err := p.flag(p.FlagName(a.Name), a.Value); err == nil {
				argv = append(argv, flag...)
			}
		}
	}
	var words []string
	for _, text := range argv {
		if strings.Contains(text, " -") {
			words = append(words, strings.Fields(text)...)
			continue
		}
		words = append(words, text)
	}
	var out []option
	for i, word := range words {
		if len(word) < 2 || word[0] != '-' {
			continue
		}
		name, value, has := strings.Cut(strings.TrimLeft(word, "-"), "=")
		if !has && i+1 < len(words) {
			value = words[i+1]
		}
		out = append(out, option{name: p.FlagName(name), value: strings.Trim(value, `'"`)})
	}
	return out
}

// last returns the last of the options by one of these names.
func (p *Profile) last(given []option, names []string) (option, bool) {
	for _, o := range slices.Backward(given) {
		if p.listed(names, o.name) {
			return o, true
		}
	}
	return option{}, false
}

func (p *Profile) givesAny(given []option, names []string) bool {
	o, ok := p.last(given, names)
	return ok && o.value != "false"
}

// ArgName is [Profile.FlagName] with one name for an argument that has several:
// tensor-parallel-size for tp and tp-size.
func (p *Profile) ArgName(name string) string {
	for _, size := range p.GPUs.Sizes {
		if p.listed(size.Args, name) {
			return p.FlagName(size.Args[0])
		}
	}
	return p.FlagName(name)
}

// TensorArg returns the argument that spreads a model over GPUs; "" for an engine that
// has none.
func (p *Profile) TensorArg() string { return p.SizeArg(TensorParallel) }

// SizeArg returns the argument for a kind of parallelism; "" for an engine that has
// none.
func (p *Profile) SizeArg(kind string) string {
	for _, size := range p.GPUs.Sizes {
		if size.Name == kind {
			return p.FlagName(size.Args[0])
		}
	}
	return ""
}

func (c *checker) gpus() {
	g := c.p.GPUs
	if g.None && len(g.Sizes) > 0 {
		c.fail(at("gpus", "none"), "an engine without GPUs has no sizes")
	}
	seen := map[string]bool{}
	for i, size := range g.Sizes {
		where := at("gpus", "sizes", i)
		if !slices.Contains([]string{TensorParallel, PipelineParallel, DataParallel, ContextParallel}, size.Name) {
			c.fail(under(where, "name"), "%q: want tensor, pipeline, data or context", size.Name)
		}
		if len(size.Args) == 0 {
			c.fail(under(where, "args"), "the size %s has no argument", size.Name)
		}
		for j, name := range size.Args {
			if strings.HasPrefix(name, "-") || seen[c.p.FlagName(name)] {
				c.fail(under(where, "args", j), "%q: want a name without dashes, once", name)
			}
			seen[c.p.FlagName(name)] = true
		}
	}
}
