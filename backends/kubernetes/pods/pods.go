// Package pods runs engines in pods of a Kubernetes cluster, which sweep makes and ends.
//
// # What a deployment is
//
// One bare pod for each replica of each role, which nothing starts again, called by its
// unit's name (package provision). A Job without pods owns them all (package owner): it
// is made first, and what it owns goes with it. If there are several pods, a headless
// Service gives them names by which they find each other. The environment and the files
// of a pod are in a Secret of the deployment, not in the pod.
//
// # How it is reached
//
// Requests go to the address of the pod where it can be reached from here. Else a load pod
// (package clients) sends them, which the plan may want in any case. What else a server is
// asked then goes through the API server.
//
// # How it ends
//
// Stop deletes the pods and their Job, and returns when all is seen to be gone. If sweep
// dies, the cluster ends all of it: by the deadline of the Job, which a heartbeat moves
// on, and by that of each pod, which the kubelet counts also when no controller is at
// work.
package pods

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/kubernetes/owner"
	"sweep.dev/sweep/backends/provision"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/kubeapi"
)

// Bounds, of which a test has its own.
type pauses struct {
	connect time.Duration // until an address of a pod counts as out of reach
	again   time.Duration // before the API is asked again that did not answer
	beat    time.Duration // between two signs of life, at most
	quota   time.Duration // before a create is tried again that a quota has refused
	leave   time.Duration // after its grace, until a pod counts as one that its node does not end
}

var usual = pauses{connect: 3 * time.Second, again: time.Second, beat: time.Minute, quota: 2 * time.Second, leave: 5 * time.Second}

const (
	// late is how long a pod may be unseen whose create got no answer.
	late = 10 * time.Second
	// Settle is how long a deletion can take beyond the grace: the kubelet, then the
	// controllers.
	Settle = 45 * time.Second
)

// A Place says where pods are made.
type Place struct {
	Kind      string // the backend's
	Cluster   kubeapi.Config
	Namespace string
	// Heartbeat is how long the cluster lets pods live without a sign of life; 0 is
	// 10 minutes.
	Heartbeat time.Duration
}

// at returns the keys of the plan that lead to a place.
func (p Place) at() map[string]string {
	at := map[string]string{"namespace": p.Namespace}
	if p.Cluster.Context != "" {
		at["context"] = p.Cluster.Context
	}
	if p.Cluster.Kubeconfig != "" {
		at["kubeconfig"] = p.Cluster.Kubeconfig
	}
	return at
}

const defaultHeartbeat = 10 * time.Minute

// A Backend runs pods.
type Backend struct {
	*provision.Layer
	fx     *effect.Effects
	place  Place
	config Config
	files  string // the folder of the folders of the pods' files
	every  pauses

	connect func() (*kubeapi.Client, error)
}

var (
	_ backends.Backend = (*Backend)(nil)
	_ backends.Checker = (*Backend)(nil)
	_ backends.Prober  = (*Backend)(nil)
	_ backends.Network = (*Backend)(nil)
)

// New makes a backend of a configuration, which [Config.Check] has found nothing wrong
// with. It asks no cluster.
func New(fx *effect.Effects, place Place, c Config) *Backend {
	if place.Heartbeat == 0 {
		place.Heartbeat = defaultHeartbeat
	}
	b := &Backend{
		fx: fx, place: place, config: c.filled(), files: filesDir, every: usual,
		connect: sync.OnceValues(func() (*kubeapi.Client, error) { return kubeapi.Connect(place.Cluster) }),
	}
	env := map[string]string{}
	for name, value := range c.Env {
		env[name] = value.Reveal()
	}
	b.Layer = provision.New(provision.Settings{
		Kind: place.Kind, Effects: fx, Env: env, Images: true, Files: true, At: place.at,
		Elsewhere: ": name the context and the namespace of the plan", Late: late, Settle: Settle,
	}, provider{b})
	return b
}

// Launch implements [backends.Backend].
func (b *Backend) Launch(ctx context.Context, spec backends.Spec, l backends.Ledger) (backends.Deployment, error) {
	if err := b.Check(spec); err != nil {
		return nil, err
	}
	return b.Layer.Launch(ctx, spec, l)
}

