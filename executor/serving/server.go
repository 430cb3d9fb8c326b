package serving

import (
	"context"
	"net/http"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/internal/secret"
)

// A Server is one launch of a deployment that became ready.
type Server struct {
	Deployment backends.Deployment
	Launch     int // of its deployment, from 1, over all runs of the directory
	Roles      []backends.Role
	Version    string        // of the engine; "" if it tells none
	Model      string        // as which it answers; "" if it does not say
	StartUp    time.Duration // from the launch until it answered; 0 for a server that was up before
	// Foreign: it was up before this run, and somebody else may have asked it.
	Foreign bool

	authorize func(http.Header)
	pod       *pod
	// release ends the server once, and waits until it has ended.
	release func(context.Context)
	calm    func() bool // takes back the order to end it when the run is ended
	kept    bool
}

// Host returns where a replica of a role is.
func (s *Server) Host(role string, replica int) host.Host { return s.Deployment.Host(role, replica) }

// Done is closed when the server has ended by itself.
func (s *Server) Done() <-chan struct{} { return s.Deployment.Done() }

// Gone reports whether the server has ended by itself.
func (s *Server) Gone() bool {
	select {
	case <-s.Done():
		return true
	default:
		return false
	}
}

// Authorize adds what a request to the server has to carry.
func (s *Server) Authorize(h http.Header) { s.authorize(h) }

// Terms returns what the server was got for, by now: a price or a finding may have
// come after the launch.
func (s *Server) Terms() backends.Terms {
	if rental, ok := s.Deployment.(backends.Rental); ok {
		return rental.Terms()
	}
	return backends.Terms{}
}

// LogPaths returns the log files of all replicas.
func (s *Server) LogPaths() []string {
	var paths []string
	for _, role := range s.Roles {
		for i := range role.Replicas {
			paths = append(paths, role.LogPath(i))
		}
	}
	return paths
}

// authorizer adds what the servers of this backend, and of one deployment of
// it, want to be asked with. A key that the backend made wins over the plan's.
func (d *Servers) authorizer(dep backends.Deployment) func(http.Header) {
	key := d.plannedKey()
	return func(h http.Header) {
		if !key.IsZero() {
			h.Set("Authorization", "Bearer "+key.Reveal())
		}
		for _, v := range []any{d.config.Backend, dep} {
			if s, ok := v.(backends.Server); ok {
				s.Authorize(h)
			}
		}
	}
}

// plannedKey returns the key that the plan gives the engine in its environment; zero
// if it gives none, or if the server is not started by us and never gets it.
func (d *Servers) plannedKey() secret.String {
	if d.config.Options.Given {
		return secret.String{}
	}
	entry := d.profile.Role(d.profile.EntryRole())
	if entry == nil || entry.KeyEnv == "" {
		return secret.String{}
	}
	if key, ok := d.of.Server.Roles[entry.Name].Env[entry.KeyEnv]; ok {
		return key
	}
	return d.of.Server.Env[entry.KeyEnv]
}
