package runpod

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/secret"
)

// Kind is the backend's name in a plan.
const Kind = "runpod"

// The environment variables that stand in for what a plan leaves out.
const (
	keyVar  = "RUNPOD_API_KEY"
	baseVar = "RUNPOD_API_BASE_URL"
)

// A Config is the backend's part of a plan.
type Config struct {
	Key      secret.String `yaml:"key,omitempty" doc:"API key. A reference, never the key itself." default:"${RUNPOD_API_KEY}" example:"${RUNPOD_API_KEY}"`
	BaseURL  string        `yaml:"base_url,omitempty" doc:"Address of the API, version 2. The key is sent only to this host." default:"${RUNPOD_API_BASE_URL}, or https://api.runpod.io/v2" example:"http://127.0.0.1:8711/v2"`
	ProxyURL string        `yaml:"proxy_url,omitempty" doc:"Address of a pod's HTTP port through RunPod's proxy." default:"https://{pod}-{port}.proxy.runpod.net" example:"https://{pod}-{port}.proxy.runpod.net"`

	Candidates []Candidate `yaml:"candidates,omitempty" doc:"Hosts that may be rented, tried in this order." default:"one GPU of the cell's type in the secure cloud, anywhere" example:"[{cloud: secure, data_centers: [EU-RO-1]}, {cloud: community}]"`
	MoveGPU    bool        `yaml:"move_gpu,omitempty" doc:"Whether a candidate may name another GPU than the cell's. The row has the GPU that was used." default:"false" example:"true"`

	Disk          int            `yaml:"disk,omitempty" doc:"Container disk, which must hold the unpacked image and the model. It is lost with the pod." default:"60" min:"10" max:"4096" unit:"GB" example:"120"`
	Volume        *Volume        `yaml:"volume,omitempty" doc:"Disk of the pod beside the container's." default:"none" example:"{size_gb: 100}"`
	NetworkVolume *NetworkVolume `yaml:"network_volume,omitempty" doc:"Network volume to mount instead of volume. Models stay there after the first download." default:"none" example:"{id: 4tqf3f5lkn}"`
	Registry      string         `yaml:"registry,omitempty" doc:"Id of the registry credentials stored at RunPod, for a private image." default:"none" example:"clzdaifot0001l90809257ynb"`
	MinCUDA       string         `yaml:"min_cuda,omitempty" doc:"Oldest CUDA version of the host's driver that the image supports." default:"any" pattern:"^[0-9]{1,2}(\\.[0-9]{1,2})?$" example:"'12.8'"`
	AllowedCUDA   []string       `yaml:"allowed_cuda,omitempty" doc:"CUDA versions that the host may have, instead of min_cuda." default:"any" pattern:"^[0-9]{1,2}\\.[0-9]{1,2}$" example:"['12.8', '12.9']"`
	Network       string         `yaml:"network,omitempty" doc:"How the engine is reached. tcp: its own TCP port. proxy: RunPod's HTTP proxy, which adds latency and ends requests after 100 s. auto: TCP, or the proxy if the host has no public port." default:"auto" enum:"auto,tcp,proxy" example:"tcp"`

	Bootstrap bool          `yaml:"bootstrap,omitempty" doc:"Start the engine under sweep's own script, which ends the pod at its expiry time. Needs a shell in the image." default:"true" example:"false"`
	Heartbeat time.Duration `yaml:"heartbeat,omitempty" doc:"Time after which a pod ends itself if it has had no heartbeat from sweep. Needs python3 in the image." default:"10m" unit:"s" example:"5m"`
	Pull      time.Duration `yaml:"pull,omitempty" doc:"Time limit until the container runs, most of it for the image." default:"20m" unit:"s" example:"30m"`

	Env map[string]secret.String `yaml:"env,omitempty" doc:"Environment of the container. Credentials by reference only: ${HF_TOKEN}, or {{ RUNPOD_SECRET_name }} for one that is stored at RunPod." example:"{HF_TOKEN: '${HF_TOKEN}'}"`

	Poll     time.Duration `yaml:"poll,omitempty" doc:"Interval at which all pods are listed, in one call." default:"5s" unit:"s" example:"10s"`
	Patience time.Duration `yaml:"patience,omitempty" doc:"How long sweep looks for a pod whose creation got no clear answer." default:"2m" unit:"s" example:"3m"`
	Rate     int           `yaml:"calls_per_minute,omitempty" doc:"Most calls of the API in a minute. A lower limit that RunPod reports takes precedence." default:"60" min:"6" max:"60000" example:"30"`
}

