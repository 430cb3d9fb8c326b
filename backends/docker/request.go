package docker

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/go-units"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/provision"
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
	labelName    = labelPrefix + "name"    // the pod's backends.Name
	labelRole    = labelPrefix + "role"    // whose container it is
	labelReplica = labelPrefix + "replica" // "
	labelGPUs    = labelPrefix + "gpus"    // that it has for itself, separated by commas
	labelGrace   = labelPrefix + "grace"   // between the polite and the final signal
	labelGPU     = labelPrefix + "gpu"     // what the plan calls it
)

const (
	// visibleDevices keeps NVIDIA's runtime, if it is the daemon's default, from
	// giving every GPU of the machine to a container that is to have none.
	// https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html
	visibleDevices = "NVIDIA_VISIBLE_DEVICES"
	// nvidiaWrapper is the ENTRYPOINT of NVIDIA's images: it prepares CUDA's
	// compatibility libraries and executes its arguments.
	nvidiaWrapper = "/opt/nvidia/nvidia_entrypoint.sh"
)

// request returns the create request of one container.
func (c Config) request(l limits, u *provision.Unit, p *containerPlan) (client.ContainerCreateOptions, error) {
	r := u.Replicas[0]
	env := maps.Clone(r.Env)
	if _, given := env[visibleDevices]; !given && len(p.gpus) == 0 {
		env[visibleDevices] = "void"
	}
	labels := map[string]string{
		labelName: u.Pod.String(), labelRole: r.Role.Name, labelReplica: strconv.Itoa(r.Place.Replica),
		labelGrace: u.Spec.Grace.String(), labelGPU: u.Spec.GPU,
		labelExpires: strconv.FormatInt(u.Pod.Expires.Unix(), 10),
	}
	for mark, value := range u.Marks {
		labels[labelFor(mark)] = value
	}
	argv := r.Argv
	ports := append([]int{r.Place.Port}, slices.Sorted(maps.Values(r.Place.Ports))...)
	if r.Place.Agent != 0 {
		ports = append(ports, r.Place.Agent)
	}

	config := &container.Config{
		Image: p.image.id, User: c.User, WorkingDir: r.Role.Dir,
		Entrypoint: argv[:1], Cmd: argv[1:],
		Labels: labels, ExposedPorts: network.PortSet{},
	}
	if slices.Equal(p.image.entrypoint, []string{nvidiaWrapper}) && r.Role.Entrypoint == nil {
		config.Entrypoint, config.Cmd = nil, argv
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		config.Env = append(config.Env, name+"="+env[name])
	}
	host := &container.HostConfig{
		NetworkMode:   container.NetworkMode(p.network),
		PortBindings:  network.PortMap{},
		RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled},
		Binds:         slices.Clone(l.mounts),
		ShmSize:       l.shm,
		// Said, because the daemon's own choice may be one that cannot be read.
		LogConfig: container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "256m", "max-file": "2"}},
		Resources: container.Resources{Memory: l.memory, MemorySwap: l.memory, CpusetCpus: cpus(r.Role.CPUs)},
	}
	if p.volume != "" {
		host.Binds = append(host.Binds, p.volume+":"+sharedDir)
	}
	for _, n := range ports {
		port, ok := network.PortFrom(uint16(n), network.TCP)
		if !ok || n < 1 || n > 65535 {
			return client.ContainerCreateOptions{}, fmt.Errorf("%w: no port %d", backends.ErrSpec, n)
		}
		config.ExposedPorts[port] = struct{}{}
		host.PortBindings[port] = []network.PortBinding{{HostIP: netip.AddrFrom4([4]byte{127, 0, 0, 1}), HostPort: "0"}}
	}
	if len(p.gpus) > 0 {
		labels[labelGPUs] = strings.Join(p.gpus, ",")
		host.DeviceRequests = []container.DeviceRequest{{DeviceIDs: p.gpus, Capabilities: [][]string{{"gpu"}}}}
		// NVIDIA asks for these: pinned memory for transfers between GPUs.
		host.Ulimits = []*container.Ulimit{
			{Name: "memlock", Soft: -1, Hard: -1},
			{Name: "stack", Soft: 64 * units.MiB, Hard: 64 * units.MiB},
		}
	}
	return client.ContainerCreateOptions{Name: u.Name, Config: config, HostConfig: host}, nil
}

func cpus(list []int) string {
	text := make([]string, len(list))
	for i, n := range list {
		text[i] = strconv.Itoa(n)
	}
	return strings.Join(text, ",")
}
