package docker

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/bootstrap"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/exposition"
	"sweep.dev/sweep/internal/input"
	"sweep.dev/sweep/internal/netguard"
	"sweep.dev/sweep/internal/secret"
)

// loopbackIP is how the processes of one container reach each other.
const loopbackIP = "127.0.0.1"

// An insideReplica is one replica of a role in somebody else's container.
type insideReplica struct {
	role    backends.Role
	address backends.Address // as it is told
	env     map[string]string
	options bootstrap.Options // whose Name is its alone
	host    *containerHost
	agent   *bootstrap.Agent // nil where there is none

	exec     string             // Docker's id of what was started; "" before
	cancel   context.CancelFunc // ends the watchers
	watchers sync.WaitGroup
}

func (r *insideReplica) label() string { return r.role.ReplicaName(r.address.Replica) }

// An insidePlace is the container in which replicas are going to be started.
type insidePlace struct {
	id, name string
	network  reach
	seen     survey       // of all its processes
	given    map[int]bool // ports that its replicas have
}

// take takes the port that is wanted, or any if that is 0.
func (p *insidePlace) take(want int) (int, error) {
	if want == 0 {
		return p.draw()
	}
	switch {
	case want < 1 || want > 65535:
		return 0, fmt.Errorf("%w: no port %d", backends.ErrSpec, want)
	case p.network.port(want) == "":
		return 0, fmt.Errorf("%w: port %d of container %s cannot be reached: it is not published, and the container's own address is not one of a network of this machine; "+
			"publish it (docker run -p 127.0.0.1::%d), or choose a port that is", backends.ErrSpec, want, p.name, want)
	case len(p.seen.listening[want]) > 0:
		return 0, fmt.Errorf("%w: port %d of container %s is taken, by %s", backends.ErrSpec, want, p.name, p.seen.holder(want))
	case p.given[want]:
		return 0, fmt.Errorf("%w: port %d is another replica's: set backend.inside.ports", backends.ErrSpec, want)
	}
	p.give(want)
	return want, nil
}

func (p *insidePlace) give(port int) {
	if p.given == nil {
		p.given = map[int]bool{}
	}
	p.given[port] = true
}

// draw takes a port that nobody listens on and that can be reached. It is drawn:
// what was started there a moment ago may not listen yet.
func (p *insidePlace) draw() (int, error) {
	var ports []int
	if p.network.ip.IsValid() {
		for range 100 {
			ports = append(ports, 10_000+mathrand.IntN(20_000))
		}
	} else {
		for port := range p.network.published {
			ports = append(ports, int(port))
		}
		slices.Sort(ports)
	}
	for _, port := range ports {
		if len(p.seen.listening[port]) == 0 && !p.given[port] {
			p.give(port)
			return port, nil
		}
	}
	return 0, fmt.Errorf("%w: container %s has no free port left that can be reached: publish one for each server and one for each further port of it (docker run -p 127.0.0.1::8081)",
		backends.ErrSpec, p.name)
}

// wants is the port that a replica should have, for its requests or, by name, for
// something else; 0 is any.
func (i Inside) wants(spec backends.Spec, r *insideReplica, name string) int {
	key, own := r.role.Name, r.role.Port
	if name != "" {
		key, own = key+"."+name, r.role.Ports[name]
	}
	switch want := cmp.Or(i.Ports[key], own); {
	case want != 0:
		return want + r.address.Replica
	case name == "" && r.address.Replica == 0 && isEntry(spec, r.role):
		return defaultPort
	default:
		return 0
	}
}

// isEntry says whether requests go to a role.
func isEntry(spec backends.Spec, role backends.Role) bool {
	return role.Name == cmp.Or(spec.Entry, spec.Roles[0].Name)
}

// checkPorts refuses ports of what the spec does not have.
func (i Inside) checkPorts(spec backends.Spec) error {
	var known []string
	for _, role := range spec.Roles {
		known = append(known, role.Name)
		for name := range role.Ports {
			known = append(known, role.Name+"."+name)
		}
	}
	slices.Sort(known)
	for _, name := range slices.Sorted(maps.Keys(i.Ports)) {
		if !slices.Contains(known, name) {
			return fmt.Errorf("%w: inside.ports: engine %s has no port %q, only %s", backends.ErrSpec, spec.Engine, name, strings.Join(known, ", "))
		}
	}
	return nil
}

// checkInside finds what is wrong with a spec before the container is looked at.
func (b *Backend) checkInside(spec backends.Spec) error {
	if spec.Expires.IsZero() {
		spec.Expires = time.Now().Add(defaultLife)
	}
	_, err := b.insideReplicas(spec, "NAME", &insidePlace{network: reach{ip: netip.MustParseAddr(loopbackIP)}})
	return err
}

