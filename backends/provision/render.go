package provision

import (
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/bootstrap"
	"sweep.dev/sweep/internal/secret"
)

// The variables in which a replica gets its token, and by which a later process
// finds where its agent is.
const (
	tokenVar = "SWEEP_TOKEN" //nolint:gosec // the name of a variable
	agentVar = "SWEEP_AGENT_PORT"
)

// Check says what of a spec can never be launched, as far as that is known
// without asking anybody. Errors are [backends.ErrSpec].
func (l *Layer) Check(spec backends.Spec) error {
	if err := l.check(spec); err != nil {
		return err
	}
	return l.checkRendered(spec)
}

// check makes those of the checks of [Layer.Check] that a launch does not find out by rendering.
func (l *Layer) check(spec backends.Spec) error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{backends.ErrSpec}, args...)...)
	}
	if len(spec.Roles) == 0 {
		return wrong("no role")
	}
	for name, value := range backends.Marks(spec) {
		if strings.ContainsAny(value, "\n\x00") {
			return wrong("%s has a line break", name)
		}
	}
	for _, role := range spec.Roles {
		if role.Argv == nil || role.Replicas < 1 {
			return wrong("role %s has no command or no replica", role.Name)
		}
		for _, port := range append(slices.Collect(maps.Values(role.Ports)), role.Port) {
			if port < 0 || port > 65535 {
				return wrong("role %s: no port %d", role.Name, port)
			}
		}
	}
	if !l.SharedDisk && len(spec.Roles) > 1 {
		return l.checkRendered(spec)
	}
	return nil
}

// elsewhere stands for the folder of a peer in a rendering that finds out
// whether anybody wants it.
const elsewhere = "/folder-of-another-role"

// checkRendered renders each role with addresses that it could have.
func (l *Layer) checkRendered(spec backends.Spec) error {
	peers := map[string][]backends.Address{}
	for _, role := range spec.Roles {
		for n := range role.Replicas {
			a := backends.Address{Bind: "127.0.0.1", Host: "127.0.0.1", Port: max(role.Port, 1), Replica: n, Dir: elsewhere}
			for name := range role.Ports {
				if a.Ports == nil {
					a.Ports = map[string]int{}
				}
				a.Ports[name] = 1
			}
			peers[role.Name] = append(peers[role.Name], a)
		}
	}
	for _, role := range spec.Roles {
		a := peers[role.Name][0]
		a.Dir, a.Peers = "", peers
		if l.Bootstrap || l.Files {
			a.Dir = bootstrap.FilesDir("NAME")
		}
		r := &Replica{Role: role, Place: Place{Address: a}}
		u := &Unit{Spec: spec, Name: "NAME", Replicas: []*Replica{r}, Token: newToken()}
		if err := l.renderUnit(u); err != nil {
			return err
		}
		if !l.SharedDisk && len(spec.Roles) > 1 && mentions(r, elsewhere) {
			return fmt.Errorf("%w: role %s of %s reads files of another role, and the servers of backend %s share no disk: choose another way for them to find each other, or another backend",
				backends.ErrSpec, role.Name, spec.Engine, l.Kind)
		}
	}
	return nil
}

func mentions(r *Replica, text string) bool {
	for _, arg := range r.Command {
		if strings.Contains(arg, text) {
			return true
		}
	}
	for _, value := range r.Env {
		if strings.Contains(value, text) {
			return true
		}
	}
	for _, file := range r.Files {
		if strings.Contains(string(file), text) {
			return true
		}
	}
	return false
}

// connect tells every replica where the others are.
func connect(units []*Unit) {
	peers := map[string][]backends.Address{}
	for _, u := range units {
		for _, r := range u.Replicas {
			a := r.Place.Address
			a.Peers = nil
			peers[r.Role.Name] = append(peers[r.Role.Name], a)
		}
	}
	for _, u := range units {
		for _, r := range u.Replicas {
			r.Place.Peers = peers
		}
	}
}

