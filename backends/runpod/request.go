package runpod

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/provision"
	"sweep.dev/sweep/backends/runpodapi"
)

// Limits of one create.
const (
	maxEnv  = 50
	maxBody = 102_400 // bytes
)

// proxyVar is the mark of a pod behind another proxy than RunPod's: where that
// has its ports.
const proxyVar = "SWEEP_PROXY_URL"

// request returns the body of a create.
func (b *Backend) request(u *provision.Unit, rent *rent) (runpodapi.CreateRequest, error) {
	argv, env, o := u.Argv, u.Env, rent.offer
	if len(u.Replicas) == 1 {
		argv, env = u.Replicas[0].Argv, u.Replicas[0].Env
	}
	r := runpodapi.CreateRequest{
		Name: u.Name, Image: imageOf(u.Spec), Disk: b.Disk, Registry: b.Registry,
		Cloud: strings.ToUpper(o.Cloud), DataCenters: o.DataCenters,
		GPU: runpodapi.PodGPU{ID: o.id, Count: max(1, u.Spec.GPUs), MinCUDA: b.MinCUDA, AllowedCUDAs: b.AllowedCUDA},
		Env: maps.Clone(env),
	}
	for _, port := range portsOf(u) {
		r.Ports = append(r.Ports, strconv.Itoa(port)+"/"+protocol(rent.network))
	}
	if rent.network == networkProxy && b.ProxyURL != DefaultConfig.ProxyURL {
		r.Env[proxyVar] = b.ProxyURL
	}
	if b.Bootstrap {
		r.Args = execForm(argv)
	} else {
		r.Args = shellForm(argv[len(u.Replicas[0].Role.Entrypoint):])
	}
	switch {
	case b.Volume != nil:
		r.Mounts = &runpodapi.Mounts{Persistent: &runpodapi.PersistentMount{Size: b.Volume.Size, Path: b.Volume.Path}}
	case b.NetworkVolume != nil:
		r.Mounts = &runpodapi.Mounts{Network: []runpodapi.NetworkMount{{VolumeID: b.NetworkVolume.ID, Path: b.NetworkVolume.Path}}}
	}
	return r, checkRequest(r)
}

// portsOf returns the ports that a unit's replicas and their agents listen on.
func portsOf(u *provision.Unit) (ports []int) {
	for _, r := range u.Replicas {
		ports = append(ports, r.Place.Port)
		for _, name := range slices.Sorted(maps.Keys(r.Place.Ports)) {
			ports = append(ports, r.Place.Ports[name])
		}
	}
	if agent := u.Replicas[0].Place.Agent; agent != 0 { // of all of them
		ports = append(ports, agent)
	}
	return ports
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

// shellForm returns arguments as RunPod splits them: as a shell would. They follow
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
