package docker

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/docker/go-units"

	"sweep.dev/sweep/internal/secret"
)

// A Config is the backend's part of a plan. What an engine says for itself
// (image, env, cpus) wins over it.
type Config struct {
	Host      string                   `yaml:"host,omitempty" doc:"Address of the Docker daemon, which must run on this machine." default:"$DOCKER_HOST, else unix:///var/run/docker.sock" example:"unix:///run/user/1000/docker.sock"`
	GPUs      []string                 `yaml:"gpus,omitempty" doc:"GPUs that containers may use: ids (GPU-fef8089b-...) or indexes, as nvidia-smi -L lists them. Each model server gets as many of its own as its arguments need (or gpu_count). Frontends and routers get none." default:"none, which leaves the containers on the CPU" example:"['0', '1']"`
	Memory    string                   `yaml:"memory,omitempty" doc:"Memory limit of a container, swap included. Above it the kernel kills." default:"no limit" pattern:"^[0-9]+(\\.[0-9]+)?([kKmMgGtT]([iI]?[bB])?|[bB])?$" example:"64GiB"`
	ShmSize   string                   `yaml:"shm_size,omitempty" doc:"Limit of /dev/shm, over which the GPUs of a server exchange data. Nothing is reserved." default:"8GiB" pattern:"^[0-9]+(\\.[0-9]+)?([kKmMgGtT]([iI]?[bB])?|[bB])?$" example:"16GiB"`
	Pull      string                   `yaml:"pull,omitempty" doc:"When to fetch the image: if it is missing, always, or never." default:"missing" enum:"missing,always,never" example:"always"`
	Registry  *Registry                `yaml:"registry,omitempty" doc:"Credentials for the registry of the images." default:"none" example:"{username: bench, password: '${REGISTRY_TOKEN}'}"`
	Mounts    []string                 `yaml:"mounts,omitempty" doc:"Mounts of the containers: source:target[:ro]. The source is a folder or file of this machine (/..., ./...) or the name of a volume." default:"none" pattern:"^[^:]+:/[^:]*(:(ro|rw))?$" example:"[hf-cache:/root/.cache/huggingface]"`
	Network   string                   `yaml:"network,omitempty" doc:"Docker network of the containers." default:"bridge" pattern:"^[a-zA-Z0-9][a-zA-Z0-9_.-]*$" example:"bench-net"`
	User      string                   `yaml:"user,omitempty" doc:"User, or user:group, that the engine runs as." default:"the image's" example:"1000:1000"`
	Env       map[string]secret.String `yaml:"env,omitempty" doc:"Environment of the engines. Credentials by reference only: ${HF_TOKEN}." example:"{HF_TOKEN: '${HF_TOKEN}'}"`
	DeadMan   bool                     `yaml:"dead_man,omitempty" doc:"The container ends itself at its expiry time, and without a heartbeat, even if sweep is gone. Needs /bin/sh in the image. Without it only sweep and sweep gc end the container." default:"true" example:"false"`
	Heartbeat time.Duration            `yaml:"heartbeat,omitempty" doc:"Time after which a container ends itself if its run has sent no heartbeat. Needs python3 in the image; without it only the expiry time ends the container." default:"3m" unit:"s" example:"10m"`
	Inside    *Inside                  `yaml:"inside,omitempty" doc:"Start the engine, with all its roles, in a running container, which sweep never stops." default:"a container of its own" example:"{image: 'vllm/vllm-openai:*', label: team=inference}"`
}

// A Registry is who we are to the registry that has the images.
type Registry struct {
	Username string        `yaml:"username,omitempty" doc:"Name of the account." example:"bench"`
	Password secret.String `yaml:"password,omitempty" doc:"Password or token of the account, by reference." example:"${REGISTRY_TOKEN}"`
}

// An Inside says in which container to start the engine, with all its roles:
// exactly one that runs must have all that is stated. Names of containers are
// transient, so an image or a label is the better mark.
type Inside struct {
	Image     string         `yaml:"image,omitempty" doc:"Pattern for the container's image; * matches any text." example:"vllm/vllm-openai:*"`
	Label     string         `yaml:"label,omitempty" doc:"Label of the container: key, or key=value." example:"app=engine"`
	Name      string         `yaml:"name,omitempty" doc:"Pattern for the container's name; * matches any text." example:"dynamo*"`
	Ports     map[string]int `yaml:"ports,omitempty" doc:"Ports of the engine's roles, by the role's name, or by role.port for a further port. Replica n gets the n-th port after it." default:"8000 for the role that requests go to, for the others any that can be reached" min:"1" max:"65535" example:"{frontend: 8000, worker: 8081}"`
	ReadyLine string         `yaml:"ready_line,omitempty" doc:"Regular expression for a line in the output of the role that gets the requests. After it sweep asks the engine whether it is ready." default:"no line" example:"Application startup complete"`
	Soak      time.Duration  `yaml:"soak,omitempty" doc:"Pause between that line and the first question to the engine." default:"none" unit:"s" example:"10s"`
}

