package sim

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/input"
	"sweep.dev/sweep/sim/dialect"
)

// withoutEffect are flags of the real engine that change nothing that is
// simulated; true: the flag takes a value. The others have a --no- form too.
var withoutEffect = map[string]bool{
	"trust-remote-code": false, "enforce-eager": false, "async-scheduling": false,
	"disable-log-requests": false, "disable-uvicorn-access-log": false,
	"tokenizer": true, "tokenizer-mode": true, "revision": true, "tokenizer-revision": true,
	"download-dir": true, "load-format": true, "generation-config": true, "swap-space": true,
	"uvicorn-log-level": true, "chat-template": true, "disable-access-log-for-endpoints": true,
	"distributed-executor-backend": true, "compilation-config": true,
}

// own are the flags that the simulator has with every engine, beside that
// engine's.
var own = map[string]bool{
	"engine": true, "engine-version": true, "model": true, "gpu": true, "tensor-parallel-size": true,
	"host": true, "port": true, "seed": true, "jitter": true, "card": true, "card-speed": true, "fitted": true, "time-scale": true, "start-delay": true,
	"request-log": true, "fault": true, "help": true, "served-model-name": true,
}

// hidden begins the names of flags that only other engines' flags become.
const hidden = "x-"

// spoken finds the engine and its release, which say what all other arguments
// mean.
func spoken(args []string) (engine, release string) {
	engine = "vllm"
	for i, arg := range args {
		name, value, has := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if !has && i+1 < len(args) {
			value = args[i+1]
		}
		switch strings.ReplaceAll(name, "_", "-") {
		case "engine":
			engine = value
		case "engine-version":
			release = value
		}
	}
	return engine, release
}

// arrange turns a command line of the engine into one for package flag: names
// with dashes, "--no-x" and short forms known, flags without effect taken out,
// the positional arguments apart. Unknown arguments fail together, in the
// engine's words.
func (f *flags) arrange(fs *flag.FlagSet, args []string) (known, positional []string, err error) {
	alias := map[string]string{"gpu-count": "tensor-parallel-size", "h": "help"}
	if f.dialect.Name == "vllm" {
		alias["tp"] = "tensor-parallel-size"
	}
	var unknown, settings []string
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if arg == "--" {
			positional = append(positional, args...)
			break
		}
		if !strings.HasPrefix(arg, "-") || arg == "-" {
			positional = append(positional, arg)
			continue
		}
		name, value, has := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		name = strings.ReplaceAll(name, "_", "-")
		if a, ok := alias[name]; ok {
			name = a
		}
		if name == "help" {
			return []string{"-help"}, nil, nil
		}
		to, ok := f.meaning(fs, name)
		if !ok {
			unknown = append(unknown, arg)
			for len(args) > 0 && !strings.HasPrefix(args[0], "-") {
				unknown = append(unknown, args[0])
				args = args[1:]
			}
			continue
		}
		if to.Value && !has {
			if len(args) == 0 {
				return nil, nil, f.usage(f.dialect.Usage.Head + fmt.Sprintf(f.dialect.Usage.Missing, name))
			}
			value, args, has = args[0], args[1:], true
		}
		if to.To == "served-model-name" {
			for len(args) > 0 && !strings.HasPrefix(args[0], "-") {
				value += "," + args[0]
				args = args[1:]
			}
		}
		switch {
		case to.To == "":
			f.ignored = append(f.ignored, "--"+name)
		case to.To == "x-config":
			more, err := f.config(value)
			if err != nil {
				return nil, nil, err
			}
			settings = append(settings, more...)
		case to.As != "" && !has:
			known = append(known, "-"+to.To+"="+to.As)
		case has:
			known = append(known, to.Becomes(value))
		default:
			known = append(known, "-"+to.To)
		}
	}
	if len(unknown) > 0 {
		return nil, nil, f.usage(f.dialect.Usage.Complain(unknown))
	}
	return append(known, settings...), positional, nil
}

// meaning returns what a flag of the command line is to the simulator: one of its
// own, which for vLLM all are, or what the engine's becomes.
func (f *flags) meaning(fs *flag.FlagSet, name string) (dialect.Flag, bool) {
	if to, ok := f.dialect.Lookup(name); ok {
		return to, true
	}
	if def := fs.Lookup(name); def != nil && (f.dialect.Name == "vllm" || own[name]) && !strings.HasPrefix(name, hidden) {
		b, ok := def.Value.(interface{ IsBoolFlag() bool })
		return dialect.Flag{To: name, Value: !ok || !b.IsBoolFlag()}, true
	}
	if positive, no := strings.CutPrefix(name, "no-"); no && f.dialect.Name != "vllm" {
		to, ok := f.dialect.Lookup(positive) // what a plan switches off is left out
		return dialect.Flag{}, ok && !to.Value
	}
	if f.dialect.Name != "vllm" {
		return dialect.Flag{}, false
	}
	takes, ok := withoutEffect[name]
	if positive, no := strings.CutPrefix(name, "no-"); no && !ok {
		takesValue, known := withoutEffect[positive]
		ok = known && !takesValue
	}
	return dialect.Flag{Value: takes}, ok
}

// maxConfig bounds a file of settings.
const maxConfig = 1 << 20

// config reads a file of settings into flags. What it says wins over the
// command line, as it does with trtllm-serve.
func (f *flags) config(path string) ([]string, error) {
	src, err := input.ReadFile(path, maxConfig)
	if err != nil {
		return nil, f.usage(f.dialect.Usage.Head + "Error: Invalid value for '--config': " + err.Error())
	}
	settings, err := dialect.ParseConfig(src)
	if err != nil {
		return nil, f.usage(fmt.Sprintf("%sError: %s: %v", f.dialect.Usage.Head, path, err))
	}
	var known []string
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		to, ok := f.dialect.Config(key)
		if !ok {
			f.ignored = append(f.ignored, key)
			continue
		}
		known = append(known, to.Becomes(settings[key]))
	}
	return known, nil
}
