package docker

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docker/go-units"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/bootstrap"
	"sweep.dev/sweep/internal/secret"
)

// labelPrefix begins every label of ours. What follows is the name of the mark
// in lower case without its SWEEP_ (owner, run_id, pod, expires, digest), or one
// of those below.
const labelPrefix = "dev.sweep."

// Labels beyond the marks.
const (
	labelOwner   = labelPrefix + "owner"
	labelRun     = labelPrefix + "run_id"
	labelPod     = labelPrefix + "pod"
	labelExpires = labelPrefix + "expires"
	labelDigest  = labelPrefix + "digest"
	labelName    = labelPrefix + "name"    // the pod's backends.Name
	labelRole    = labelPrefix + "role"    // whose container it is
	labelReplica = labelPrefix + "replica" // "
	labelGPUs    = labelPrefix + "gpus"    // that it has for itself, separated by commas
	labelGrace   = labelPrefix + "grace"   // between the polite and the final signal
	labelGPU     = labelPrefix + "gpu"     // what the plan calls it
	labelAgent   = labelPrefix + "agent"   // port of the bootstrap's agent; absent where there is none
)

const (
	// defaultPort is the engine's inside its container, where nobody else is.
	defaultPort = 8000
	// agentPort is the bootstrap's.
	agentPort = 8011
	// tokenVar is where the bootstrap gets its agent's token from; a process that
	// adopts the container finds it there.
	tokenVar = "SWEEP_TOKEN" //nolint:gosec // the name of a variable
	// visibleDevices keeps NVIDIA's runtime, if it is the daemon's default, from
	// giving every GPU of the machine to a container that is to have none.
	// https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html
	visibleDevices = "NVIDIA_VISIBLE_DEVICES"
	// nvidiaWrapper is the ENTRYPOINT of NVIDIA's images: it prepares CUDA's
	// compatibility libraries and executes its arguments.
	nvidiaWrapper = "/opt/nvidia/nvidia_entrypoint.sh"
	// defaultLife is how long a pod lives whose Spec says nothing.
	defaultLife = 24 * time.Hour
)

// A containerPlan is all that a create request depends on.
type containerPlan struct {
	spec       backends.Spec
	role       backends.Role
	replica    int
	name       backends.Name // the pod's
	image      string        // what to run: a reference, or the id that it had
	entrypoint []string      // the image's own
	gpus       []string
	token      secret.String // of the agent
	lifetime   time.Duration // from the container's start
}

func (p containerPlan) first() bool {
	return p.role.Name == p.spec.Roles[0].Name && p.replica == 0
}

// containerName is what the daemon knows this container by, and no other.
func (p containerPlan) containerName() string {
	if p.first() {
		return p.name.String()
	}
	return fmt.Sprintf("%s.%s.%d", p.name, p.role.Name, p.replica)
}

func (p containerPlan) port() int {
	if p.role.Port != 0 {
		return p.role.Port
	}
	return defaultPort
}

// agent is the agent's port inside the container.
func (p containerPlan) agent() int {
	if p.port() == agentPort {
		return agentPort + 1
	}
	return agentPort
}

// address is what the engine's command line and its files are rendered with.
func (c Config) address(p containerPlan) backends.Address {
	a := backends.Address{Host: "0.0.0.0", Port: p.port(), Replica: p.replica}
	if c.DeadMan {
		a.Dir = bootstrap.FilesDir(p.containerName())
	}
	return a
}

// bootstrapOptions say what runs first in the container.
func (c Config) bootstrapOptions(p containerPlan, argv []string, files map[string][]byte) bootstrap.Options {
	return bootstrap.Options{
		Name: p.containerName(), Argv: argv,
		Lifetime: p.lifetime, Expires: p.name.Expires, Heartbeat: c.Heartbeat, Grace: p.spec.Grace,
		AgentPort: p.agent(), Token: p.token, Files: files,
	}
}

