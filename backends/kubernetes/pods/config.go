package pods

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/internal/secret"
)

// A Config says what the pods of a plan's servers are like, beside what the plan says of
// its engines.
type Config struct {
	GPUResource   string                   `yaml:"gpu_resource,omitempty" doc:"Resource of the cluster that stands for a GPU. Each model server gets as many as its arguments need (or gpu_count); frontends and routers get none." default:"nvidia.com/gpu" example:"amd.com/gpu"`
	GPULabel      string                   `yaml:"gpu_label,omitempty" doc:"Label of nodes by which a server gets the GPU that the plan names: the product in the catalogue with dashes for spaces, or the plan's own word. none leaves the choice to node_selector." default:"nvidia.com/gpu.product" example:"cloud.google.com/gke-accelerator"`
	NodeSelector  map[string]string        `yaml:"node_selector,omitempty" doc:"Labels that a node must have." default:"none" example:"{pool: bench}"`
	Tolerations   []Toleration             `yaml:"tolerations,omitempty" doc:"Taints of nodes that the pods tolerate." default:"that of gpu_resource, for servers with GPUs" example:"[{key: sku, value: gpu, effect: NoSchedule}]"`
	RuntimeClass  string                   `yaml:"runtime_class,omitempty" doc:"Runtime class of servers with GPUs, where the cluster's default runtime gives no GPU." default:"the cluster's" example:"nvidia"`
	PriorityClass string                   `yaml:"priority_class,omitempty" doc:"Priority class of the pods." default:"the cluster's" example:"bench"`
	CPU           float64                  `yaml:"cpu,omitempty" doc:"CPUs that a pod asks for." default:"no request" min:"0" example:"8"`
	Memory        string                   `yaml:"memory,omitempty" doc:"Memory that a pod asks for, and its limit, /dev/shm included." default:"no limit" pattern:"^[0-9]+(\\.[0-9]+)?([kMGT]i?)?$" example:"64Gi"`
	ShmSize       string                   `yaml:"shm_size,omitempty" doc:"Limit of /dev/shm, over which the GPUs of a server exchange data." default:"8Gi" pattern:"^[0-9]+(\\.[0-9]+)?([kMGT]i?)?$" example:"16Gi"`
	Cache         *Cache                   `yaml:"cache,omitempty" doc:"Volume with the models, which is there already and stays. HF_HOME is its path." default:"none: each server downloads its model" example:"{claim: model-cache}"`
	Secrets       map[string]string        `yaml:"secrets,omitempty" doc:"Variables of the servers from Secrets of the namespace that are there already, each as SECRET/KEY." default:"none" example:"{HF_TOKEN: hf-token/HF_TOKEN}"`
	Env           map[string]secret.String `yaml:"env,omitempty" doc:"Environment of the servers. Credentials by reference only: ${HF_TOKEN}. It goes into a Secret of the run." example:"{HF_HUB_OFFLINE: '1'}"`
	Pull          string                   `yaml:"pull,omitempty" doc:"When a node fetches the image: if it is missing, always, or never." default:"missing" enum:"missing,always,never" example:"always"`
	PullSecrets   []string                 `yaml:"pull_secrets,omitempty" doc:"Secrets with the credentials of the registries." default:"those of the namespace's account" example:"[registry]"`
	User          string                   `yaml:"user,omitempty" doc:"User and group, as uid or uid:gid, that the servers run as." default:"1000:1000" pattern:"^[0-9]+(:[0-9]+)?$" example:"2000:2000"`
	Root          bool                     `yaml:"root,omitempty" doc:"Run the servers as the user of their image, root included, for images that need it. A namespace with the restricted Pod Security Standard refuses that." default:"false" example:"true"`
	Pending       time.Duration            `yaml:"pending,omitempty" doc:"Time that a pod may wait for a node with room for it, or for room in the namespace's quota." default:"5m" unit:"s" example:"30m"`
}

// A Toleration is that of the Kubernetes API.
type Toleration struct {
	Key    string `yaml:"key" json:"key" doc:"Key of the taint." example:"sku"`
	Value  string `yaml:"value,omitempty" json:"value,omitempty" doc:"Value of the taint." default:"any" example:"gpu"`
	Effect string `yaml:"effect,omitempty" json:"effect,omitempty" doc:"Effect of the taint." default:"any" enum:"NoSchedule,PreferNoSchedule,NoExecute" example:"NoSchedule"`
}

// A Cache is a volume with models.
type Cache struct {
	Claim string `yaml:"claim" doc:"PersistentVolumeClaim of the namespace, which several servers may read at once." example:"model-cache"`
	Path  string `yaml:"path,omitempty" doc:"Where the servers find it." default:"/model-cache" example:"/models"`
}

