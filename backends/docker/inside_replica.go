package docker

import (
	"cmp"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/bootstrap"
	"sweep.dev/sweep/backends/provision"
)

// loopbackIP is how the processes of one container reach each other.
const loopbackIP = "127.0.0.1"

// An insidePlace is the container in which replicas are going to be started.
type insidePlace struct {
	id, name string
	network  reach
	seen     survey       // of all its processes
	oom      bool         // it had the mark of the out-of-memory killer before
	digest   string       // of its image
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
		return 0, fmt.Errorf("%w: port %d of container %s is in use by %s", backends.ErrSpec, want, p.name, p.seen.holder(want))
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

// draw takes a free port that can be reached. It is drawn at random: a process
// started a moment ago may not listen yet.
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

// wants returns the port that a replica should have, for its requests or, by name, for
// something else; 0 is any.
func (i Inside) wants(spec backends.Spec, r *provision.Replica, name string) int {
	key, own := r.Role.Name, r.Role.Port
	if name != "" {
		key, own = key+"."+name, r.Role.Ports[name]
	}
	switch want := cmp.Or(i.Ports[key], own); {
	case want != 0:
		return want + r.Place.Replica
	case name == "" && r.Place.Replica == 0 && isEntry(spec, r.Role):
		return provision.EnginePort
	default:
		return 0
	}
}

// isEntry reports whether requests go to a role.
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
	if err := b.insideLayer("").Check(spec); err != nil {
		return err
	}
	_, err := b.insideUnits(spec, backends.NewName("", "", time.Now()), &insidePlace{network: reach{ip: netip.MustParseAddr(loopbackIP)}})
	return err
}

// insideUnits returns what a spec starts in a container, in that order, each with
// its ports.
func (b *Backend) insideUnits(spec backends.Spec, pod backends.Name, place *insidePlace) ([]*provision.Unit, error) {
	if err := b.config.Inside.checkPorts(spec); err != nil {
		return nil, err
	}
	units := provision.PerReplica(spec, pod)
	for _, u := range units {
		at := &u.Replicas[0].Place
		at.Bind, at.Host, at.Dir, at.Ports = provision.Everywhere, loopbackIP, bootstrap.FilesDir(u.Name), map[string]int{}
		u.Data = place
	}
	// The wanted ports come first: a port that is drawn must not be one of them.
	for _, drawn := range []bool{false, true} {
		for _, u := range units {
			r := u.Replicas[0]
			for _, port := range append([]string{""}, slices.Sorted(maps.Keys(r.Role.Ports))...) {
				want := b.config.Inside.wants(spec, r, port)
				if (want == 0) != drawn {
					continue
				}
				got, err := place.take(want)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", r.Name(), err)
				}
				if port == "" {
					r.Place.Port = got
				} else {
					r.Place.Ports[port] = got
				}
			}
		}
	}
	// Published ports are for engines: without another way there is no heartbeat.
	if b.config.DeadMan && b.config.Heartbeat > 0 && place.network.ip.IsValid() {
		for _, u := range units {
			var err error
			if u.Replicas[0].Place.Agent, err = place.draw(); err != nil {
				return nil, fmt.Errorf("%s: %w", u.Replicas[0].Name(), err)
			}
		}
	}
	return units, nil
}
