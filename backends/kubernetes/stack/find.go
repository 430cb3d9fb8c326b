package stack

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrNoPods is a stack of which there is nothing but its name.
var ErrNoPods = errors.New("leads to no pod")

// A part is the pods and pools of one stack, by their names.
type part struct {
	name  string // kind/name that it was found by
	pods  map[string]bool
	pools map[string]bool
}

// The kinds that a stack may be named by, in the order in which a bare name is looked
// up.
const (
	kindRoute   = "httproute"
	kindGateway = "gateway"
	kindPool    = "inferencepool"
	kindService = "service"
	kindIngress = "ingress"
	kindDynamo  = "dgd" // DynamoGraphDeployment
)

var kinds = []string{kindRoute, kindGateway, kindPool, kindService, kindIngress, kindDynamo}

// find returns the part of a cluster that a name leads to. An empty name is the only
// stack there is.
func (c *cluster) find(name string) (*part, error) {
	if name == "" {
		return c.only()
	}
	kind, rest, qualified := strings.Cut(name, "/")
	if selector := parseSelector(name); selector != nil {
		return c.rooted(name, c.selected(selector))
	}
	if err := CheckName(name); err != nil {
		return nil, err
	}
	for _, k := range kinds {
		if qualified && k != kind {
			continue
		}
		object := name
		if qualified {
			object = rest
		}
		if seeds, there := c.behind(k, object); there {
			return c.rooted(k+"/"+object, seeds)
		}
	}
	if !qualified {
		kind = ""
	}
	return nil, c.unread(kind, fmt.Errorf("namespace %s has no %s named %s; it has %s", c.namespace, strings.Join(kinds, ", "), name, c.summary()))
}

// needs are the resources without which an object of a kind leads nowhere.
var needs = map[string][]string{
	kindRoute: {"httproutes"}, kindGateway: {"httproutes"}, kindPool: {"inferencepools"}, kindService: {"services"}, kindIngress: {"ingresses", "services"},
}

// unread adds to an error the rights that are missing and may be why: those that an object of a
// kind needs as a [kubeapi.Denied], and for the kind "" all, in words.
func (c *cluster) unread(kind string, err error) error {
	for _, d := range c.denied {
		switch {
		case slices.Contains(needs[kind], d.Resource):
			err = fmt.Errorf("%w; a right is missing: %w", err, d)
		case kind == "":
			err = fmt.Errorf("%w; a right is missing: %s", err, d.Error())
		}
	}
	return err
}

// CheckName says what is wrong with a name of a stack, as far as no cluster has to be
// asked: want NAME, KIND/NAME, or labels as key=value.
func CheckName(name string) error {
	kind, rest, qualified := strings.Cut(name, "/")
	switch {
	case parseSelector(name) != nil:
		return nil
	case qualified && !slices.Contains(kinds, kind):
		return fmt.Errorf("%q is no kind of object that leads to a stack: want one of %s, or labels as key=value", kind, strings.Join(kinds, ", "))
	case qualified && rest == "", strings.ContainsAny(name, " ,"), strings.Contains(rest, "/"):
		return fmt.Errorf("%q is no name of an object: want NAME, KIND/NAME, or labels as key=value", name)
	}
	return nil
}

// rooted returns the stack around some pods.
func (c *cluster) rooted(name string, seeds []string) (*part, error) {
	if len(seeds) == 0 {
		kind, _, _ := strings.Cut(name, "/")
		return nil, c.unread(kind, fmt.Errorf("%s in namespace %s %w: are there replicas, and do the selectors fit?", name, c.namespace, ErrNoPods))
	}
	return c.grow(name, seeds), nil
}

// only returns the one stack of the namespace. Candidates that share a pod are one.
func (c *cluster) only() (*part, error) {
	var found []*part
	for _, kind := range []string{kindPool, kindDynamo, kindService} {
		for _, name := range c.names(kind) {
			seeds, _ := c.behind(kind, name)
			if !slices.ContainsFunc(seeds, c.serves) || slices.ContainsFunc(found, func(p *part) bool { return p.has(seeds) }) {
				continue
			}
			found = append(found, c.grow(kind+"/"+name, seeds))
		}
	}
	for i := range c.pods {
		p := &c.pods[i]
		if !c.serves(p.Meta.Name) || slices.ContainsFunc(found, func(f *part) bool { return f.pods[p.Meta.Name] }) {
			continue
		}
		found = append(found, c.grow(ownLabels(p), []string{p.Meta.Name}))
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, c.unread("", fmt.Errorf("namespace %s has no inference stack that sweep knows by its labels, pools or GPUs: it has %s; name what leads to yours: --kube %s/NAME", c.namespace, c.summary(), c.namespace))
	}
	names := make([]string, len(found))
	for i, f := range found {
		names[i] = f.name
	}
	return nil, fmt.Errorf("namespace %s has %d stacks, name one: --kube %s/NAME with %s", c.namespace, len(found), c.namespace, strings.Join(names, ", "))
}

// ownLabels returns a name for the stack of a pod that nothing leads to.
func ownLabels(p *pod) string {
	for _, key := range append(slices.Clone(groupKeys), nameKey, "app") {
		if v := p.Meta.Labels[key]; v != "" {
			return key + "=" + v
		}
	}
	return "pod/" + p.Meta.Name
}

func (p *part) has(pods []string) bool {
	return slices.ContainsFunc(pods, func(name string) bool { return p.pods[name] })
}

// serves reports whether a pod is a part of a stack by itself.
func (c *cluster) serves(name string) bool {
	p := c.pod(name)
	role := roleOf(p)
	return role != roleOther && role != roleGateway
}

// summary counts what a namespace has, for an error.
func (c *cluster) summary() string {
	if len(c.pods) == 0 {
		return "no pods"
	}
	var list []string
	for _, kind := range kinds {
		if names := c.names(kind); len(names) > 0 {
			more := ""
			if len(names) > maxNamed {
				names, more = names[:maxNamed], ", ..."
			}
			list = append(list, kind+" "+strings.Join(names, ", ")+more)
		}
	}
	return strings.Join(append(list, fmt.Sprintf("%d pods", len(c.pods))), "; ")
}

// maxNamed bounds the names of one kind in an error.
const maxNamed = 8

// names returns the objects of a kind.
func (c *cluster) names(kind string) (names []string) {
	switch kind {
	case kindRoute:
		names = namesOf(c.routes, func(r *route) string { return r.Meta.Name })
	case kindGateway:
		names = namesOf(c.gateways, func(g *gateway) string { return g.Meta.Name })
	case kindPool:
		names = namesOf(c.pools, func(p *pool) string { return p.Meta.Name })
	case kindService:
		names = namesOf(c.services, func(s *service) string { return s.Meta.Name })
	case kindIngress:
		names = namesOf(c.ingresses, func(i *ingress) string { return i.Meta.Name })
	case kindDynamo:
		names = namesOf(c.pods, func(p *pod) string { return p.Meta.Labels[dynamoGraph] })
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func namesOf[T any](objects []T, name func(*T) string) (names []string) {
	for i := range objects {
		if n := name(&objects[i]); n != "" {
			names = append(names, n)
		}
	}
	return names
}

func (c *cluster) pod(name string) *pod {
	i := slices.IndexFunc(c.pods, func(p pod) bool { return p.Meta.Name == name })
	return &c.pods[i]
}
