// Package sim starts simulated engines: each server of a deployment is this
// same program again as `sweep sim`, a process of its own under a guard, on a
// GPU that is only arithmetic. Everything it makes is simulated = true.
package sim

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/local"
	"sweep.dev/sweep/engine/catalog"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/layout"
	engine "sweep.dev/sweep/sim"
	"sweep.dev/sweep/sim/core"
	"sweep.dev/sweep/sim/fitted"
)

// Kind is the backend's name in a plan.
const Kind = "sim"

// A Config is the backend's part of a plan.
type Config struct {
	TimeScale  float64       `yaml:"time_scale,omitempty" doc:"Simulated seconds per real second: 10 is ten times as fast, for the client too. Any value but 1 makes trials INVALID (time_scaled)." default:"1" gt:"0" max:"1000" example:"20"`
	Jitter     float64       `yaml:"jitter,omitempty" doc:"Standard deviation of the logarithm of a step's time." default:"0.01" min:"0" max:"1" example:"0.05"`
	StartDelay time.Duration `yaml:"start_delay,omitempty" doc:"Time that a server loads before it listens." default:"none" unit:"s" example:"3s"`
	Faults     []string      `yaml:"faults,omitempty" doc:"Faults to simulate, as sweep sim --help lists them." default:"nothing" example:"['stall=2:300ms']"`
	RequestLog bool          `yaml:"request_log,omitempty" doc:"Each server writes the requests that it gets to a file beside its log." default:"false" example:"true"`
	Devices    []float64     `yaml:"devices,omitempty" doc:"Simulated cards that launches get by turns, each by how fast it is beside others of its kind. Each has a UUID of its own, the same at each of its turns." default:"a new card at each launch, all alike" min:"0.01" max:"100" example:"[1, 0.9, 1.05]"`
	Fitted     string        `yaml:"fitted,omitempty" doc:"File of sweep sim fit, whose measured rates the servers have instead of those of the data sheet. A relative path is of the working directory." default:"none" example:"l4-vllm.json"`
	CPUs       []int         `yaml:"cpus,omitempty" doc:"CPUs that the servers may run on (Linux)." default:"all" min:"0" example:"[0, 1]"`
}

// DefaultConfig holds the defaults of a plan's keys.
var DefaultConfig = Config{TimeScale: 1, Jitter: core.Jitter}

// A Backend starts simulated servers on this machine. See package local for
// ports, and for how leftovers are found.
type Backend struct {
	*local.Machine
	config Config
	self   string // our executable
}

var (
	_ backends.Backend    = (*Backend)(nil)
	_ backends.Simulator  = (*Backend)(nil)
	_ backends.TimeScaler = (*Backend)(nil)
	_ backends.Computable = (*Backend)(nil)
)

// Factory makes simulators.
func Factory(fx *effect.Effects) backends.Factory {
	return backends.Factory{
		Kind:   Kind,
		Doc:    "a simulated engine on a simulated GPU, here",
		Config: Config{},
		New: func(decode func(any) error) (backends.Backend, error) {
			c := DefaultConfig
			if err := decode(&c); err != nil {
				return nil, err
			}
			return New(fx, c)
		},
		Default: func(func(string) (string, bool)) (backends.Backend, error) { return New(fx, DefaultConfig) },
	}
}