// insideReplicas are what a spec starts in a container, in that order, with all
// that can be known before: each has its ports, and knows where the others are.
func (b *Backend) insideReplicas(spec backends.Spec, name string, place *insidePlace) ([]*insideReplica, error) {
	if err := b.config.Inside.checkPorts(spec); err != nil {
		return nil, err
	}
	var all []*insideReplica
	for _, role := range spec.Roles {
		for n := range role.Replicas {
			r := &insideReplica{role: role, options: bootstrap.Options{
				Name: fmt.Sprintf("%s.%s.%d", name, role.Name, n), Lifetime: time.Until(spec.Expires), Expires: spec.Expires, Grace: spec.Grace,
			}}
			r.options.LogPath = "/tmp/sweep-" + r.options.Name + ".log"
			r.address = backends.Address{Host: "0.0.0.0", Replica: n, Dir: bootstrap.FilesDir(r.options.Name), Ports: map[string]int{}}
			all = append(all, r)
		}
	}
	// What is wanted comes first: a port that is drawn must not be one of those.
	for _, drawn := range []bool{false, true} {
		for _, r := range all {
			for _, port := range append([]string{""}, slices.Sorted(maps.Keys(r.role.Ports))...) {
				want := b.config.Inside.wants(spec, r, port)
				if (want == 0) != drawn {
					continue
				}
				got, err := place.take(want)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", r.label(), err)
				}
				if port == "" {
					r.address.Port = got
				} else {
					r.address.Ports[port] = got
				}
			}
		}
	}
	peers := map[string][]backends.Address{}
	for _, r := range all {
		peer := r.address
		peer.Host = loopbackIP
		peers[r.role.Name] = append(peers[r.role.Name], peer)
	}
	for _, r := range all {
		r.address.Peers = peers
		if err := b.prepare(r, place); err != nil {
			return nil, fmt.Errorf("%s: %w", r.label(), err)
		}
	}
	return all, nil
}

// prepare makes the command line, the environment and the files of a replica that
// has its ports.
func (b *Backend) prepare(r *insideReplica, place *insidePlace) error {
	argv, err := r.role.Argv(r.address)
	if err != nil {
		return fmt.Errorf("%w: %w", backends.ErrSpec, err)
	}
	extra, err := r.role.ExtraAt(r.address)
	if err != nil {
		return err
	}
	r.env = map[string]string{}
	for name, value := range b.config.Env {
		r.env[name] = value.Reveal()
	}
	maps.Copy(r.env, extra.Env)
	maps.Copy(r.env, r.role.Env)
	r.options.Argv, r.options.Files = argv, extra.Files
	if r.options.Files == nil {
		r.options.Files = map[string][]byte{} // others may have been told of the folder
	}
	r.host = &containerHost{
		b: b, id: place.id, network: place.network, address: place.network.port(r.address.Port), ports: r.address.Ports, user: b.config.User,
	}
	if r.role.LogPath != nil {
		r.host.log = r.role.LogPath(r.address.Replica)
	}
	// Published ports are for engines: without another way there is no heartbeat.
	if b.config.DeadMan && b.config.Heartbeat > 0 && place.network.ip.IsValid() {
		port, err := place.draw()
		if err != nil {
			return err
		}
		r.options.Heartbeat, r.options.AgentPort = b.config.Heartbeat, port
		r.options.Token = secret.New("(the pod's own token)", rand.Text())
		r.agent = bootstrap.NewAgent(nil, "http://"+place.network.port(port), r.options.Token)
	}
	if err := r.options.Validate(); err != nil {
		return fmt.Errorf("%w: %w", backends.ErrSpec, err)
	}
	return nil
}

// metrics is where the metrics of a replica may be.
func (r *insideReplica) metrics() []string {
	base := r.host.URL()
	if r.role.MetricsPort != "" {
		base = "http://" + r.host.Addr(r.role.MetricsPort)
	}
	var urls []string
	for _, path := range r.role.MetricsPaths {
		urls = append(urls, base+path)
	}
	return urls
}

// metricsFile is where its last metrics are kept: beside its log.
func (r *insideReplica) metricsFile() string {
	name := "metrics-" + r.role.Name
	if r.role.Replicas > 1 {
		name += "-" + strconv.Itoa(r.address.Replica)
	}
	return filepath.Join(filepath.Dir(r.host.log), name+".txt")
}

// scrape keeps the last metrics of a replica: the counters go with the process,
// and the container stays.
func (r *insideReplica) scrape(ctx context.Context, fx *effect.Effects) {
	if r.exec == "" || r.host.log == "" {
		return
	}
	c := netguard.Client(r.host.Dial, 0)
	defer c.CloseIdleConnections()
	for _, url := range r.metrics() {
		// Nothing here is worth an error: it may have ended, or never have been ready.
		body, err := fetch(ctx, c, url)
		if err != nil {
			continue
		}
		if f, err := fx.Create(effect.LogCreate, r.metricsFile()); err == nil {
			_, _ = f.Write(body) // a file that cannot be written must not hold up the end
			_ = f.Close()
		}
		return
	}
}

func fetch(ctx context.Context, c *http.Client, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", url, resp.Status)
	}
	return input.ReadStream(url, resp.Body, exposition.MaxBody)
}
