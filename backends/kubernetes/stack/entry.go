package stack

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"strings"
)

// entries returns the addresses at which a part is reached, the best first: through the
// gateway or ingress as users come, then by the service that is nearest to them.
func (c *cluster) entries(p *part, roles map[string]string) (all []Entry) {
	for i := range c.routes {
		if c.leadsTo(p, &c.routes[i]) {
			all = append(all, c.throughGateways(&c.routes[i])...)
		}
	}
	for i := range c.ingresses {
		all = append(all, c.throughIngress(p, &c.ingresses[i])...)
	}
	return append(all, c.throughServices(p, roles)...)
}

// throughGateways returns the addresses of a route.
func (c *cluster) throughGateways(r *route) (all []Entry) {
	for _, parent := range r.Spec.Parents {
		if !isGateway(parent) {
			continue
		}
		via := []string{kindGateway + "/" + parent.Name, kindRoute + "/" + r.Meta.Name}
		for _, b := range r.backends() {
			via = append(via, strings.ToLower(cmp.Or(b.Kind, kindService))+"/"+b.Name)
		}
		slices.Sort(via[2:])
		via = slices.Compact(via)
		i := slices.IndexFunc(c.gateways, func(g gateway) bool {
			return g.Meta.Name == parent.Name && g.Meta.Namespace == cmp.Or(parent.Namespace, c.namespace)
		})
		if i < 0 || len(c.gateways[i].Status.Addresses) == 0 {
			// It exists, or will, at an address that is not known.
			all = append(all, Entry{Via: via, Outside: true, Needs: r.needs()})
			continue
		}
		for _, l := range c.gateways[i].Spec.Listeners {
			scheme := map[string]string{"HTTP": "http", "HTTPS": "https"}[l.Protocol]
			if scheme == "" || (parent.Section != "" && parent.Section != l.Name) {
				continue
			}
			for _, a := range c.gateways[i].Status.Addresses {
				all = append(all, Entry{URL: address(scheme, a.Value, l.Port) + r.prefix(), Via: via, Outside: true, Needs: r.needs()})
			}
		}
	}
	return all
}

// prefix returns the one path that all rules of a route begin with, "" if there is none.
func (r *route) prefix() string {
	var found []string
	for _, rule := range r.Spec.Rules {
		for _, m := range rule.Matches {
			found = append(found, strings.TrimSuffix(m.Path.Value, "/"))
		}
	}
	slices.Sort(found)
	// /v1/... is the servers' own path, which every client adds.
	if found = slices.Compact(found); len(found) == 1 && !strings.HasPrefix(found[0]+"/", "/v1/") {
		return found[0]
	}
	return ""
}

// needs returns the host names and headers without which no rule of a route matches.
func (r *route) needs() (needs []string) {
	for _, h := range r.Spec.Hostnames {
		needs = append(needs, "host "+h)
	}
	for _, rule := range r.Spec.Rules {
		for _, m := range rule.Matches {
			for _, h := range m.Headers {
				needs = append(needs, "header "+h.Name+": "+h.Value)
			}
		}
	}
	slices.Sort(needs)
	return slices.Compact(needs)
}

// throughIngress returns the addresses of an ingress that leads to the part.
func (c *cluster) throughIngress(p *part, in *ingress) (all []Entry) {
	var services []string
	for _, s := range in.services() {
		if pods, _ := c.behind(kindService, s); p.has(pods) {
			services = append(services, kindService+"/"+s)
		}
	}
	if len(services) == 0 {
		return nil
	}
	slices.Sort(services)
	via := append([]string{kindIngress + "/" + in.Meta.Name}, slices.Compact(services)...)
	var needs, secure []string
	for _, t := range in.Spec.TLS {
		secure = append(secure, t.Hosts...)
	}
	scheme := "http"
	for _, rule := range in.Spec.Rules {
		if rule.Host == "" {
			continue
		}
		needs = append(needs, "host "+rule.Host)
		if slices.Contains(secure, rule.Host) {
			scheme = "https"
		}
	}
	for _, host := range in.Status.LoadBalancer.hosts() {
		all = append(all, Entry{URL: address(scheme, host, map[string]int{"http": 80, "https": 443}[scheme]), Via: via, Outside: true, Needs: needs})
	}
	if len(all) == 0 {
		all = append(all, Entry{Via: via, Outside: true, Needs: needs})
	}
	return all
}

func (b balancer) hosts() (hosts []string) {
	for _, at := range b.Ingress {
		hosts = append(hosts, cmp.Or(at.Hostname, at.IP))
	}
	return hosts
}

// entryRoles are roles that take requests of users, the best first.
var entryRoles = []string{roleGateway, roleProxy, roleFrontend, roleRouter, roleServer, "prefill-decode", "decode"}

// notHTTP are names of ports that do not take requests of users.
var notHTTP = []string{"grpc", "metrics", "health", "ext-proc", "nixl", "system", "status-port", "zmq"}

// throughServices returns the services that select pods of the best role that any selects.
func (c *cluster) throughServices(p *part, roles map[string]string) (all []Entry) {
	type ranked struct {
		rank int
		Entry
	}
	var found []ranked
	for i := range c.services {
		s := &c.services[i]
		rank := len(entryRoles)
		for _, n := range c.selected(s.Spec.Selector) {
			if at := slices.Index(entryRoles, roles[n]); p.pods[n] && at >= 0 {
				rank = min(rank, at)
			}
		}
		if rank == len(entryRoles) {
			continue
		}
		for _, e := range c.throughService(s, entryRoles[rank] == roleRouter) {
			found = append(found, ranked{rank, e})
		}
	}
	slices.SortStableFunc(found, func(a, b ranked) int { return cmp.Compare(a.rank, b.rank) })
	for _, f := range found {
		if f.rank == found[0].rank {
			all = append(all, f.Entry)
		}
	}
	return all
}

// throughService returns the addresses of a service. An endpoint picker's own ports take no
// requests: only the port of the proxy beside it does.
func (c *cluster) throughService(s *service, router bool) (all []Entry) {
	via := []string{kindService + "/" + s.Meta.Name}
	for _, port := range s.Spec.Ports {
		name := strings.ToLower(port.Name + " " + port.AppProtocol)
		if slices.ContainsFunc(notHTTP, func(not string) bool { return strings.Contains(name, not) }) || (router && port.Port != 80 && port.Port != 443 && port.Port != 8081) {
			continue
		}
		scheme := "http"
		if port.Port == 443 || strings.Contains(name, "https") {
			scheme = "https"
		}
		for _, host := range s.Status.LoadBalancer.hosts() {
			all = append(all, Entry{URL: address(scheme, host, port.Port), Via: via, Outside: true})
		}
		all = append(all, Entry{URL: address(scheme, s.Meta.Name+"."+c.namespace+".svc", port.Port), Via: via})
	}
	return all
}

// address returns a URL without a path.
func address(scheme, host string, port int) string {
	if (scheme == "http" && port == 80) || (scheme == "https" && port == 443) {
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		return scheme + "://" + host
	}
	return scheme + "://" + net.JoinHostPort(host, strconv.Itoa(port))
}