// New makes a simulator of a configuration.
func New(fx *effect.Effects, c Config) (*Backend, error) {
	var errs []error
	if !(c.TimeScale > 0 && c.TimeScale <= 1000) {
		errs = append(errs, fmt.Errorf("backend sim: time_scale: %v is not above 0 and at most 1000", c.TimeScale))
	}
	if !(c.Jitter >= 0 && c.Jitter <= 1) {
		errs = append(errs, fmt.Errorf("backend sim: jitter: %v is not 0 to 1", c.Jitter))
	}
	if c.StartDelay < 0 {
		errs = append(errs, fmt.Errorf("backend sim: start_delay: %v is negative", c.StartDelay))
	}
	if err := engine.CheckFaults(c.Faults); err != nil {
		errs = append(errs, fmt.Errorf("backend sim: faults: %w", err))
	}
	if i := slices.IndexFunc(c.Devices, func(speed float64) bool { return !(speed >= 0.01 && speed <= 100) }); i >= 0 {
		errs = append(errs, fmt.Errorf("backend sim: devices: %v is not 0.01 to 100", c.Devices[i]))
	}
	if i := slices.IndexFunc(c.CPUs, func(n int) bool { return n < 0 }); i >= 0 {
		errs = append(errs, fmt.Errorf("backend sim: cpus: no CPU has the number %d", c.CPUs[i]))
	}
	if c.Fitted != "" {
		if _, err := fitted.Read(c.Fitted); err != nil {
			errs = append(errs, fmt.Errorf("backend sim: fitted: %w", err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("backend sim: %w", err)
	}
	return &Backend{Machine: &local.Machine{Kind: Kind, Effects: fx, CPUs: c.CPUs}, config: c, self: self}, nil
}

// Simulated is true.
func (b *Backend) Simulated() bool { return true }

// TimeScale returns that of the configuration, the same for all servers.
func (b *Backend) TimeScale() float64 { return b.config.TimeScale }

// Simulation returns what the configuration says of the arithmetic of servers.
func (b *Backend) Simulation() backends.Simulation {
	s := backends.Simulation{Jitter: b.config.Jitter, Devices: b.config.Devices, Fitted: b.config.Fitted}
	if b.config.TimeScale != 1 {
		s.Started = append(s.Started, "backend.time_scale")
	}
	if len(b.config.Faults) > 0 {
		s.Started = append(s.Started, "backend.faults")
	}
	if b.config.StartDelay > 0 {
		s.Started = append(s.Started, "backend.start_delay")
	}
	return s
}

// argv returns the command line of one replica.
func (b *Backend) argv(spec backends.Spec, role backends.Role, at backends.Address) ([]string, error) {
	k, err := kindOf(spec, role, at)
	if err != nil {
		return nil, err
	}
	argv := []string{b.self, "sim"}
	if k.role != "" || k.engine != "vllm" {
		argv = append(argv, "--engine="+k.engine)
	}
	if k.role != "" {
		argv = append(argv, "--role="+k.role)
	}
	if k.computes {
		argv = append(argv, "--model="+spec.Model, "--gpu="+spec.GPU)
	}
	argv = append(argv, "--host="+at.Listen(), "--port="+strconv.Itoa(at.Port))
	argv = append(argv, k.flags...)
	if !k.computes {
		return argv, nil
	}
	argv = append(argv,
		"--seed="+strconv.FormatUint(spec.Seed, 10),
		"--time-scale="+strconv.FormatFloat(b.config.TimeScale, 'f', -1, 64),
		"--jitter="+strconv.FormatFloat(b.config.Jitter, 'f', -1, 64),
	)
	if n := len(b.config.Devices); n > 0 {
		i := launchOf(spec.Pod) % n
		argv = append(argv, fmt.Sprintf("--card=%d", i), "--card-speed="+strconv.FormatFloat(b.config.Devices[i], 'f', -1, 64))
	}
	if b.config.Fitted != "" {
		argv = append(argv, "--fitted="+b.config.Fitted)
	}
	if b.config.StartDelay > 0 {
		argv = append(argv, "--start-delay="+b.config.StartDelay.String())
	}
	for _, f := range b.config.Faults {
		argv = append(argv, "--fault="+f)
	}
	if b.config.RequestLog && role.LogPath != nil {
		argv = append(argv, "--request-log="+layout.RequestLog(role.LogPath(at.Replica)))
	}
	// The plan's arguments come after those of sweep, so that they win. The
	// simulator shares a model over all GPUs of a server as tensor
	// parallelism does, whatever kinds the plan mixes.
	argv = append(argv, flags(k.args)...)
	if role.GPUs > 1 {
		argv = append(argv, "--gpu-count="+strconv.Itoa(role.GPUs))
	}
	return argv, nil
}

// launchOf returns the number of a launch, from 0, by the end of its pod's name.
func launchOf(pod string) int {
	n, err := strconv.Atoi(pod[strings.LastIndexByte(pod, 'l')+1:])
	if err != nil {
		return 0
	}
	return max(0, n-1)
}

// Commands returns the command lines of a deployment, for people: its servers in
// their order, on ports from 8000.
func (b *Backend) Commands(spec backends.Spec) ([][]string, error) {
	port := 8000
	peers := map[string][]backends.Address{}
	for _, role := range spec.Roles {
		for n := range role.Replicas {
			a := backends.Address{Host: "127.0.0.1", Port: port, Replica: n, Dir: "DIR", Ports: map[string]int{}}
			port++
			for _, name := range slices.Sorted(maps.Keys(role.Ports)) {
				a.Ports[name] = port
				port++
			}
			peers[role.Name] = append(peers[role.Name], a)
		}
	}
	var out [][]string
	for _, role := range spec.Roles {
		for _, at := range peers[role.Name] {
			at.Peers = peers
			argv, err := b.argv(spec, role, at)
			if err != nil {
				return nil, err
			}
			out = append(out, argv)
		}
	}
	return out, nil
}

// flags renders engine arguments in a fixed order. A boolean is --x or --no-x,
// the items of a list are joined by commas.
func flags(args map[string]any) []string {
	var list []string
	for name, value := range args {
		switch v := value.(type) {
		case bool:
			if v {
				list = append(list, "--"+name)
			} else {
				list = append(list, "--no-"+name)
			}
		case []any:
			var items []string
			for _, item := range v {
				items = append(items, fmt.Sprint(item))
			}
			list = append(list, "--"+name+"="+strings.Join(items, ","))
		case float64:
			list = append(list, "--"+name+"="+strconv.FormatFloat(v, 'f', -1, 64))
		default:
			list = append(list, fmt.Sprintf("--%s=%v", name, v))
		}
	}
	slices.Sort(list)
	return list
}

// check refuses what would fail in the same way again.
func check(spec backends.Spec) error {
	for _, role := range spec.Roles {
		if _, err := kindOf(spec, role, backends.Address{}); err != nil {
			return err
		}
	}
	if _, ok := catalog.GPUByName(spec.GPU); !ok {
		return fmt.Errorf("%w: the simulator needs a GPU of the catalogue, not %q", backends.ErrSpec, spec.GPU)
	}
	return nil
}