// A Candidate is one thing that may be rented.
type Candidate struct {
	Cloud       string   `yaml:"cloud,omitempty" doc:"RunPod's own data centres (secure), or those of others (community)." default:"secure" enum:"secure,community" example:"community"`
	DataCenters []string `yaml:"data_centers,omitempty" doc:"Ids of the data centres to choose from." default:"anywhere" example:"[EU-RO-1, EU-SE-1]"`
	GPU         string   `yaml:"gpu,omitempty" doc:"Another GPU of the catalogue than the cell's. Needs move_gpu." default:"the cell's" example:"a100-sxm-80gb"`
	Spot        bool     `yaml:"spot,omitempty" doc:"Interruptible pods. Refused, because version 2 of the API has none." default:"false" example:"false"`
}

// A Volume is a disk of the pod's host.
type Volume struct {
	Size int    `yaml:"size_gb" doc:"Size of the disk." min:"10" max:"4096" unit:"GB" example:"100"`
	Path string `yaml:"path,omitempty" doc:"Folder at which it is mounted." default:"/workspace" example:"/models"`
}

// A NetworkVolume is one that exists.
type NetworkVolume struct {
	ID   string `yaml:"id" doc:"Id of the volume. It binds the pod to the volume's data centre." example:"4tqf3f5lkn"`
	Path string `yaml:"path,omitempty" doc:"Folder at which it is mounted." default:"/workspace" example:"/models"`
}

// DefaultConfig holds the defaults of a plan's keys.
var DefaultConfig = Config{
	ProxyURL: "https://{pod}-{port}.proxy.runpod.net", Disk: 60, Network: networkAuto, Bootstrap: true,
	Heartbeat: 10 * time.Minute, Pull: 20 * time.Minute, Poll: 5 * time.Second, Patience: 2 * time.Minute, Rate: 60,
}

// The values of Config.Network.
const (
	networkAuto  = "auto"
	networkTCP   = "tcp"
	networkProxy = "proxy"
)

const (
	defaultBase  = "https://api.runpod.io/v2"
	defaultMount = "/workspace"
)

// fromEnv fills in the key and the address that a plan leaves out.
func (c *Config) fromEnv(env func(string) (string, bool)) {
	if c.Key.IsZero() {
		if key, ok := env(keyVar); ok {
			c.Key = secret.New("${"+keyVar+"}", strings.TrimSpace(key))
		}
	}
	if c.BaseURL == "" {
		c.BaseURL, _ = env(baseVar)
	}
	c.BaseURL = cmp.Or(c.BaseURL, defaultBase)
}

var (
	reference  = regexp.MustCompile(`\$\{[A-Za-z_][A-Za-z0-9_]*\}`)
	dataCenter = regexp.MustCompile(`^[A-Z0-9]+(-[A-Z0-9]+)+$`)
	variable   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// check names everything that is wrong, and returns the API's address.
func (c *Config) check() (*url.URL, error) {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("backend runpod: "+format, args...))
	}
	if !c.Key.IsZero() && !reference.MatchString(c.Key.Ref()) {
		bad("key: want a reference, ${NAME}, and not the key itself")
	}
	if strings.ContainsAny(c.Key.Reveal(), "\r\n\x00") {
		bad("key: the value holds a line break")
	}
	base, err := baseURL(c.BaseURL)
	if err != nil {
		bad("base_url: %v", err)
	}
	filled := strings.NewReplacer("{pod}", "pod", "{port}", "8000").Replace(c.ProxyURL)
	if _, err := secureURL(filled); err != nil {
		bad("proxy_url: %v", err)
	} else if !strings.Contains(c.ProxyURL, "{pod}") || !strings.Contains(c.ProxyURL, "{port}") {
		bad("proxy_url: {pod} and {port} have to stand in it")
	}
	if len(c.Candidates) == 0 {
		c.Candidates = []Candidate{{}}
	}
	for i := range c.Candidates {
		c.Candidates[i].Cloud = cmp.Or(c.Candidates[i].Cloud, "secure")
		for _, err := range c.Candidates[i].check(c.MoveGPU) {
			bad("candidates[%d]: %v", i, err)
		}
	}
	if c.Volume != nil && c.NetworkVolume != nil {
		bad("volume and network_volume: a pod has one of them")
	}
	if v := c.Volume; v != nil {
		v.Path = cmp.Or(v.Path, defaultMount)
		if v.Size < 10 || !path.IsAbs(v.Path) {
			bad("volume: want a size_gb of at least 10 and an absolute path")
		}
	}
	if v := c.NetworkVolume; v != nil {
		v.Path = cmp.Or(v.Path, defaultMount)
		if v.ID == "" || !path.IsAbs(v.Path) {
			bad("network_volume: want an id and an absolute path")
		}
	}
	if c.MinCUDA != "" && len(c.AllowedCUDA) > 0 {
		bad("min_cuda and allowed_cuda: only one of them")
	}
	if !slices.Contains([]string{networkAuto, networkTCP, networkProxy}, c.Network) {
		bad("network: %q is not auto, tcp or proxy", c.Network)
	}
	for name := range c.Env {
		if !variable.MatchString(name) || strings.HasPrefix(name, "SWEEP_") {
			bad("env: %q is not a variable's name, or is one of sweep's own", name)
		}
	}
	for name, v := range map[string]time.Duration{"heartbeat": c.Heartbeat, "pull": c.Pull, "poll": c.Poll, "patience": c.Patience} {
		if v <= 0 {
			bad("%s: want more than 0", name)
		}
	}
	if c.Disk < 1 || c.Rate < 1 {
		bad("disk and calls_per_minute: want at least 1")
	}
	return base, errors.Join(errs...)
}

