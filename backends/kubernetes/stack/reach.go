package stack

import (
	"maps"
	"slices"
	"strings"
)

// behind returns the pods that an object leads to, and whether there is such an object.
func (c *cluster) behind(kind, name string) (pods []string, there bool) {
	switch kind {
	case kindRoute:
		for i := range c.routes {
			if r := &c.routes[i]; r.Meta.Name == name {
				pods, there = append(pods, c.behindRoute(r)...), true
			}
		}
	case kindGateway:
		there = slices.Contains(c.names(kindGateway), name)
		for i := range c.routes {
			r := &c.routes[i]
			if slices.ContainsFunc(r.Spec.Parents, func(p reference) bool { return isGateway(p) && p.Name == name }) {
				pods, there = append(pods, c.behindRoute(r)...), true
			}
		}
	case kindPool:
		for i := range c.pools {
			if p := &c.pools[i]; p.Meta.Name == name {
				pods, there = append(pods, c.selected(p.selector())...), true
			}
		}
	case kindService:
		for i := range c.services {
			if s := &c.services[i]; s.Meta.Name == name {
				pods, there = append(pods, c.selected(s.Spec.Selector)...), true
			}
		}
	case kindIngress:
		for i := range c.ingresses {
			if in := &c.ingresses[i]; in.Meta.Name == name {
				there = true
				for _, s := range in.services() {
					more, _ := c.behind(kindService, s)
					pods = append(pods, more...)
				}
			}
		}
	case kindDynamo:
		pods = c.selected(map[string]string{dynamoGraph: name})
		there = len(pods) > 0
	}
	return pods, there
}

func (c *cluster) behindRoute(r *route) (pods []string) {
	for _, b := range r.backends() {
		kind := kindService
		if b.Kind == "InferencePool" {
			kind = kindPool
		}
		if b.Namespace == "" || b.Namespace == c.namespace {
			more, _ := c.behind(kind, b.Name)
			pods = append(pods, more...)
		}
	}
	return pods
}

func (r *route) backends() (all []reference) {
	for _, rule := range r.Spec.Rules {
		all = append(all, rule.Backends...)
	}
	return all
}

// services returns those that an ingress leads to.
func (in *ingress) services() (names []string) {
	if in.Spec.Default.Service.Name != "" {
		names = append(names, in.Spec.Default.Service.Name)
	}
	for _, rule := range in.Spec.Rules {
		for _, path := range rule.HTTP.Paths {
			if path.Backend.Service.Name != "" {
				names = append(names, path.Backend.Service.Name)
			}
		}
	}
	return names
}

// selected returns the pods that have all of these labels.
func (c *cluster) selected(selector map[string]string) (names []string) {
	for i := range c.pods {
		if matches(selector, c.pods[i].Meta.Labels) {
			names = append(names, c.pods[i].Meta.Name)
		}
	}
	return names
}

// grow adds to some pods what belongs with them, until nothing more does.
func (c *cluster) grow(name string, seeds []string) *part {
	p := &part{name: name, pods: map[string]bool{}, pools: map[string]bool{}}
	p.add(seeds)
	for before := -1; before != len(p.pods)+len(p.pools); {
		before = len(p.pods) + len(p.pools)
		for i := range c.pools {
			c.growPool(p, &c.pools[i])
		}
		for _, n := range sorted(maps.Clone(p.pods)) {
			c.growPod(p, c.pod(n))
		}
	}
	c.growGateways(p)
	return p
}

func (p *part) add(pods []string) {
	for _, n := range pods {
		p.pods[n] = true
	}
}

// growPool adds a pool whose pods, or whose endpoint picker, are there, with both.
func (c *cluster) growPool(p *part, pl *pool) {
	servers := c.selected(pl.selector())
	pickers, _ := c.behind(kindService, pl.picker())
	if p.pools[pl.Meta.Name] || p.has(servers) || p.has(pickers) {
		p.pools[pl.Meta.Name] = true
		p.add(servers)
		p.add(pickers)
	}
}

// growPod adds the pods that go with one.
func (c *cluster) growPod(p *part, one *pod) {
	labels := one.Meta.Labels
	if graph := labels[dynamoGraph]; graph != "" {
		p.add(c.selected(map[string]string{dynamoGraph: graph}))
	}
	if set := labels[workerSetKey]; set != "" {
		p.add(c.selected(map[string]string{workerSetKey: set}))
	}
	if release := labels[standaloneKey]; release != "" {
		p.add(c.selected(map[string]string{proxyKey: strings.TrimSuffix(release, "-epp") + "-proxy"}))
	}
	if release := labels[proxyKey]; release != "" {
		p.add(c.selected(map[string]string{standaloneKey: strings.TrimSuffix(release, "-proxy") + "-epp"}))
	}
	if isRouter(one) {
		if name := flagOf(one, "pool-name", "poolName"); slices.Contains(c.names(kindPool), name) {
			p.pools[name] = true
		}
		p.add(c.selected(parseSelector(flagOf(one, "endpoint-selector"))))
		return
	}
	c.growRouters(p, one)
	if len(p.pools) == 0 && roleOf(one) != roleOther && !c.routed(p) {
		c.growGroup(p, one)
	}
}

// growRouters adds the endpoint pickers that choose among pods by labels of their own
// arguments.
func (c *cluster) growRouters(p *part, one *pod) {
	for i := range c.pods {
		router := &c.pods[i]
		if isRouter(router) && matches(parseSelector(flagOf(router, "endpoint-selector")), one.Meta.Labels) {
			p.pods[router.Meta.Name] = true
		}
	}
}

// routed reports whether an endpoint picker names the pods of a part.
func (c *cluster) routed(p *part) bool {
	for n := range p.pods {
		if isRouter(c.pod(n)) {
			return true
		}
	}
	return false
}

// growGroup adds the pods of the same guide, else of the same model, else of the same
// KServe service: a Service may select one role alone.
func (c *cluster) growGroup(p *part, one *pod) {
	for _, key := range groupKeys {
		if v := one.Meta.Labels[key]; v != "" {
			p.add(c.selected(map[string]string{key: v}))
			return
		}
	}
	if strings.HasPrefix(one.Meta.Labels[componentKey], "llminferenceservice-") && one.Meta.Labels[nameKey] != "" {
		p.add(c.selected(map[string]string{nameKey: one.Meta.Labels[nameKey]}))
	}
}

// growGateways adds the pods of the gateways through which the part is reached, if they
// run in the same namespace.
func (c *cluster) growGateways(p *part) {
	for i := range c.routes {
		r := &c.routes[i]
		if !c.leadsTo(p, r) {
			continue
		}
		for _, parent := range r.Spec.Parents {
			if isGateway(parent) && (parent.Namespace == "" || parent.Namespace == c.namespace) {
				p.add(c.selected(map[string]string{gatewayKey: parent.Name}))
			}
		}
	}
}

// leadsTo reports whether a route leads to a part.
func (c *cluster) leadsTo(p *part, r *route) bool { return p.has(c.behindRoute(r)) }

// flagOf returns the value of the first of these flags in the arguments of a pod's
// containers, or "".
func flagOf(p *pod, names ...string) string {
	for _, c := range p.Spec.Containers {
		args := slices.Concat(c.Command, c.Args)
		for i, arg := range args {
			flag, value, joined := strings.Cut(strings.TrimLeft(arg, "-"), "=")
			if !strings.HasPrefix(arg, "-") || !slices.Contains(names, flag) {
				continue
			}
			if joined {
				return value
			}
			if i+1 < len(args) {
				return args[i+1]
			}
		}
	}
	return ""
}