// request is the create request of one container.
func (c Config) request(l limits, p containerPlan) (client.ContainerCreateOptions, error) {
	var none client.ContainerCreateOptions
	address := c.address(p)
	argv, err := p.role.Argv(address)
	if err != nil {
		return none, fmt.Errorf("%w: %w", backends.ErrSpec, err)
	}
	extra, err := p.role.ExtraAt(address)
	if err != nil {
		return none, err
	}
	if err := backends.CheckArgv(argv, p.role.Entrypoint, true); err != nil {
		return none, err
	}
	env := map[string]string{}
	for name, value := range c.Env {
		env[name] = value.Reveal()
	}
	maps.Copy(env, extra.Env)
	maps.Copy(env, p.role.Env)
	if _, given := env[visibleDevices]; !given && len(p.gpus) == 0 {
		env[visibleDevices] = "void"
	}
	marks := backends.Marks(p.spec)
	maps.Copy(env, marks)
	env[backends.MarkServer] = backends.ServerMark(p.spec, p.role, address)

	labels := map[string]string{
		labelName: p.name.String(), labelRole: p.role.Name, labelReplica: strconv.Itoa(p.replica),
		labelGrace: p.spec.Grace.String(), labelGPU: p.spec.GPU,
		labelExpires: strconv.FormatInt(p.name.Expires.Unix(), 10),
	}
	for mark, value := range marks {
		labels[labelPrefix+strings.ToLower(strings.TrimPrefix(mark, "SWEEP_"))] = value
	}

	ports := []int{p.port()}
	if c.DeadMan {
		options := c.bootstrapOptions(p, argv, extra.Files)
		if err := options.Validate(); err != nil {
			return none, fmt.Errorf("%w: %w", backends.ErrSpec, err)
		}
		var own map[string]string
		argv, own = bootstrap.Command(options)
		maps.Copy(env, own)
		labels[labelAgent] = strconv.Itoa(p.agent())
		ports = append(ports, p.agent())
	}

	config := &container.Config{
		Image: p.image, User: c.User, WorkingDir: p.role.Dir,
		Entrypoint: argv[:1], Cmd: argv[1:],
		Labels: labels, ExposedPorts: network.PortSet{},
	}
	if slices.Equal(p.entrypoint, []string{nvidiaWrapper}) && p.role.Entrypoint == nil {
		config.Entrypoint, config.Cmd = nil, argv
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		config.Env = append(config.Env, name+"="+env[name])
	}
	host := &container.HostConfig{
		NetworkMode:   container.NetworkMode(c.Network),
		PortBindings:  network.PortMap{},
		RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled},
		Binds:         l.mounts,
		ShmSize:       l.shm,
		// Said, because the daemon's own choice may be one that cannot be read.
		LogConfig: container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "256m", "max-file": "2"}},
		Resources: container.Resources{Memory: l.memory, MemorySwap: l.memory, CpusetCpus: cpus(p.role.CPUs)},
	}
	for _, n := range ports {
		port, ok := network.PortFrom(uint16(n), network.TCP)
		if !ok || n < 1 || n > 65535 {
			return none, fmt.Errorf("%w: no port %d", backends.ErrSpec, n)
		}
		config.ExposedPorts[port] = struct{}{}
		host.PortBindings[port] = []network.PortBinding{{HostIP: netip.AddrFrom4([4]byte{127, 0, 0, 1}), HostPort: "0"}}
	}
	if len(p.gpus) > 0 {
		labels[labelGPUs] = strings.Join(p.gpus, ",")
		host.DeviceRequests = []container.DeviceRequest{{DeviceIDs: p.gpus, Capabilities: [][]string{{"gpu"}}}}
		// What NVIDIA asks for: pinned memory for transfers between GPUs.
		host.Ulimits = []*container.Ulimit{
			{Name: "memlock", Soft: -1, Hard: -1},
			{Name: "stack", Soft: 64 * units.MiB, Hard: 64 * units.MiB},
		}
	}
	return client.ContainerCreateOptions{Name: p.containerName(), Config: config, HostConfig: host}, nil
}

func cpus(list []int) string {
	text := make([]string, len(list))
	for i, n := range list {
		text[i] = strconv.Itoa(n)
	}
	return strings.Join(text, ",")
}