// render makes the command line, the environment and the files of a replica whose
// place is known. Errors are [backends.ErrSpec].
func (l *Layer) render(u *Unit, r *Replica) error {
	argv, err := r.Role.Argv(r.Place.Address)
	if err != nil {
		return fmt.Errorf("%w: %w", backends.ErrSpec, err)
	}
	if len(argv) == 0 || argv[0] == "" {
		return fmt.Errorf("%w: an empty command line", backends.ErrSpec)
	}
	if l.Images {
		if err := backends.CheckArgv(argv, r.Role.Entrypoint, l.Bootstrap); err != nil {
			return err
		}
	}
	extra, err := r.Role.ExtraAt(r.Place.Address)
	if err != nil {
		return err
	}
	env := maps.Clone(l.Env)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, r.Place.Env)
	maps.Copy(env, extra.Env)
	maps.Copy(env, r.Role.Env)
	if l.Keyed && r.Role.KeyEnv != "" && !u.key.IsZero() {
		env[r.Role.KeyEnv] = u.key.Reveal()
	}
	maps.Copy(env, u.Marks)
	env[backends.MarkServer] = backends.ServerMark(u.Spec, r.Role, r.Place.Address)
	r.Argv, r.Command, r.Env, r.Files = argv, argv, env, extra.Files
	if !l.Bootstrap || len(u.Replicas) > 1 { // see several
		return nil
	}
	o := l.options(u, r)
	if err := o.Validate(); err != nil {
		return fmt.Errorf("%w: %w", backends.ErrSpec, err)
	}
	var own map[string]string
	r.Argv, own = bootstrap.Command(o)
	maps.Copy(env, own)
	r.Files = nil
	return nil
}

// options say how the bootstrap of a replica starts and ends it.
func (l *Layer) options(u *Unit, r *Replica) bootstrap.Options {
	expires := u.Pod.Expires
	if expires.IsZero() { // of a check
		expires = time.Now().Add(time.Hour)
	}
	o := bootstrap.Options{
		Name: u.Name, Argv: r.Command, Files: r.Files, FilesDir: r.Place.Dir,
		Lifetime: time.Until(expires), Expires: expires, Grace: u.Spec.Grace, Hold: l.Hold, GiveBack: l.GiveBack,
	}
	if o.Files == nil && r.Place.Dir != "" && l.SharedDisk && len(u.Spec.Roles) > 1 {
		o.Files = map[string][]byte{} // others may have got its path
	}
	if l.LogTo != nil {
		o.LogPath = l.LogTo(o.Name)
	}
	if r.Place.Agent != 0 {
		o.AgentPort, o.AgentHost, o.Token, o.Heartbeat = r.Place.Agent, l.AgentHost, u.Token, l.Heartbeat
	}
	return o
}

// several makes the command line and the environment of a unit of several
// replicas, which have been rendered. What all of them have is in the unit's.
func (l *Layer) several(u *Unit) error {
	first := *u.Replicas[0]
	first.Place.Dir, first.Files = bootstrap.FilesDir(u.Name), map[string][]byte{}
	o := l.options(u, &first)
	o.Argv = nil
	u.Env = map[string]string{}
	maps.Copy(u.Env, l.Env)
	maps.Copy(u.Env, u.Marks)
	for _, r := range u.Replicas {
		own := bootstrap.Replica{Name: r.Name(), Argv: r.Command, Env: map[string]string{}, Dir: r.Place.Dir, Files: map[string]string{}}
		for name, value := range r.Env {
			if shared, ok := u.Env[name]; !ok || shared != value {
				own.Env[name] = value
			}
		}
		for name, text := range r.Files {
			own.Files[name] = string(text)
		}
		o.Replicas = append(o.Replicas, own)
	}
	if err := o.Validate(); err != nil {
		return fmt.Errorf("%w: %w", backends.ErrSpec, err)
	}
	var own map[string]string
	u.Argv, own = bootstrap.Command(o)
	maps.Copy(u.Env, own)
	return nil
}

// newToken returns what only a unit and we know.
func newToken() secret.String { return secret.New("${SWEEP_POD_KEY}", rand.Text()) }