// DefaultConfig holds the defaults of a plan's keys.
func DefaultConfig() Config {
	return Config{ShmSize: "8GiB", Pull: "missing", DeadMan: true, Heartbeat: 3 * time.Minute}
}

// minHeartbeat leaves room for a few beats that get lost.
const minHeartbeat = 5 * time.Second

// limits is what a Config says in numbers.
type limits struct {
	memory, shm int64
	mounts      []string
	ready       *regexp.Regexp // nil: no line
}

// check finds everything that is wrong with a configuration.
func (c Config) check() (limits, error) {
	var l limits
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	size := func(key, text string) int64 {
		if text == "" {
			return 0
		}
		n, err := units.RAMInBytes(text)
		if err != nil || n <= 0 {
			wrong("%s: %q is not a size such as 64GiB", key, text)
		}
		return n
	}
	l.memory, l.shm = size("memory", c.Memory), size("shm_size", c.ShmSize)
	if l.memory > 0 && l.memory < 6<<20 {
		wrong("memory: Docker wants at least 6MiB, not %s", c.Memory)
	}
	if !slices.Contains([]string{"missing", "always", "never"}, c.Pull) {
		wrong("pull: %q is not missing, always or never", c.Pull)
	}
	for i, id := range c.GPUs {
		if strings.TrimSpace(id) == "" || strings.ContainsAny(id, ", ") || slices.Contains(c.GPUs[:i], id) {
			wrong("gpus: %q is no id of a GPU, or stands there twice", id)
		}
	}
	for _, m := range c.Mounts {
		bind, err := mount(m)
		if err != nil {
			wrong("mounts: %w", err)
		}
		l.mounts = append(l.mounts, bind)
	}
	switch c.Network {
	case "host", "none":
		wrong("network: %s: a container needs a network of its own, so that its port is its own", c.Network)
	}
	if c.DeadMan && c.Heartbeat != 0 && c.Heartbeat < minHeartbeat {
		wrong("heartbeat: %v is less than %v, and a beat that is late would end the server", c.Heartbeat, minHeartbeat)
	}
	for name := range c.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			wrong("env: %q cannot be the name of a variable", name)
		}
	}
	if c.Registry != nil && (c.Registry.Username == "" || c.Registry.Password.IsZero()) {
		wrong("registry: needs both username and password")
	}
	if c.Inside != nil {
		ready, err := c.Inside.check()
		if err != nil {
			wrong("inside: %w", err)
		}
		l.ready = ready
	}
	return l, errors.Join(errs...)
}

func (i Inside) check() (*regexp.Regexp, error) {
	if i.Image == "" && i.Label == "" && i.Name == "" {
		return nil, errors.New("name the container by image, label or name")
	}
	if i.Soak < 0 {
		return nil, fmt.Errorf("soak: %v is negative", i.Soak)
	}
	if i.ReadyLine == "" {
		return nil, nil
	}
	ready, err := regexp.Compile(i.ReadyLine)
	if err != nil {
		return nil, fmt.Errorf("ready_line: %w", err)
	}
	return ready, nil
}

// mount makes what Docker's API wants of source:target[:ro]. The API, unlike
// the command line, takes no relative path.
func mount(text string) (string, error) {
	source, rest, ok := strings.Cut(text, ":")
	target, mode, _ := strings.Cut(rest, ":")
	if !ok || source == "" || !strings.HasPrefix(target, "/") || !slices.Contains([]string{"", "ro", "rw"}, mode) {
		return "", fmt.Errorf("%q is not source:/target or source:/target:ro", text)
	}
	if strings.HasPrefix(source, ".") {
		abs, err := filepath.Abs(source)
		if err != nil {
			return "", err
		}
		source = abs
	}
	return source + ":" + rest, nil
}

// loopback reports whether host:port is on this machine.
func loopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		return false
	}
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}
