package runpodtest

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const noCapacity = "There are no longer any instances available with the requested specifications. Please refresh and try again."

var secretPattern = regexp.MustCompile(`\{\{ *RUNPOD_SECRET_(\w+) *\}\}`)

func (e *Emulator) createPod(c *call) {
	var q podRequest
	if !c.body(createRule, &q) {
		return
	}
	if detail := q.rules(true); detail != "" {
		c.fail(http.StatusBadRequest, detail)
		return
	}
	// Before anything else can happen to it: the intent has to be there when
	// the request is.
	var intent error
	if e.opts.Intent != nil {
		intent = e.opts.Intent(*q.Name)
	}
	e.mu.Lock()
	c.ev.Pods = append(c.ev.Pods, *q.Name)
	if intent != nil {
		e.noIntent = append(e.noIntent, intent.Error())
	}
	reply := e.create(c, q)
	e.mu.Unlock()
	reply()
}

// create does what a create does, and returns how it is answered. e.mu is held.
func (e *Emulator) create(c *call, q podRequest) (reply func()) {
	fired := func(name string) bool {
		_, ok := e.fire(name)
		return ok
	}
	switch {
	case c.own != nil:
		return c.forbidden
	case fired("balance-gone"):
		return func() { c.fail(http.StatusPaymentRequired, "insufficient balance") }
	case fired("create-500"):
		return c.broken
	case fired("no-capacity"), fired("stock-gone"):
		return func() { c.fail(http.StatusBadRequest, noCapacity) }
	}
	p, detail := e.place(q)
	if detail != "" {
		return func() { c.fail(http.StatusBadRequest, detail) }
	}
	if late := e.fireFor("create-late"); late > 0 {
		e.begin(func() {
			if !sleep(e.ctx, late) {
				return
			}
			e.mu.Lock()
			defer e.mu.Unlock()
			e.make(p)
		})
		return c.broken
	}
	e.make(p)
	if fired("double-create") {
		if twin, detail := e.place(q); detail == "" {
			e.make(twin)
		}
	}
	switch {
	case fired("create-500-but-creates"):
		return c.broken
	case fired("create-hangs"):
		return func() {
			select {
			case <-c.r.Context().Done():
			case <-e.closing:
			}
		}
	case fired("create-drops-connection"):
		return func() { panic(http.ErrAbortHandler) } // net/http closes the connection
	}
	made := p.view()
	// As the document's example has it, and nothing after it does.
	made["runtime"], made["actions"] = map[string]any{}, []string{"start", "terminate"}
	return func() { c.json(http.StatusCreated, made) }
}

// place finds a place for a pod, or says why there is none. e.mu is held.
func (e *Emulator) place(q podRequest) (*pod, string) {
	if q.GPU == nil || q.GPU.Count == nil {
		return nil, noCapacity // without a count the live service finds nothing; CPUs are not emulated
	}
	g, ok := gpuByID(q.GPU.ID)
	if !ok {
		return nil, "invalid gpu id: " + q.GPU.ID
	}
	cloud := q.Cloud
	if cloud == "" {
		cloud = "SECURE"
	}
	usd, most := g.offer(cloud)
	count := *q.GPU.Count
	if usd == 0 || count > most || e.free(g.id, cloud) < count {
		return nil, noCapacity
	}
	var places []string
	for _, dc := range dataCenters {
		if len(q.DataCenters) == 0 || slices.Contains(q.DataCenters, dc.id) {
			places = append(places, dc.id)
		}
	}
	var cudas []string
	for _, v := range cudaVersions {
		if q.GPU.Allowed != nil && !slices.Contains(q.GPU.Allowed, v) || q.GPU.Min != nil && less(v, *q.GPU.Min) {
			continue
		}
		cudas = append(cudas, v)
	}
	if len(places) == 0 || len(cudas) == 0 {
		return nil, noCapacity
	}
	p := &pod{
		id: e.letters(14), key: "rpa_" + e.letters(40), name: *q.Name, image: *q.Image, disk: 20,
		ports: q.Ports, env: q.Env, mounts: q.Mounts, registry: q.Registry,
		gpu: g, count: count, cloud: cloud, cuda: cudas[0], place: places[e.rand.IntN(len(places))],
		usd: usd * float64(count), machine: fmt.Sprintf("%08x", e.rand.Uint32()),
		log: newPodLog(e.opts.Now), forgotten: make(chan struct{}), again: make(chan struct{}, 1),
	}
	if q.Args != nil {
		p.args = *q.Args
	}
	if q.Disk != nil {
		p.disk = *q.Disk
	}
	if p.ports == nil {
		p.ports = []string{}
	}
	if p.env == nil {
		p.env = map[string]string{}
	}
	return p, ""
}

