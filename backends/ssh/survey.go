package ssh

import (
	"context"
	"errors"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/bootstrap"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/backends/provision"
)

// A survey is what a launch has to know of the host.
type survey struct {
	python bool
	taken  map[int]bool
	below  int // ports from here on are the kernel's to give
}

func (l *link) survey(ctx context.Context, workdir string) (survey, error) {
	out, err := l.read(ctx, "sw_survey "+folder(workdir))
	if err != nil {
		return survey{}, err
	}
	s := survey{taken: map[int]bool{}, below: 32768}
	for line := range strings.Lines(string(out)) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch key {
		case "has":
			s.python = s.python || value == "python3"
		case "used":
			if port, err := strconv.ParseUint(value, 16, 16); err == nil {
				s.taken[int(port)] = true
			}
		case "given":
			if port, err := strconv.Atoi(value); err == nil {
				s.taken[port] = true
			}
		case "range":
			if port, err := strconv.Atoi(value); err == nil && port > 1024 {
				s.below = port
			}
		}
	}
	return s, nil
}

// port chooses one that is free, below the range from which the kernel gives
// ports to outgoing connections.
func (s survey) port() (int, error) {
	first := 10000
	if s.below <= first+1000 {
		first = 1025
	}
	for range 1000 {
		if port := first + mathrand.IntN(s.below-first); !s.taken[port] {
			s.taken[port] = true
			return port, nil
		}
	}
	return 0, errors.New("no free port on the host")
}

// units returns what a spec starts on the host, in that order, one for each replica.
func (s survey) units(b *Backend, spec backends.Spec, pod backends.Name) ([]*provision.Unit, error) {
	bind := loopback
	if b.c.Network == string(host.Direct) {
		bind = "0.0.0.0"
	}
	units := provision.PerReplica(spec, pod)
	for _, u := range units {
		r := u.Replicas[0]
		r.Place.Bind, r.Place.Host, r.Place.Dir = bind, loopback, bootstrap.FilesDir(u.Name)
		if len(r.Role.Ports) > 0 {
			r.Place.Ports = map[string]int{}
		}
	}
	// The plan's ports come first: a port that is drawn must not be one of them.
	said := map[int]string{}
	for _, u := range units {
		if err := fixed(u.Replicas[0], said); err != nil {
			return nil, err
		}
	}
	for port := range said {
		s.taken[port] = true
	}
	for _, u := range units {
		if err := s.draw(u.Replicas[0]); err != nil {
			return nil, err
		}
	}
	return units, nil
}

// fixed gives a replica the ports that the plan says: replica n has the n-th after
// them. said is who has which.
func fixed(r *provision.Replica, said map[int]string) error {
	take := func(first int) (int, error) {
		port := first + r.Place.Replica
		switch other, taken := said[port]; {
		case first == 0:
			return 0, nil
		case port > 65535:
			return 0, fmt.Errorf("%w: %s: no port %d", backends.ErrSpec, r.Name(), port)
		case taken:
			return 0, fmt.Errorf("%w: %s and %s cannot both have port %d of one host", backends.ErrSpec, other, r.Name(), port)
		}
		said[port] = r.Name()
		return port, nil
	}
	var err error
	if r.Place.Port, err = take(r.Role.Port); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(r.Role.Ports)) {
		if r.Place.Ports[name], err = take(r.Role.Ports[name]); err != nil {
			return err
		}
	}
	return nil
}

// draw gives a replica the ports that it does not have yet.
func (s survey) draw(r *provision.Replica) (err error) {
	if r.Place.Port == 0 {
		if r.Place.Port, err = s.port(); err != nil {
			return err
		}
	}
	for name, port := range r.Place.Ports {
		if port == 0 {
			if r.Place.Ports[name], err = s.port(); err != nil {
				return err
			}
		}
	}
	if s.python {
		r.Place.Agent, err = s.port()
	}
	return err
}

// drawn reports whether no port of a role is fixed: another launch may have others.
func drawn(role backends.Role) bool {
	for _, port := range role.Ports {
		if port != 0 {
			return false
		}
	}
	return role.Port == 0
}