// Check implements [backends.Checker].
func (b *Backend) Check(spec backends.Spec) error {
	if ns := spec.Clients.Namespace; ns != "" && ns != b.place.Namespace {
		return fmt.Errorf("%w: load.clients.namespace: the load pods of servers of your own belong to their launch, in namespace %s: leave it out", backends.ErrSpec, b.place.Namespace)
	}
	for _, role := range spec.Roles {
		switch {
		case role.Image == "":
			return fmt.Errorf("%w: role %s has no image: set engines.%s.image", backends.ErrSpec, role.Name, spec.Engine)
		case len(role.CPUs) > 0:
			return fmt.Errorf("%w: role %s: a pod cannot be pinned to CPUs by number: leave out cpus, and say cpu in backend.deploy", backends.ErrSpec, role.Name)
		}
	}
	return b.Layer.Check(spec)
}

// PlainTCP implements [backends.Network]: how requests get there is known when a pod has
// an address.
func (b *Backend) PlainTCP() bool { return true }

// api returns the cluster's, as the provider's errors have it.
func (b *Backend) api() (*kubeapi.Client, error) {
	api, err := b.connect()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", backends.ErrRefused, err)
	}
	return api, nil
}

// owners makes the owners of deployments.
func (b *Backend) owners() (owner.Namespace, error) {
	api, err := b.api()
	return owner.Namespace{API: api, Name: b.place.Namespace, Effects: b.fx}, err
}

// path returns that of a collection of the namespace, or of an object in it.
func (b *Backend) path(collection, name string) string {
	path := "/api/v1/namespaces/" + url.PathEscape(b.place.Namespace) + "/" + collection
	if name != "" {
		path += "/" + url.PathEscape(name)
	}
	return path
}

// call makes one call to the cluster as the operation p.
func (b *Backend) call(ctx context.Context, p effect.Point, f func(context.Context, *kubeapi.Client) error) error {
	api, err := b.api()
	if err != nil {
		return err
	}
	return b.fx.Call(ctx, p, func(ctx context.Context) error { return f(ctx, api) })
}

// A right is one that the backend needs.
type right struct {
	kubeapi.Right
	For string // "" for what lost its Job alone: no launch needs it
}

// rights are what the pods of a plan need. role.yaml grants exactly these; nodes are the
// cluster's, and may be unreadable.
var rights = []right{
	{kubeapi.Right{Verb: "create", Group: "batch", Resource: "jobs"}, "what ends the pods without sweep"},
	{kubeapi.Right{Verb: "get", Group: "batch", Resource: "jobs"}, "the same"},
	{kubeapi.Right{Verb: "list", Group: "batch", Resource: "jobs"}, "sweep pods and sweep gc"},
	{kubeapi.Right{Verb: "patch", Group: "batch", Resource: "jobs"}, "the heartbeat"},
	{kubeapi.Right{Verb: "delete", Group: "batch", Resource: "jobs"}, "the end"},
	{kubeapi.Right{Verb: "create", Resource: "pods"}, "the servers"},
	{kubeapi.Right{Verb: "get", Resource: "pods"}, "their state"},
	{kubeapi.Right{Verb: "list", Resource: "pods"}, "what is left"},
	{kubeapi.Right{Verb: "watch", Resource: "pods"}, "why a pod ends"},
	{kubeapi.Right{Verb: "delete", Resource: "pods"}, "the end"},
	{kubeapi.Right{Verb: "get", Resource: "pods/log"}, "the logs"},
	{kubeapi.Right{Verb: "create", Resource: "secrets"}, "the environment and files of the servers"},
	{kubeapi.Right{Verb: "create", Resource: "services"}, "names, if there are several servers"},
	{kubeapi.Right{Verb: "list", Resource: "events"}, "why a pod does not start"},
	{kubeapi.Right{Verb: "deletecollection", Resource: "secrets"}, ""},
	{kubeapi.Right{Verb: "deletecollection", Resource: "services"}, ""},
}

// Probe asks whether the user has each right that a launch needs, and names those that
// are missing.
func (b *Backend) Probe(ctx context.Context) error {
	api, err := b.api()
	if err != nil {
		return err
	}
	questions := make([]kubeapi.Right, len(rights))
	for i, r := range rights {
		questions[i] = r.Right
	}
	held, err := api.Review(ctx, b.place.Namespace, questions)
	if err != nil {
		return fmt.Errorf("%w: %w", backends.ErrRefused, err)
	}
	var missing []string
	for i, r := range rights {
		if !held[i] && r.For != "" {
			missing = append(missing, fmt.Sprintf("%s %s (%s)", r.Verb, kubeapi.Qualified(r.Group, r.Resource), r.For))
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w: in namespace %s you may not %s: ask for the Role that sweep probe --kube %s --print-deploy-role prints",
			backends.ErrRefused, b.place.Namespace, strings.Join(missing, ", "), b.place.Namespace)
	}
	return nil
}