// less compares versions as numbers.
func less(a, b string) bool {
	number := func(s string) (major, minor int) {
		x, y, _ := strings.Cut(s, ".")
		major, _ = strconv.Atoi(x)
		minor, _ = strconv.Atoi(y)
		return major, minor
	}
	am, an := number(a)
	bm, bn := number(b)
	return am < bm || am == bm && an < bn
}

// make makes a pod with what goes wrong with it, and begins its life. e.mu is held.
func (e *Emulator) make(p *pod) {
	p.created, p.status = e.now().UTC(), "PROVISIONING"
	if v, ok := e.fire("price-rise"); ok {
		factor, _ := strconv.ParseFloat(v, 64) // checked
		p.usd *= factor
	}
	if _, ok := e.fire("zero-gpu"); ok {
		p.count = 0
	}
	p.hidden = time.Now().Add(e.fireFor("list-lag"))
	p.unknown = time.Now().Add(e.fireFor("get-404-after-create"))
	p.wrong = e.troubles()
	p.oddNull = e.rand.IntN(2) == 0
	p.meter.set(p.created, p.usd, p.diskHour(false))
	e.pods = append(e.pods, p)
	e.live(p)
}

// seen is the pod that a request names and may look at; it has answered where
// there is none.
func (e *Emulator) seen(c *call) (*pod, bool) {
	e.mu.Lock()
	_, broken := e.fire("read-500")
	p := e.find(c.id)
	hidden := p != nil && time.Now().Before(p.unknown)
	e.mu.Unlock()
	switch {
	case broken:
		c.broken()
	case c.own != nil && c.own.id != c.id:
		c.forbidden()
	case p == nil || hidden:
		c.notFound()
	default:
		c.about(p)
		return p, true
	}
	return nil, false
}

// find is the pod of an id that is not gone, or nil. e.mu is held.
func (e *Emulator) find(id string) *pod {
	i := slices.IndexFunc(e.pods, func(p *pod) bool { return p.id == id && p.ended.IsZero() })
	if i < 0 {
		return nil
	}
	return e.pods[i]
}

func (e *Emulator) getPod(c *call) {
	p, ok := e.seen(c)
	if !ok {
		return
	}
	e.mu.Lock()
	view := p.view()
	e.mu.Unlock()
	c.json(http.StatusOK, view)
}

func (e *Emulator) listPods(c *call) {
	if c.own != nil {
		c.forbidden()
		return
	}
	list := []any{}
	e.mu.Lock()
	_, broken := e.fire("read-500")
	for _, p := range e.pods {
		if broken || !p.ended.IsZero() || time.Now().Before(p.hidden) {
			continue
		}
		list = append(list, p.view())
		if p.lists > 0 {
			if p.lists--; p.lists == 0 {
				e.end(p)
			}
		}
	}
	e.mu.Unlock()
	if broken {
		c.broken()
		return
	}
	c.json(http.StatusOK, map[string]any{"pods": list})
}

func (e *Emulator) deletePod(c *call) {
	e.mu.Lock()
	c.ev.deletes = true
	e.mu.Unlock()
	p, ok := e.mayEnd(c)
	if !ok {
		return
	}
	e.mu.Lock()
	e.terminate(p)
	e.mu.Unlock()
	c.w.WriteHeader(http.StatusNoContent)
}

// mayEnd is the pod that a request may end; it has answered where there is none.
func (e *Emulator) mayEnd(c *call) (*pod, bool) {
	e.mu.Lock()
	p := e.find(c.id)
	hidden := p != nil && time.Now().Before(p.unknown)
	_, refused := e.fire("delete-403")
	_, broken := e.fire("delete-500")
	_, notMe := e.fire("pod-key-forbidden")
	e.mu.Unlock()
	if p != nil {
		c.about(p)
	}
	switch {
	case refused, c.own != nil && (notMe || c.own.id != c.id):
		c.forbidden()
	case broken:
		c.broken()
	case p == nil || hidden:
		c.notFound()
	default:
		return p, true
	}
	return nil, false
}

// terminate ends a pod that was asked to end, now or later. e.mu is held.
func (e *Emulator) terminate(p *pod) {
	if p.lists > 0 || p.leaving {
		return // it was answered with success before, and still is
	}
	if v, ok := e.fire("delete-200-but-alive"); ok {
		p.lists, _ = strconv.Atoi(v) // checked
		return
	}
	d := e.fireFor("terminated-later")
	if d == 0 {
		e.end(p)
		return
	}
	p.leaving = true
	e.begin(func() {
		if !sleep(e.ctx, d/2) {
			return
		}
		e.mu.Lock()
		p.status = "TERMINATED"
		p.meter.set(e.now(), 0, 0)
		p.quit()
		e.mu.Unlock()
		if !sleep(e.ctx, d/2) {
			return
		}
		e.mu.Lock()
		e.end(p)
		e.mu.Unlock()
	})
}

