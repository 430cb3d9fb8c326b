package runpod

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/bootstrap"
	"sweep.dev/sweep/internal/runpodapi"
	"sweep.dev/sweep/internal/secret"
)

// Limits of one create.
const (
	maxEnv  = 50
	maxBody = 102_400 // bytes
)

// Where engine and agent listen in the container.
const (
	enginePort = 8000
	agentPort  = 8765
)

// tokenVar holds the agent's token in the container; the bootstrap reads it.
const tokenVar = "SWEEP_TOKEN"

// proxyVar is the mark of a pod behind another proxy than RunPod's: where that
// has its ports.
const proxyVar = "SWEEP_PROXY_URL"

// keys are what protects one pod that everybody can reach.
type keys struct {
	engine secret.String // what the engine's clients need; empty where it takes none
	agent  secret.String
}

func newKeys(role backends.Role, bootstrapped bool) keys {
	var k keys
	if role.KeyEnv != "" {
		k.engine = secret.New("${"+role.KeyEnv+"}", rand.Text())
	}
	if bootstrapped {
		k.agent = secret.New("${"+tokenVar+"}", rand.Text())
	}
	return k
}

// keysOf are the keys of a pod that runs.
func keysOf(p runpodapi.Pod, role backends.Role) keys {
	var k keys
	if v := p.Env[role.KeyEnv]; role.KeyEnv != "" && v != "" {
		k.engine = secret.New("${"+role.KeyEnv+"}", v)
	}
	if v := p.Env[tokenVar]; v != "" {
		k.agent = secret.New("${"+tokenVar+"}", v)
	}
	return k
}

func portOf(role backends.Role) int { return cmp.Or(role.Port, enginePort) }

// Check finds in a spec what could never be launched, or would start something
// else than what is meant.
func (b *Backend) Check(spec backends.Spec) error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%w: runpod: "+format, append([]any{backends.ErrSpec}, args...)...)
	}
	if len(spec.Roles) != 1 || spec.Roles[0].Replicas > 1 {
		return wrong("a pod is one server, not several roles or replicas")
	}
	if err := backends.CheckPlain(spec); err != nil {
		return err
	}
	role := spec.Roles[0]
	switch {
	case role.Argv == nil:
		return wrong("role %s has no command line", role.Name)
	case role.Image == "":
		return wrong("no image: name one in engines.%s.image", spec.Engine)
	case strings.ContainsAny(role.Image, " \t\r\n\"'"):
		return wrong("%q is not an image", role.Image)
	case portOf(role) == agentPort:
		return wrong("port %d is the agent's", agentPort)
	}
	for _, c := range b.Candidates {
		if _, err := runpodID(cmp.Or(c.GPU, spec.GPU)); err != nil {
			return err
		}
	}
	address := b.address(role, "NAME")
	argv, err := role.Argv(address)
	if err != nil {
		return fmt.Errorf("%w: %w", backends.ErrSpec, err)
	}
	extra, err := role.ExtraAt(address)
	if err != nil {
		return err
	}
	if err := bootstrap.CheckFiles(extra.Files); err != nil {
		return fmt.Errorf("%w: %w", backends.ErrSpec, err)
	}
	return backends.CheckArgv(argv, role.Entrypoint, b.Bootstrap)
}

// address is that of an engine in the pod of a name: it listens to everybody.
func (b *Backend) address(role backends.Role, name string) backends.Address {
	a := backends.Address{Host: "0.0.0.0", Port: portOf(role)}
	if b.Bootstrap {
		a.Dir = bootstrap.FilesDir(name)
	}
	return a
}

