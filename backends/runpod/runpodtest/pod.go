package runpodtest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/backends/ports"
	"sweep.dev/sweep/backends/runpod/runpodtest/podtest"
)

// A pod is one rented thing. Its fields are guarded by Emulator.mu once it has
// been made; what a create sets does not change but by a PATCH.
type pod struct {
	id, key, name string
	foreign       bool // somebody else's; nothing runs
	image, args   string
	disk          int // GB
	ports         []string
	env           map[string]string
	mounts        mounts
	registry      *string
	locked        bool

	gpu     gpuType
	count   int
	cloud   string
	place   string
	machine string
	cuda    string
	usd     float64 // per hour, all GPUs
	oddNull bool    // the undeclared port has no public number
	wrong   trouble

	status    string
	created   time.Time
	started   time.Time
	ended     time.Time // when it was really gone
	up        bool      // its container has been started
	booted    time.Time // the last time
	hostPorts map[int]int
	shown     map[int]int // in runtime.ports
	restarts  int
	meter     meter
	log       *podLog

	hidden  time.Time // from lists until then
	unknown time.Time // by its id until then
	lists   int       // in which it will still be, when it was deleted
	leaving bool      // deleted, and gone later

	again     chan struct{} // a restart is wanted
	quit      context.CancelFunc
	life      chan struct{} // closed when nothing of it runs any more
	forgotten chan struct{} // closed with ended
}

// A trouble is what will go wrong with one start of a pod.
type trouble struct {
	slow          time.Duration
	never         string // cuda or disk
	exits, errors bool
	noNetwork     bool
	dies          time.Duration
	vanishes      time.Duration
}

// troubles throws the dice. e.mu is held.
func (e *Emulator) troubles() (t trouble) {
	t.slow = e.fireFor("slow-provision")
	t.never, _ = e.fire("runtime-null-forever")
	_, t.exits = e.fire("exited-at-once")
	_, t.errors = e.fire("error-status")
	_, t.noNetwork = e.fire("host-without-network")
	t.dies = e.fireFor("pod-dies")
	t.vanishes = e.fireFor("pod-vanishes")
	return t
}

func (p *pod) host() string { return p.id + "-" + p.machine }

// holdsGPU reports whether its GPUs are taken.
func (p *pod) holdsGPU() bool {
	return p.ended.IsZero() && p.status != "EXITED" && p.status != "TERMINATED"
}

func (p *pod) actions() []string {
	switch p.status {
	case "RUNNING":
		return []string{"stop", "restart", "terminate"}
	case "EXITED", "ERROR":
		return []string{"start", "terminate"}
	case "TERMINATED":
		return []string{}
	}
	return []string{"stop", "terminate"}
}

// view returns the pod as the API shows it.
func (p *pod) view() map[string]any {
	v := map[string]any{
		"id": p.id, "name": p.name, "status": p.status, "actions": p.actions(),
		"image": p.image, "args": p.args, "disk": p.disk, "mounts": p.mounts,
		"ports": slices.Clone(p.ports), "env": maps.Clone(p.env), "registry": nil,
		"gpu":   map[string]any{"id": p.gpu.id, "count": p.count},
		"cloud": p.cloud, "dataCenterId": p.place, "cudaVersion": p.cuda, "template": nil,
		"cost": p.usd, "locked": p.locked, "globalNetworking": map[string]any{"enabled": false},
		"createdAt": stamp(p.created.Truncate(time.Millisecond)), "startedAt": nil, "runtime": nil,
	}
	if p.registry != nil {
		v["registry"] = *p.registry
	}
	if !p.started.IsZero() {
		v["startedAt"] = stamp(p.started.Truncate(10 * time.Millisecond))
	}
	ssh := func(user, host string, port int, command string) map[string]any {
		return map[string]any{"username": user, "host": host, "port": port, "command": command}
	}
	var direct any
	if port := p.shown[22]; p.up && port != 0 {
		direct = ssh("root", "127.0.0.1", port, fmt.Sprintf("ssh root@127.0.0.1 -p %d", port))
	}
	v["ssh"] = map[string]any{
		"direct": direct,
		"proxy":  ssh(p.host(), "ssh.runpod.io", 22, "ssh "+p.host()+"@ssh.runpod.io"),
	}
	if p.up {
		v["runtime"] = p.runtime()
	}
	return v
}

// oddPort is shown in every running pod, whatever that has declared.
const oddPort = 19123

func (p *pod) runtime() map[string]any {
	const inside = "100.65.14.155"
	ports := []any{}
	for _, s := range p.ports {
		n, kind, _ := strings.Cut(s, "/")
		for _, private := range privatePorts([]string{s}, kind) {
			row := map[string]any{"ip": "127.0.0.1", "private": private, "public": p.shown[private], "type": kind}
			if kind == "http" {
				row["ip"], row["public"] = inside, 60000+len(n)*1000+private%1000
			}
			ports = append(ports, row)
		}
	}
	odd := map[string]any{"ip": inside, "private": oddPort, "public": 60821, "type": "http"}
	if p.oddNull {
		odd["ip"], odd["public"] = nil, nil
	}
	gpus := []any{}
	for range p.count {
		gpus = append(gpus, map[string]any{"util": 0, "memoryUtil": 0})
	}
	uptime := 0
	if !p.booted.IsZero() {
		uptime = int(time.Since(p.booted).Seconds())
	}
	return map[string]any{
		"cpu": map[string]any{"util": 0}, "memory": map[string]any{"util": 0},
		"gpus": gpus, "ports": append(ports, odd), "uptime": uptime,
	}
}

