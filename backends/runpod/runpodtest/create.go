package runpodtest

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const noCapacity = "There are no longer any instances available with the requested specifications. Please refresh and try again."

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
		if duplicate, detail := e.place(q); detail == "" {
			e.make(duplicate)
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