func (c Candidate) check(move bool) (errs []error) {
	if c.Cloud != "secure" && c.Cloud != "community" {
		errs = append(errs, fmt.Errorf("cloud: %q is not secure or community", c.Cloud))
	}
	if c.Spot {
		errs = append(errs, errors.New("spot: version 2 of RunPod's API has no spot pods: remove spot"))
	}
	for _, id := range c.DataCenters {
		if !dataCenter.MatchString(id) {
			errs = append(errs, fmt.Errorf("data_centers: %q is not an id like EU-RO-1", id))
		}
	}
	if c.GPU == "" {
		return errs
	}
	if !move {
		errs = append(errs, errors.New("gpu: a cell runs only on the GPU that it names: move_gpu: true permits another"))
	}
	if _, err := runpodID(c.GPU); err != nil {
		errs = append(errs, err)
	}
	return errs
}

// baseURL reads the API's address. Others write it without the version.
func baseURL(text string) (*url.URL, error) {
	u, err := secureURL(text)
	if err != nil {
		return nil, err
	}
	u.Path = strings.TrimRight(u.Path, "/")
	if !strings.HasSuffix(u.Path, "/v2") {
		if u.Path != "" {
			return nil, errors.New("want an address that ends in /v2")
		}
		u.Path = "/v2"
	}
	return u, nil
}

// secureURL reads an address that a key may be sent to: in clear text only to
// this machine.
func secureURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("not a URL") // the parser's own error shows all of it
	}
	switch {
	case u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("want https://host/path, without credentials or a query")
	case u.Scheme == "https", u.Scheme == "http" && isLoopback(u.Hostname()):
		return u, nil
	}
	return nil, errors.New("want https; http is for this machine alone")
}

// Destinations implements [backends.Outbound]. Of a proxy that is not RunPod's own the host
// must be known before there is a pod.
func (b *Backend) Destinations() (to backends.Destinations, err error) {
	if to.Key, err = baseURL(b.BaseURL); err != nil {
		return to, err
	}
	to.Service, to.Default = true, keyVar
	if b.ProxyURL == DefaultConfig.ProxyURL {
		return to, nil
	}
	scheme, rest, _ := strings.Cut(b.ProxyURL, "://")
	host, _, _ := strings.Cut(rest, "/")
	if strings.Contains(host, "{") {
		return to, fmt.Errorf("backend runpod: proxy_url: %s is not RunPod's proxy: write {pod} and {port} behind the host, as in https://proxy.example.com/{pod}-{port}", b.ProxyURL)
	}
	to.Requests = &url.URL{Scheme: scheme, Host: host}
	return to, nil
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}

// proxied returns where the proxy has a port of a pod.
func (c Config) proxied(id string, port int) string {
	return strings.TrimRight(strings.NewReplacer("{pod}", id, "{port}", strconv.Itoa(port)).Replace(c.ProxyURL), "/")
}
