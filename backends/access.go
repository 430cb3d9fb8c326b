package backends

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/internal/secret"
)

// MarkServer is the mark of one replica, beside those of its pod ([Marks]): a
// [Listener] in JSON, in the environment of the replica. By it a later process
// knows how the replica is reached. It holds no secret.
const MarkServer = "SWEEP_SERVER"

// A Listener is one replica of a role as it was started.
type Listener struct {
	Engine  string `json:"engine"`
	Model   string `json:"model"`
	Role    string `json:"role"`
	Replica int    `json:"replica"` // from 0
	Entry   bool   `json:"entry"`   // whether requests go to its role
	Host    string `json:"host"`    // that it listens on, inside its pod
	Port    int    `json:"port"`
	// Ports are its further ports by name.
	Ports map[string]int `json:"ports,omitempty"`
	// MetricsPaths are where its metrics may be, in the order in which they are
	// tried, on MetricsPort.
	MetricsPort  int      `json:"metrics_port,omitempty"`
	MetricsPaths []string `json:"metrics_paths,omitempty"`
	// KeyEnv is the variable from which it takes its key; "" if sweep knows none.
	KeyEnv string `json:"key_env,omitempty"`
}

// ServerMark returns the value of [MarkServer] for a replica that will listen at an
// address.
func ServerMark(spec Spec, role Role, at Address) string {
	l := Listener{
		Engine: spec.Engine, Model: spec.Model, Role: role.Name, Replica: at.Replica,
		Entry: role.Name == cmp.Or(spec.Entry, spec.Roles[0].Name), Host: at.Listen(), Port: at.Port, Ports: at.Ports, KeyEnv: role.KeyEnv,
	}
	if len(role.MetricsPaths) > 0 {
		l.MetricsPaths, l.MetricsPort = role.MetricsPaths, cmp.Or(at.Ports[role.MetricsPort], at.Port)
	}
	text, err := json.Marshal(l)
	if err != nil {
		panic(err) // strings and numbers only
	}
	return string(text)
}

// An Accessor is a backend that can tell how the servers of a pod are reached
// from this machine, also after the run that started them. Optional, found by
// type assertion.
type Accessor interface {
	// Access returns one entry for each replica of each role. ErrNotFound if ref
	// names nothing that exists, [host.ErrNotSupported] if the backend does not know
	// it of this kind of pod. It asks the provider and no server.
	Access(ctx context.Context, ref Ref) ([]Access, error)
}

// The fields of an [Access] that may be unknown, by their names in [Access.Why].
const (
	AccessURL     = "url"
	AccessMetrics = "metrics_urls"
	AccessKey     = "key"
)

// An Access is how one replica is reached from this machine. Where a field is
// empty, Why has the reason.
type Access struct {
	Listener
	URL     string        // of its HTTP API, without /v1 and without a trailing slash
	Metrics []string      // URLs, in the order in which they are tried
	Path    host.Path     // with URL
	Network string        // the network path in words; with URL
	Tunnel  []string      // the command that must run for the URLs to work; nil if none must
	Key     secret.String // that requests carry as a bearer token
	KeyAt   string        // where Key is kept, in words; with Key
	Why     map[string]string
}

// AccessOf reads the marks of a replica and its key from its environment, which
// is kept at a place named in words. [Access.At] or [Access.Nowhere] adds the
// addresses.
func AccessOf(env func(name string) string, place string) (Access, error) {
	a := Access{Why: map[string]string{}}
	mark := env(MarkServer)
	if mark == "" {
		return a, errors.New("how to reach it is not recorded: an older sweep started it")
	}
	if err := json.Unmarshal([]byte(mark), &a.Listener); err != nil {
		return a, fmt.Errorf("%s gave an answer that sweep cannot read: %w", MarkServer, err)
	}
	switch {
	case a.KeyEnv == "":
		a.Why[AccessKey] = fmt.Sprintf("sweep knows no variable from which %s takes a key, and gave it none", cmp.Or(a.Engine, "its engine"))
	case env(a.KeyEnv) == "":
		a.Why[AccessKey] = fmt.Sprintf("it was started without one: %s is not set in %s", a.KeyEnv, place)
	default:
		a.Key, a.KeyAt = secret.New("${"+a.KeyEnv+"}", env(a.KeyEnv)), place
	}
	if len(a.MetricsPaths) == 0 {
		a.Why[AccessMetrics] = "sweep knows no metrics of this role"
	}
	return a, nil
}

// ByReplica orders accesses by role, then by replica: for [slices.SortFunc].
func ByReplica(a, b Access) int {
	return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Replica, b.Replica))
}

// At adds the addresses of a replica. url is the base URL of one of its ports as
// seen from here, "" if it cannot be reached.
func (a *Access) At(path host.Path, network string, url func(port int) string) {
	if a.URL = url(a.Port); a.URL == "" {
		a.Nowhere(fmt.Sprintf("port %d cannot be reached from this machine", a.Port))
		return
	}
	a.Path, a.Network = path, network
	if len(a.MetricsPaths) == 0 {
		return
	}
	base := url(a.MetricsPort)
	if base == "" {
		a.Why[AccessMetrics] = fmt.Sprintf("port %d cannot be reached from this machine", a.MetricsPort)
		return
	}
	for _, path := range a.MetricsPaths {
		a.Metrics = append(a.Metrics, base+path)
	}
}

// Nowhere says why a replica has no address.
func (a *Access) Nowhere(why string) { a.Why[AccessURL], a.Why[AccessMetrics] = why, why }
