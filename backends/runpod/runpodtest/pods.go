package runpodtest

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// seen returns the pod that a request names and may look at; it has answered if
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

// find returns the pod of an id that is not gone, or nil. e.mu is held.
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

// mayEnd returns the pod that a request may end; it has answered if there is none.
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