// run is a pod's life until ctx ends.
func (e *Emulator) run(ctx context.Context, p *pod) {
	e.mu.Lock()
	wrong := p.wrong
	e.mu.Unlock()
	if !sleep(ctx, e.opts.Provision+wrong.slow) {
		return
	}
	e.mu.Lock()
	image, found := e.image(p.image)
	ref, tag := p.image, "latest"
	if i := strings.LastIndexAny(ref, ":@"); i >= 0 {
		tag = ref[i+1:]
	}
	name := strings.TrimSuffix(strings.TrimSuffix(ref, tag), ":")
	switch {
	case ctx.Err() != nil:
		e.mu.Unlock()
		return
	case wrong.errors:
		p.status = "ERROR"
	case wrong.exits || !found:
		e.stop(p)
	default:
		p.status, p.started = "RUNNING", e.now().UTC()
	}
	status := p.status
	e.mu.Unlock()

	system := func(format string, args ...any) { p.log.add("system", format, args...) }
	switch {
	case status == "ERROR":
		system("error creating container: Error response from daemon: layer does not exist")
		return
	case status == "EXITED":
		system("error pulling image: Error response from daemon: manifest for %s not found: manifest unknown: manifest unknown", ref)
		return
	}
	system("%s Pulling from %s", tag, name)
	if wrong.never == "disk" {
		system("error pulling image: failed to register layer: write /usr/lib/libcuda.so: no space left on device")
		<-ctx.Done()
		return
	}
	layer := p.machine + "c0de"
	system("%s Extracting [==================================================>]   1.17kB/1.17kB", layer)
	if !sleep(ctx, e.opts.Pull) {
		return
	}
	system("%s Pull complete", layer)
	system("Digest: sha256:%s", digest(ref))
	system("Status: Downloaded newer image for %s", ref)
	system("create container %s", ref)
	if wrong.never == "cuda" {
		for sleep(ctx, e.opts.RestartDelay) {
			system("start container for %s: begin", ref)
			system("error starting container: Error response from daemon: failed to create task for container: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: error running prestart hook #0: exit status 1, stdout: , stderr: Auto-detected mode as 'legacy'")
			system("nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please update your driver to a newer version, or use an earlier cuda container: unknown")
		}
		return
	}
	if err := e.assign(ctx, p, wrong); err != nil {
		system("error creating container: %v", err)
		return
	}
	e.keepRunning(ctx, p, ref, image, wrong)
}

// assign gives the pod its ports. e.mu is not held.
func (e *Emulator) assign(ctx context.Context, p *pod, wrong trouble) error {
	host, shown := map[int]int{}, map[int]int{}
	e.mu.Lock()
	declared := slices.Concat(privatePorts(p.ports, "tcp"), privatePorts(p.ports, "http"))
	e.mu.Unlock()
	for _, n := range declared {
		if host[n] != 0 {
			continue
		}
		var err error
		if host[n], err = ports.Find(ctx); err != nil {
			return err
		}
		if shown[n] = host[n]; wrong.noNetwork {
			if shown[n], err = ports.Find(ctx); err != nil {
				return err
			}
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	p.hostPorts, p.shown = host, shown
	return nil
}

// keepRunning starts the container, again whenever it ends, until ctx ends or
// the pod dies of a fault.
func (e *Emulator) keepRunning(ctx context.Context, p *pod, ref string, image podtest.Image, wrong trouble) {
	var death <-chan time.Time
	if d := wrong.dies + wrong.vanishes; d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		death = t.C
	}
	for first := true; ; first = false {
		p.log.add("system", "start container for %s: begin", ref)
		container, err := e.start(ctx, p, image)
		var done <-chan struct{}
		switch {
		case ctx.Err() != nil && err != nil:
			return
		case err != nil:
			p.log.add("system", "error starting container: %v", err)
		default:
			done = container.Done()
		}
		e.mu.Lock()
		p.up, p.booted = ctx.Err() == nil, time.Now()
		if !first {
			p.restarts++
		}
		e.mu.Unlock()

		var ended, died bool
		if done == nil {
			ended = !sleep(ctx, e.opts.RestartDelay)
		} else {
			select {
			case <-done:
				p.log.add("system", "container exited with code %d", container.Code())
			case <-p.again:
			case <-death:
				died = true
			case <-ctx.Done():
				ended = true
			}
			e.kill(container)
		}
		switch {
		case died:
			e.mu.Lock()
			if wrong.vanishes > 0 {
				e.end(p)
			} else {
				e.stop(p)
			}
			e.mu.Unlock()
			return
		case ended || !sleep(ctx, e.opts.RestartDelay):
			return
		}
	}
}

// kill ends a container, whatever ctx says: that of its pod is over by then.
func (e *Emulator) kill(c *podtest.Container) {
	ctx, cancel := context.WithTimeout(context.Background(), e.opts.Grace+5*time.Second)
	defer cancel()
	_ = c.Stop(ctx) // nothing can end what SIGKILL cannot
}