// request is the body of a create.
func (b *Backend) request(spec backends.Spec, name string, o offer, network string, k keys) (runpodapi.CreateRequest, error) {
	role := spec.Roles[0]
	address := b.address(role, name)
	port := address.Port
	argv, err := role.Argv(address)
	if err != nil {
		return runpodapi.CreateRequest{}, fmt.Errorf("%w: %w", backends.ErrSpec, err)
	}
	extra, err := role.ExtraAt(address)
	if err != nil {
		return runpodapi.CreateRequest{}, err
	}
	r := runpodapi.CreateRequest{
		Name: name, Image: role.Image, Disk: b.Disk, Registry: b.Registry,
		Cloud: strings.ToUpper(o.Cloud), DataCenters: o.DataCenters,
		GPU:   runpodapi.PodGPU{ID: o.id, Count: max(1, spec.GPUs), MinCUDA: b.MinCUDA, AllowedCUDAs: b.AllowedCUDA},
		Ports: []string{strconv.Itoa(port) + "/" + protocol(network)},
		Env:   map[string]string{},
	}
	for name, value := range b.Env {
		r.Env[name] = value.Reveal()
	}
	maps.Copy(r.Env, extra.Env)
	maps.Copy(r.Env, role.Env)
	maps.Copy(r.Env, backends.Marks(spec))
	r.Env[backends.MarkServer] = backends.ServerMark(spec, role, address)
	if network == networkProxy && b.ProxyURL != DefaultConfig.ProxyURL {
		r.Env[proxyVar] = b.ProxyURL
	}
	if role.KeyEnv != "" {
		r.Env[role.KeyEnv] = k.engine.Reveal()
	}
	if b.Bootstrap {
		options := bootstrap.Options{
			Name: name, Argv: argv, Expires: spec.Expires, Lifetime: time.Until(spec.Expires), Heartbeat: b.Heartbeat,
			Grace: spec.Grace, Hold: true, AgentPort: agentPort, Token: k.agent, RunpodAPI: b.client.Base(), Files: extra.Files,
		}
		if err := options.Validate(); err != nil {
			return r, fmt.Errorf("%w: %w", backends.ErrSpec, err)
		}
		command, env := bootstrap.Command(options)
		maps.Copy(r.Env, env)
		r.Ports = append(r.Ports, strconv.Itoa(agentPort)+"/"+protocol(network))
		r.Args = execForm(command)
	} else {
		r.Args = shellForm(argv[len(role.Entrypoint):])
	}
	switch {
	case b.Volume != nil:
		r.Mounts = &runpodapi.Mounts{Persistent: &runpodapi.PersistentMount{Size: b.Volume.Size, Path: b.Volume.Path}}
	case b.NetworkVolume != nil:
		r.Mounts = &runpodapi.Mounts{Network: []runpodapi.NetworkMount{{VolumeID: b.NetworkVolume.ID, Path: b.NetworkVolume.Path}}}
	}
	return r, checkRequest(r)
}

func protocol(network string) string {
	if network == networkProxy {
		return "http"
	}
	return "tcp"
}

// checkRequest holds a request against the documented limits.
func checkRequest(r runpodapi.CreateRequest) error {
	if len(r.Env) > maxEnv {
		return fmt.Errorf("%w: %d environment variables; runpod takes %d", backends.ErrSpec, len(r.Env), maxEnv)
	}
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if len(body) > maxBody {
		return fmt.Errorf("%w: a request of %d bytes; runpod takes %d", backends.ErrSpec, len(body), maxBody)
	}
	return nil
}

// execForm takes the place of the image's ENTRYPOINT and CMD, without a shell
// that would cut the arguments up again.
func execForm(argv []string) string {
	text, err := json.Marshal(map[string][]string{"entrypoint": argv[:1], "cmd": argv[1:]})
	if err != nil {
		panic(err) // strings only
	}
	return string(text)
}

// shellForm is arguments as RunPod splits them: as a shell would. They follow
// the image's ENTRYPOINT.
func shellForm(argv []string) string {
	quoted := make([]string, len(argv))
	for i, arg := range argv {
		if plain.MatchString(arg) {
			quoted[i] = arg
		} else {
			quoted[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

var plain = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)
