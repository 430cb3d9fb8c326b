package command

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/bootstrap"
	"sweep.dev/sweep/backends/command/protocol"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/backends/provision"
)

// units is the [provision.Provider] of what the program makes: each is one replica.
type units struct{ b *Backend }

var _ provision.Inspector = units{}

const (
	// unknown stands for the address of a unit that has not said it yet.
	unknown = "not-known-yet.invalid"
	// agentPort is the name of the port of sweep's script.
	agentPort = "agent"
	// lookEvery is the pause between two questions what has become of a unit.
	lookEvery = 200 * time.Millisecond
)

// Allocate chooses ports. Units may share a machine, so they are drawn, and the
// program may say that one is taken.
func (p units) Allocate(_ context.Context, spec backends.Spec, pod backends.Name) (provision.Allocation, error) {
	given := map[int]bool{}
	port := func(want, replica int) int {
		for want == 0 {
			if drawn := 10_000 + rand.IntN(20_000); !given[drawn] {
				given[drawn] = true
				return drawn
			}
		}
		return want + replica
	}
	all := provision.PerReplica(spec, pod)
	for _, u := range all {
		role, at := u.Replicas[0].Role, &u.Replicas[0].Place
		at.Bind, at.Host, at.Port = p.b.c.Listen, cmp.Or(p.b.c.Host, unknown), port(role.Port, at.Replica)
		at.Dir = bootstrap.FilesDir(u.Name)
		if p.b.c.SharedDisk != "" {
			at.Dir = filepath.Join(p.b.c.SharedDisk, u.Name)
		}
		for further, want := range role.Ports {
			if at.Ports == nil {
				at.Ports = map[string]int{}
			}
			at.Ports[further] = port(want, at.Replica)
		}
		if p.b.c.Heartbeat > 0 {
			at.Agent = port(0, 0)
		}
	}
	return provision.Allocation{Units: all}, nil
}

// Create has the program make one unit. It is not cut short by ctx.
func (p units) Create(ctx context.Context, u *provision.Unit) (provision.Instance, error) {
	r := u.Replicas[0]
	request := protocol.Create{
		Version: protocol.Version, Name: u.Name, Marks: u.Marks, Role: r.Role.Name, Replica: r.Place.Replica,
		Argv: r.Argv, Env: r.Env, Dir: r.Role.Dir, Image: r.Role.Image, GPU: u.Spec.GPU, GPUs: r.Role.GPUs, CPUs: r.Role.CPUs,
		Port: r.Place.Port, Ports: maps.Clone(r.Place.Ports), Expires: u.Pod.Expires, Grace: u.Spec.Grace.Seconds(), Settings: p.b.c.Settings,
	}
	if r.Place.Agent != 0 {
		if request.Ports == nil {
			request.Ports = map[string]int{}
		}
		request.Ports[agentPort] = r.Place.Agent
	}
	if len(r.Files) > 0 {
		request.FilesDir, request.Files = r.Place.Dir, map[string]string{}
		for name, text := range r.Files {
			request.Files[name] = string(text)
		}
	}
	text, err := json.Marshal(request)
	if err != nil {
		return provision.Instance{}, err
	}
	if bytes.Contains(text, []byte(unknown)) {
		return provision.Instance{}, fmt.Errorf("%w: %s needs the address of a server that is made after it, or its own: set host of backend %s, if it is known before", backends.ErrSpec, r.Name(), Kind)
	}
	answer, err := p.b.call(context.WithoutCancel(ctx), protocol.OpCreate, 0, request)
	if err != nil {
		return provision.Instance{}, err
	}
	return instance(*answer.Instance), nil
}

// instance returns what the program says of a unit.
func instance(i protocol.Instance) provision.Instance {
	i.State = cmp.Or(i.State, "running")
	return provision.Instance{
		ID: i.ID, Unit: i.Name, Marks: i.Marks, Status: i.State, Running: i.State == "running", GPU: i.GPU, Since: i.Since,
		USDPerHour: i.USDPerHour, ImageDigest: i.ImageDigest, Data: i,
	}
}

