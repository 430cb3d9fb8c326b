package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/sim/dialect"
	"sweep.dev/sweep/sim/fleet"
)

// A kind is what of the simulator one role of a deployment is.
type kind struct {
	engine   string // a dialect, or what has several roles
	role     string // "" for a server on its own
	computes bool   // it is an engine, with the plan's arguments
	flags    []string
	args     map[string]any
}

// kindOf finds what a role is, by the names of the roles and by the command line
// that the real one would have.
func kindOf(spec backends.Spec, role backends.Role, at backends.Address) (kind, error) {
	var real []string
	if role.Argv != nil {
		real, _ = role.Argv(at) // what it says wrong is no matter of ours
	}
	args := spec.Args
	if role.Args != nil {
		args = role.Args
	}
	for name := range args {
		if strings.ReplaceAll(name, "_", "-") == "time-scale" {
			return kind{}, fmt.Errorf("%w: the argument %s is set by the backend: write time_scale there", backends.ErrSpec, name)
		}
	}
	k := kind{engine: spec.Engine, computes: true, args: settled(args, real)}
	if served, ok := flagOf(real, "served-model-name", "served_model_name", "model-name", "alias"); ok && served != spec.Model {
		k.flags = append(k.flags, "--served-model-name="+served)
	}
	if config, ok := flagOf(real, settingsFlags...); ok && config != "" {
		k.flags = append(k.flags, "--config="+config)
	}
	for _, name := range switches {
		if slices.Contains(real, "--"+name) {
			k.flags = append(k.flags, "--"+name)
		}
	}
	has := func(names ...string) bool {
		return slices.ContainsFunc(spec.Roles, func(r backends.Role) bool { return slices.Contains(names, r.Name) })
	}
	switch {
	case len(spec.Roles) < 2:
		switch spec.Engine {
		case "", "sim", "generic-openai":
			k.engine = "vllm"
		}
		if !slices.Contains(dialect.Names(), k.engine) {
			return kind{}, fmt.Errorf("%w: the simulator speaks the dialects of %s, not of %s", backends.ErrSpec, strings.Join(dialect.Names(), ", "), spec.Engine)
		}
		return k, nil
	case has("gateway", "epp"):
		k.engine = "llm-d"
	case has("frontend") && has("worker", "decode"):
		k.engine = "dynamo"
	}
	k.role = role.Name
	if !slices.Contains(fleet.Roles(k.engine), k.role) {
		return kind{}, fmt.Errorf("%w: the simulator has no role %s of %s", backends.ErrSpec, role.Name, spec.Engine)
	}
	if k.computes = fleet.Computes(k.engine, k.role); !k.computes {
		k.flags = nil
	}
	switch k.role {
	case "frontend":
		if mode, ok := flagOf(real, "router-mode"); ok && slices.Contains(fleet.RouterModes, mode) {
			k.flags = append(k.flags, "--router-mode="+mode)
		}
		k.peers("worker-urls", at, "worker", "prefill", "decode")
		// Measured is the whole deployment, not what of it was first.
		if n := len(at.Peers["worker"]) + len(at.Peers["prefill"]) + len(at.Peers["decode"]); n > 1 {
			k.flags = append(k.flags, "--min-initial-workers="+strconv.Itoa(n))
		}
	case "sidecar":
		behind := at.Peers["decode"]
		if at.Replica < len(behind) {
			k.flags = append(k.flags, "--worker-urls=http://"+behind[at.Replica].String())
		}
	case "epp":
		if len(at.Peers["sidecar"]) > 0 {
			k.peers("worker-urls", at, "sidecar")
		} else {
			k.peers("worker-urls", at, "decode")
		}
		k.peers("prefill-urls", at, "prefill")
	case "gateway":
		k.peers("epp-url", at, "epp")
	default:
		k.flags = append(k.flags, "--inner="+inner(real))
	}
	return k, nil
}

// switches are flags of the profiles' own command lines without which an engine
// tells less of itself.
var switches = []string{"enable-metrics", "metrics", "publish-events-and-metrics"}

// inner returns the engine inside a worker of Dynamo, by the module that is run.
func inner(real []string) string {
	for _, name := range dialect.Names() {
		if slices.Contains(real, "dynamo."+name) {
			return name
		}
	}
	return "vllm"
}

// peers adds where the replicas of these roles listen.
func (k *kind) peers(flag string, at backends.Address, roles ...string) {
	var urls []string
	for _, role := range roles {
		for _, p := range at.Peers[role] {
			urls = append(urls, "http://"+p.String())
		}
	}
	if len(urls) > 0 {
		k.flags = append(k.flags, "--"+flag+"="+strings.Join(urls, ","))
	}
}

// settled returns the arguments without those that stand in a file of settings: the
// real command line names the file and not them.
func settled(args map[string]any, real []string) map[string]any {
	if _, ok := flagOf(real, settingsFlags...); !ok {
		return args
	}
	plain := func(s string) string { return strings.ReplaceAll(strings.TrimLeft(s, "-"), "-", "_") }
	out := map[string]any{}
	for name, v := range args {
		given := slices.ContainsFunc(real, func(arg string) bool {
			flag, _, _ := strings.Cut(arg, "=")
			return strings.HasPrefix(arg, "-") && plain(flag) == plain(name)
		})
		if given {
			out[name] = v
		}
	}
	return out
}

// settingsFlags name an engine's file of settings.
var settingsFlags = []string{"config", "extra_llm_api_options", "extra-engine-args"}

// flagOf returns the value of the first of these flags on a command line.
func flagOf(argv []string, names ...string) (string, bool) {
	for i, arg := range argv {
		name, value, has := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		switch {
		case !strings.HasPrefix(arg, "-") || !slices.Contains(names, name):
		case has:
			return value, true
		case i+1 < len(argv):
			return argv[i+1], true
		}
	}
	return "", false
}