// end makes a pod be gone. e.mu is held.
func (e *Emulator) end(p *pod) {
	if !p.ended.IsZero() {
		return
	}
	p.ended = e.now()
	p.meter.set(p.ended, 0, 0)
	p.quit()
	close(p.forgotten)
}

func (e *Emulator) podAction(c *call) {
	var q struct {
		Action string `json:"action"`
	}
	if !c.body(actionRule, &q) {
		return
	}
	e.mu.Lock()
	c.ev.deletes = q.Action == "terminate"
	e.mu.Unlock()
	p, ok := e.mayEnd(c)
	if !ok {
		return
	}
	e.mu.Lock()
	switch {
	case !slices.Contains(p.actions(), q.Action):
		detail := fmt.Sprintf("action '%s' is not valid for status '%s'", q.Action, p.status)
		e.mu.Unlock()
		c.fail(http.StatusConflict, detail)
		return
	case p.locked && (q.Action == "stop" || q.Action == "restart"):
		e.mu.Unlock()
		c.fail(http.StatusConflict, "pod is locked")
		return
	case q.Action == "start" && !p.foreign && e.free(p.gpu.id, p.cloud) < p.count:
		e.mu.Unlock()
		c.fail(http.StatusBadRequest, "There are not enough free GPUs on the host machine to start this pod")
		return
	}
	switch q.Action {
	case "terminate":
		e.terminate(p)
		e.mu.Unlock()
		c.w.WriteHeader(http.StatusNoContent)
		return
	case "stop":
		e.stop(p)
	case "start":
		if _, ok := e.fire("zero-gpu"); ok {
			p.count = 0
		}
		p.status, p.wrong = "STARTING", e.troubles()
		p.meter.set(e.now(), p.usd, p.diskHour(false))
		e.live(p)
	case "restart":
		select {
		case p.again <- struct{}{}:
		default: // one is under way
		}
	}
	view := p.view()
	e.mu.Unlock()
	c.json(http.StatusOK, view)
}

// stop makes a pod EXITED: its GPU is free, its volume is kept. e.mu is held.
func (e *Emulator) stop(p *pod) {
	p.status, p.up = "EXITED", false
	p.meter.set(e.now(), 0, p.diskHour(true))
	p.quit()
}

func (e *Emulator) updatePod(c *call) {
	var q podRequest
	if !c.body(updateRule, &q) {
		return
	}
	if detail := q.rules(false); detail != "" {
		c.fail(http.StatusBadRequest, detail)
		return
	}
	p, ok := e.seen(c)
	if !ok {
		return
	}
	e.mu.Lock()
	fixed := q.Mounts.Persistent != nil && p.mounts.Persistent == nil || q.Mounts.Network != nil && p.mounts.Network == nil
	if !fixed {
		p.change(q)
	}
	view := p.view()
	e.mu.Unlock()
	if fixed {
		c.fail(http.StatusBadRequest, "mount kind is fixed at create")
		return
	}
	c.json(http.StatusOK, view)
}

// change takes over what a change names. It counts from the next start.
func (p *pod) change(q podRequest) {
	set(&p.name, q.Name)
	set(&p.image, q.Image)
	set(&p.args, q.Args)
	set(&p.disk, q.Disk)
	set(&p.locked, q.Locked)
	if q.Ports != nil {
		p.ports = q.Ports
	}
	if q.Env != nil {
		p.env = q.Env
	}
	if q.Registry != nil {
		p.registry = q.Registry
	}
	if q.Mounts.Persistent != nil || q.Mounts.Network != nil {
		p.mounts = q.Mounts
	}
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// live begins a pod's life, or its next one. e.mu is held.
func (e *Emulator) live(p *pod) {
	before := p.life
	ctx, cancel := context.WithCancel(e.ctx)
	p.life, p.quit = make(chan struct{}), cancel
	over := p.life
	if !e.begin(func() {
		defer close(over)
		defer cancel()
		if before != nil {
			<-before
		}
		e.run(ctx, p)
		// The container's disk does not outlive a stop.
		_ = os.RemoveAll(filepath.Join(e.dir, p.id)) // what is left goes with the whole folder
	}) {
		cancel()
		close(over)
	}
}
