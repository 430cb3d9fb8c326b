// Package kubernetes measures an inference stack on Kubernetes: one that runs and belongs
// to somebody else, or one that it makes of the user's own manifests and deletes at the
// end. It finds the stack, sends the load to its entry, reads the metrics of its pods, and
// says when the stack changed meanwhile. In a stack of somebody else it changes nothing.
// With deploy the servers are pods of sweep: see package pods.
package kubernetes

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/foreign"
	"sweep.dev/sweep/backends/kubernetes/manifests"
	"sweep.dev/sweep/backends/kubernetes/pods"
	"sweep.dev/sweep/backends/kubernetes/stack"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/kubeapi"
	"sweep.dev/sweep/internal/manifest"
	"sweep.dev/sweep/internal/netguard"
	"sweep.dev/sweep/internal/secret"
	"sweep.dev/sweep/internal/syntax"
)

// Kind is the backend's name in a plan.
const Kind = "kubernetes"

// A Config is the backend's part of a plan.
type Config struct {
	Context    string `yaml:"context,omitempty" doc:"Context of the kubeconfig." default:"the current one" example:"prod"`
	Kubeconfig string `yaml:"kubeconfig,omitempty" doc:"File of the kubeconfig." default:"$KUBECONFIG, else ~/.kube/config, else the account of the pod that sweep runs in" example:"/etc/sweep/kubeconfig"`
	Namespace  string `yaml:"namespace" doc:"Namespace of the stack, or of the pods." example:"llm-d"`
	Attach     string `yaml:"attach,omitempty" doc:"What leads to the stack that is measured: a name, KIND/NAME, or labels as key=value, as sweep probe --kube takes it." default:"none, with deploy" example:"inferencepool/pd"`

	Deploy *pods.Config `yaml:"deploy,omitempty" doc:"Start the servers of the plan's engines in pods, and end them. {} is all defaults." default:"none: attach" example:"{cache: {claim: model-cache}}"`

	Manifests []manifest.File `yaml:"manifests,omitempty" doc:"Files of manifests, relative to the plan's folder, that are made for each deployment and deleted afterwards. attach then names what leads to the stack that they make." default:"none: the stack runs already" example:"[pd.yaml]"`
	Heartbeat time.Duration   `yaml:"heartbeat,omitempty" doc:"Time after which the cluster deletes what was made if its run has sent no heartbeat." default:"10m" unit:"s" example:"5m"`

	URL string `yaml:"url,omitempty" doc:"Address that requests go to, with or without the /v1 of its API." default:"the first address of the stack that answers from here" example:"http://203.0.113.9/pd"`

	Key          secret.String            `yaml:"key,omitempty" doc:"API key, sent as a bearer token to the entry. A reference, never the key itself: ${SWEEP_API_KEY}." example:"${SWEEP_API_KEY}"`
	Headers      map[string]secret.String `yaml:"headers,omitempty" doc:"Headers of every request to the entry. Headers with credentials (Authorization, Cookie, X-Api-Key, ...) by reference only." example:"{X-Tenant: bench}"`
	MetricsToken secret.String            `yaml:"metrics_token,omitempty" doc:"Token of the metrics of the endpoint picker, sent to its pods alone. A reference: ${SWEEP_EPP_TOKEN}." example:"${SWEEP_EPP_TOKEN}"`

	// See package netguard.
	AllowLinkLocal bool `yaml:"allow_link_local,omitempty" doc:"Permit a link-local address, or that of a cloud's metadata service." default:"false" example:"true"`
}

// A Backend is one stack that already runs.
type Backend struct {
	cluster   kubeapi.Config
	namespace string
	attach    string
	url       *url.URL      // nil: one of the stack's own addresses
	manifests *manifest.Set // nil: the stack runs already
	heartbeat time.Duration
	fx        *effect.Effects // makes and ends what is in the cluster, and writes the logs
	headers   foreign.Headers
	token     secret.String // of the endpoint picker's metrics
	guard     netguard.Guard
	every     pauses
}

var (
	_ backends.Backend = (*Backend)(nil)
	_ backends.Server  = (*Backend)(nil)
	_ backends.Prober  = (*Backend)(nil)
	_ backends.Network = (*Backend)(nil)
	_ backends.Applier = (*Backend)(nil)

	_ backends.Described = (*Backend)(nil)
	_ backends.Outbound  = (*Backend)(nil)
)

// Factory makes Kubernetes backends. What they make and end in a cluster, and the logs that
// they write, goes through fx.
func Factory(fx *effect.Effects) backends.Factory {
	return backends.Factory{
		Kind:     Kind,
		Doc:      "pods on Kubernetes, or a stack there: one that runs already, or one of your own manifests",
		Given:    true,
		FreeGPU:  true,
		Outlives: true,
		Applies:  true,
		LoadPods: true,
		Launch:   30 * time.Minute, // images and models are loaded meanwhile
		Settle:   time.Minute,
		Config:   Config{},
		New: func(decode func(any) error) (backends.Backend, error) {
			c := DefaultConfig()
			if err := decode(&c); err != nil {
				return nil, err
			}
			return Make(fx, c)
		},
		Form: func(f *backends.Factory, decode func(any) error) {
			c := DefaultConfig()
			switch err := decode(&c); {
			case err != nil:
			case c.Deploy != nil:
				f.Given, f.Applies, f.Images, f.Settle = false, false, true, pods.Settle
			case len(c.Manifests) == 0:
				f.Outlives, f.Applies, f.Launch = false, false, 0
			}
		},
		Default: func(env func(string) (string, bool)) (backends.Backend, error) { return atHome(fx, env) },
		There:   func(at map[string]string) (backends.Backend, error) { return there(fx, at) },
	}
}