const (
	// noLabel is the gpu_label that chooses no node.
	noLabel      = "none"
	defaultCache = "/model-cache"
)

// gpuLabels are the labels that name the product of a GPU, by its resource.
var gpuLabels = map[string]string{"nvidia.com/gpu": "nvidia.com/gpu.product", "amd.com/gpu": "amd.com/gpu.product-name"}

// DefaultConfig holds the defaults of a plan's keys.
func DefaultConfig() Config {
	return Config{
		GPUResource: "nvidia.com/gpu", ShmSize: "8Gi", Pull: "missing", User: "1000:1000",
		Pending: 5 * time.Minute,
	}
}

var (
	objectName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)
	secretKey  = regexp.MustCompile(`^[-._a-zA-Z0-9]+$`)
	labelKey   = regexp.MustCompile(`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
	quantity   = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?([kMGT]i?)?$`)
	userGroup  = regexp.MustCompile(`^[0-9]+(:[0-9]+)?$`)
)

// policies are the image pull policies of the API by the words of a plan.
var policies = map[string]string{"missing": "IfNotPresent", "always": "Always", "never": "Never"}

// filled returns a configuration with the defaults of what it does not say.
func (c Config) filled() Config {
	d := DefaultConfig()
	for _, of := range []struct {
		text *string
		or   string
	}{{&c.GPUResource, d.GPUResource}, {&c.ShmSize, d.ShmSize}, {&c.Pull, d.Pull}, {&c.User, d.User}, {&c.GPULabel, ""}} {
		if *of.text == "" {
			*of.text = of.or
		}
	}
	if c.GPULabel == "" {
		c.GPULabel = gpuLabels[c.GPUResource]
	}
	if c.Pending == 0 {
		c.Pending = d.Pending
	}
	if c.Cache != nil && c.Cache.Path == "" {
		c.Cache = &Cache{Claim: c.Cache.Claim, Path: defaultCache}
	}
	return c
}

// Check finds everything that is wrong with a configuration, with its defaults.
func (c Config) Check() error {
	c = c.filled()
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !labelKey.MatchString(c.GPUResource) {
		wrong("gpu_resource: %q is no name of a resource such as nvidia.com/gpu", c.GPUResource)
	}
	if c.GPULabel != "" && !labelKey.MatchString(c.GPULabel) {
		wrong("gpu_label: %q is no key of a label", c.GPULabel)
	}
	for _, key := range slices.Sorted(maps.Keys(c.NodeSelector)) {
		if !labelKey.MatchString(key) {
			wrong("node_selector: %q is no key of a label", key)
		}
	}
	if c.CPU < 0 {
		wrong("cpu: %v is negative", c.CPU)
	}
	for key, text := range map[string]string{"memory": c.Memory, "shm_size": c.ShmSize} {
		if text != "" && !quantity.MatchString(text) {
			wrong("%s: %q is no quantity such as 64Gi", key, text)
		}
	}
	for key, name := range map[string]string{"runtime_class": c.RuntimeClass, "priority_class": c.PriorityClass} {
		if name != "" && !objectName.MatchString(name) {
			wrong("%s: %q is no name", key, name)
		}
	}
	if c.Cache != nil && (!objectName.MatchString(c.Cache.Claim) || !strings.HasPrefix(c.Cache.Path, "/")) {
		wrong("cache: want the name of a PersistentVolumeClaim and an absolute path")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Secrets)) {
		of, key, ok := strings.Cut(c.Secrets[name], "/")
		if !variable(name) || !ok || !objectName.MatchString(of) || !secretKey.MatchString(key) {
			wrong("secrets: %s: want SECRET/KEY, the name of a Secret and of a key in it", name)
		}
	}
	for name := range c.Env {
		if !variable(name) {
			wrong("env: %q cannot be the name of a variable", name)
		}
	}
	if policies[c.Pull] == "" {
		wrong("pull: %q is not missing, always or never", c.Pull)
	}
	for _, name := range c.PullSecrets {
		if !objectName.MatchString(name) {
			wrong("pull_secrets: %q is no name of a Secret", name)
		}
	}
	if !userGroup.MatchString(c.User) {
		wrong("user: %q is no uid or uid:gid", c.User)
	} else if !c.Root && strings.HasPrefix(c.User+":", "0:") {
		wrong("user: 0 is root: say root: true for an image that needs it")
	}
	if c.Pending < 0 {
		wrong("pending: %v is negative", c.Pending)
	}
	return errors.Join(errs...)
}

// variable reports whether a text can name a variable.
func variable(name string) bool { return name != "" && !strings.ContainsAny(name, "=\x00 \n") }