// Find asks the program.
func (p units) Find(ctx context.Context, pod string) ([]provision.Instance, error) {
	answer, err := p.b.call(ctx, protocol.OpFind, 0, protocol.Find{Version: protocol.Version, Name: pod})
	var found []provision.Instance
	for _, i := range answer.Instances {
		if i.ID == "" || i.Name == "" {
			return nil, fmt.Errorf("%s find: an instance without an id or a name: %+v", filepath.Base(p.b.c.Program), i)
		}
		found = append(found, instance(i))
	}
	return found, err
}

// look returns what the program says of a unit now; one without an ID is gone.
func (p units) look(ctx context.Context, i provision.Instance) (provision.Instance, error) {
	pod, _, _ := strings.Cut(i.Unit, ".")
	found, err := p.Find(ctx, pod)
	for _, f := range found {
		if f.ID == i.ID {
			return f, err
		}
	}
	return provision.Instance{}, err
}

// Delete has the program end a unit, and returns when it does not find it any more.
func (p units) Delete(ctx context.Context, i provision.Instance, grace time.Duration, ended func(context.Context)) error {
	_, err := p.b.call(ctx, protocol.OpDelete, grace, protocol.Delete{Version: protocol.Version, ID: i.ID, Name: i.Unit, Grace: grace.Seconds()})
	if err != nil && !errors.Is(err, backends.ErrNotFound) {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, grace+settle, fmt.Errorf("after %v the program still finds it", grace+settle))
	defer cancel()
	for {
		now, err := p.look(ctx, i)
		if err == nil && !now.Running && ended != nil {
			ended(ctx)
			ended = nil
		}
		if err == nil && now.ID == "" {
			return nil
		}
		if pause(ctx) != nil {
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(lookEvery):
		return nil
	}
}

// Inspect implements [provision.Inspector].
func (p units) Inspect(_ context.Context, i provision.Instance) ([]map[string]string, error) {
	made, _ := i.Data.(protocol.Instance)
	if made.Env == nil {
		return nil, fmt.Errorf("%s find does not say what %s was started with: %w", filepath.Base(p.b.c.Program), i.Unit, host.ErrNotSupported)
	}
	return []map[string]string{made.Env}, nil
}

// Attach waits until a unit has its place.
func (p units) Attach(ctx context.Context, i provision.Instance, u *provision.Unit) (provision.Remote, error) {
	for i.Status == "waiting" {
		if err := pause(ctx); err != nil {
			return nil, fmt.Errorf("it still waits for its place: %w", err)
		}
		now, err := p.look(ctx, i)
		if err == nil && now.ID == "" {
			return nil, fmt.Errorf("it is gone before it ran: %w", backends.ErrNotFound)
		} else if err == nil {
			now.Unit, i = i.Unit, now
		}
	}
	made, _ := i.Data.(protocol.Instance)
	r := u.Replicas[0]
	if r.Place.Host = cmp.Or(made.Host, p.b.c.Host); r.Place.Host == "" && i.Running {
		return nil, fmt.Errorf("%s says of %s that it runs, and no host where", filepath.Base(p.b.c.Program), u.Name)
	}
	h := &provision.NetHost{Place: r.Place, Via: cmp.Or(host.Path(made.Path), host.Direct), Seen: func(port int) string {
		text := strconv.Itoa(port)
		return cmp.Or(made.Reach[text], net.JoinHostPort(r.Place.Host, text))
	}}
	if r.Role.LogPath != nil {
		h.Log = r.Role.LogPath(r.Place.Replica)
	}
	if r.Place.Agent != 0 {
		h.Agent = bootstrap.NewAgent(h.Dial, "http://"+h.Seen(r.Place.Agent), u.Token)
	}
	return &remote{b: p.b, name: u.Name, made: made, role: r, host: h}, nil
}