// DefaultConfig returns what a plan leaves out.
func DefaultConfig() Config { return Config{Heartbeat: 10 * time.Minute} }

// minHeartbeat leaves room for a few heartbeats that get lost.
const minHeartbeat = 5 * time.Second

// label matches the name of a namespace.
var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// Make makes the backend that a configuration means. The error names everything that is
// wrong with it.
func Make(fx *effect.Effects, c Config) (backends.Backend, error) {
	if c.Deploy == nil {
		return New(fx, c)
	}
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("backend kubernetes: "+format, args...))
	}
	c.check(bad)
	for _, of := range []struct {
		key   string
		given bool
	}{
		{"attach", c.Attach != ""},
		{"manifests", len(c.Manifests) > 0},
		{"url", c.URL != ""},
		{"key", !c.Key.IsZero()},
		{"headers", len(c.Headers) > 0},
		{"metrics_token", !c.MetricsToken.IsZero()},
		{"allow_link_local", c.AllowLinkLocal},
	} {
		if of.given {
			bad("%s: is for a stack that is attached to, and deploy starts servers of its own: leave one of them out", of.key)
		}
	}
	if err := c.Deploy.Check(); err != nil {
		bad("deploy: %w", err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return pods.New(fx, c.at(), *c.Deploy), nil
}

// at returns where the pods of a configuration are.
func (c Config) at() pods.Place {
	return pods.Place{Kind: Kind, Cluster: kubeapi.Config{Kubeconfig: c.Kubeconfig, Context: c.Context}, Namespace: c.Namespace, Heartbeat: c.Heartbeat}
}

// check says what is wrong with what all forms have.
func (c Config) check(bad func(format string, args ...any)) {
	if !label.MatchString(c.Namespace) {
		bad("namespace: %q is no name of a namespace", c.Namespace)
	}
	if strings.HasPrefix(c.Kubeconfig, "~") {
		bad("kubeconfig: write the whole path: only a shell knows %s", c.Kubeconfig)
	}
	if c.Heartbeat != 0 && c.Heartbeat < minHeartbeat {
		bad("heartbeat: %v is less than %v, and a heartbeat that is late would end the servers", c.Heartbeat, minHeartbeat)
	}
}

// there returns the backend of a place that the ledger remembers.
func there(fx *effect.Effects, at map[string]string) (backends.Backend, error) {
	c := DefaultConfig()
	c.Namespace, c.Context, c.Kubeconfig, c.Attach = at[atNamespace], at["context"], at["kubeconfig"], at["attach"]
	if c.Attach == "" {
		c.Deploy = new(pods.Config)
	}
	return Make(fx, c)
}

// New makes the backend of a stack. It asks no cluster. The error names everything
// that is wrong with it.
func New(fx *effect.Effects, c Config) (*Backend, error) {
	b := &Backend{
		fx: fx, heartbeat: c.Heartbeat,
		cluster: kubeapi.Config{Kubeconfig: c.Kubeconfig, Context: c.Context}, namespace: c.Namespace, attach: c.Attach,
		token: c.MetricsToken, guard: netguard.Guard{AllowLinkLocal: c.AllowLinkLocal, Hint: "allow_link_local permits it"}, every: usual,
	}
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("backend kubernetes: "+format, args...))
	}
	c.check(bad)
	if c.Attach == "" {
		bad("attach: name what leads to the stack, or say deploy: {} to start servers; sweep probe --kube %s shows what there is", c.Namespace)
	} else if err := stack.CheckName(c.Attach); err != nil {
		bad("attach: %w", err)
	}
	if c.URL != "" {
		u, err := foreign.Address(c.URL, b.guard)
		if err != nil {
			bad("url: %w", err)
		}
		b.url = u
	}
	if len(c.Manifests) > 0 {
		var r syntax.Report
		b.manifests = manifest.Parse(c.Manifests, &r)
		if err := cmp.Or(r.Err(), manifests.Check(b.manifests, c.Namespace)); err != nil {
			return nil, err
		}
	}
	headers, wrong := foreign.HeadersOf(c.Headers, c.Key)
	for _, err := range wrong {
		bad("%w", err)
	}
	b.headers = headers
	switch {
	case foreign.IsLiteral(c.MetricsToken):
		bad("metrics_token: want a reference, ${NAME}, and not the token itself")
	case strings.ContainsAny(c.MetricsToken.Reveal(), "\r\n\x00"):
		bad("metrics_token: the value holds a line break")
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return b, nil
}

// Destinations implements [backends.Outbound]. What a cluster says is the address of its
// stack is as good as the cluster's own.
func (b *Backend) Destinations() (backends.Destinations, error) {
	cluster := &url.URL{Scheme: "https", Host: "kubernetes.default.svc"} // none is configured: nothing is sent
	if api, err := kubeapi.Connect(b.cluster); err == nil {
		if cluster, err = url.Parse(api.Server()); err != nil {
			return backends.Destinations{}, errors.New("backend kubernetes: the kubeconfig has no address of a server")
		}
	}
	to := cmp.Or(b.url, cluster)
	return backends.Destinations{Requests: to, Key: to, Cluster: cluster}, nil
}

// Describe implements [backends.Described].
func (b *Backend) Describe() string {
	if b.manifests != nil {
		return fmt.Sprintf("makes the %d objects of its manifests in namespace %s, measures %s and deletes them", len(b.manifests.Objects), b.namespace, b.attach)
	}
	text := fmt.Sprintf("attaches to %s in namespace %s", b.attach, b.namespace)
	if b.cluster.Context != "" {
		text += " of context " + b.cluster.Context
	}
	if b.url != nil {
		return text + ", at " + b.url.String()
	}
	return text + ", at its first address that answers"
}
