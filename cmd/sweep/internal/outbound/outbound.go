package outbound

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/plan"
)

// A rule is of one variable. Every other may go where the plan names it, once its user has
// seen the host.
type rule struct {
	name    string
	service string   // whose hosts they are
	hosts   []string // of its service; ".example.com" is every subdomain
	hostOf  string   // a variable of the user with a URL of that service
	keyOnly bool     // goes to its service as the key of its API alone
	servers bool     // may be in the environment of a server that the plan starts
}

func ruleOf(name string) (rule, bool) {
	rules := []rule{
		{"RUNPOD_API_KEY", "RunPod's API", []string{"runpod.io", ".runpod.io", ".runpod.dev"}, "RUNPOD_API_BASE_URL", true, false},
		{"HF_TOKEN", "Hugging Face's hosts", []string{"huggingface.co", ".huggingface.co"}, "HF_ENDPOINT", false, true},
	}
	i := slices.IndexFunc(rules, func(r rule) bool { return r.name == name })
	if i < 0 {
		return rule{}, false
	}
	return rules[i], true
}

// own reports whether a host is of the variable's service. A host is its service's on
// https alone; the user's own URL may be on http.
func (r rule) own(h Host, env func(string) (string, bool)) bool {
	if h.usual() && hostName.MatchString(h.Name) && slices.ContainsFunc(r.hosts, func(own string) bool {
		return h.Name == own || strings.HasPrefix(own, ".") && strings.HasSuffix(h.Name, own) && len(h.Name) > len(own)
	}) {
		return true
	}
	text, ok := env(r.hostOf)
	if !ok || text == "" {
		return false
	}
	u, err := url.Parse(text)
	return err == nil && u.Hostname() != "" && u.User == nil && HostOf(u) == h
}

// A destination is what one use of a variable goes to.
type destination struct {
	here    bool
	server  bool // that the plan starts
	env     bool // as its environment
	host    Host
	service bool // the API of a provider, as its key
}

// A verdict is what is decided of a variable and a destination.
type verdict uint8

const (
	stays    verdict = iota // leaves for no host but its own service's
	goes                    // its user has permitted it
	asks                    // its user is asked
	refusals                // never, but with --send-env
	never
)

// A Policy is what the user of a plan permits.
type Policy struct {
	Permits []Permit
	Env     func(string) (string, bool) // of sweep
}

// decide returns the only place that says where a variable may go.
func (p Policy) decide(name string, to destination) verdict {
	r, known := ruleOf(name)
	switch {
	case to.here:
		return stays
	case to.server && !known, to.server && r.servers && to.env:
		return stays
	case to.server:
		return never
	case permitted(p.Permits, name, to.host):
		return goes
	case !known && to.host.Loopback():
		return goes
	case !known:
		return asks
	case r.own(to.host, p.Env) && (to.service || !r.keyOnly):
		return stays
	// An emulator of the provider's API on this machine.
	case r.keyOnly && to.service && to.host.Loopback():
		return stays
	}
	return refusals
}

// A Flow is a variable that leaves for a host.
type Flow struct {
	Name    string // of the variable
	Host    Host
	Service bool // the host is asked for prices, too, before a run
	Asks    bool // its user has not permitted it yet
}

func (f Flow) String() string { return f.Name + " -> " + f.Host.String() }

// Permit returns the flow as --send-env takes it.
func (f Flow) Permit() string { return f.Name + "=" + f.Host.String() }

// Check decides every use of a variable in a plan. It returns what leaves for which host,
// each once, in the plan's order. The error is everything that is refused, with its place.
// images returns those of the plan's servers.
func Check(p *plan.Plan, to backends.Destinations, policy Policy, images func() ([]string, error)) ([]Flow, error) {
	c := checker{policy: policy, to: to, images: images, report: &syntax.Report{}}
	for _, u := range p.Uses() {
		if err := c.use(u); err != nil {
			return nil, err
		}
	}
	named := slices.ContainsFunc(p.Uses(), func(u plan.Use) bool { return u.Where == "backend.key" })
	if at := p.Backend.Place; !named && to.Default != "" && to.Key != nil && at != nil {
		c.flow(plan.Use{Name: to.Default, Where: "backend.key", Src: at.Src, Span: at.Span}, destination{host: HostOf(to.Key), service: to.Service})
	}
	return c.flows, c.report.Err()
}

type checker struct {
	policy Policy
	to     backends.Destinations
	images func() ([]string, error)
	report *syntax.Report
	flows  []Flow
}

func (c *checker) use(u plan.Use) error {
	place, ok := PlaceOf(u.Where)
	if !ok {
		c.report.At(u.Src, u.Span, "destination", "${%s}: no variable can stand in %s", u.Name, u.Where)
		return nil
	}
	hosts, err := c.destinations(place, u)
	for _, to := range hosts {
		c.flow(u, to)
	}
	return err
}

// destinations returns where a use of a variable goes.
func (c *checker) destinations(place Place, u plan.Use) ([]destination, error) {
	at := func(host *url.URL) []destination {
		return []destination{{host: HostOf(host)}}
	}
	switch place.Goes {
	case Here:
		return []destination{{here: true}}, nil
	case Server:
		return []destination{{server: true, env: u.Secret}}, nil
	case Request:
		if c.to.Requests != nil {
			return at(c.to.Requests), nil
		}
		return []destination{{server: true}}, nil
	case Key:
		if c.to.Key == nil {
			return []destination{{here: true}}, nil
		}
		return []destination{{host: HostOf(c.to.Key), service: c.to.Service}}, nil
	case Cluster:
		if c.to.Cluster != nil {
			return at(c.to.Cluster), nil
		}
		return []destination{{server: true}}, nil
	case Address:
		return c.address(u), nil
	case Registry:
		return c.registries()
	}
	panic("outbound: a place of no kind")
}

// address is of a variable in an address. One that is the host is its user's choice.
func (c *checker) address(u plan.Use) []destination {
	variable, mixed := authority(u.Ref)
	_, known := ruleOf(u.Name)
	parsed, err := url.Parse(u.Value)
	switch {
	case mixed:
	case variable == u.Name && known:
		d := c.report.At(u.Src, u.Span, "destination", "${%s} is no address, and stands in %s", u.Name, u.Where)
		d.Expected = "a variable that holds a URL"
		return nil
	case variable == u.Name:
		return []destination{{here: true}}
	case err == nil && parsed.Hostname() != "":
		return []destination{{host: HostOf(parsed)}}
	case !strings.Contains(u.Ref, "://"):
		return []destination{{server: true}} // a path of the server's own
	}
	d := c.report.At(u.Src, u.Span, "destination", "${%s} is a part of the name of a host in %s", u.Name, u.Where)
	d.Expected = "a host that is written out, or one variable that holds all of it"
	return nil
}

func (c *checker) registries() (list []destination, err error) {
	if c.to.Registry == nil {
		return []destination{{here: true}}, nil
	}
	images, err := c.images()
	for _, image := range images {
		host, err := c.to.Registry(image)
		if err != nil {
			return nil, err
		}
		list = append(list, destination{host: HostOf(&url.URL{Scheme: "https", Host: host})})
	}
	return list, err
}

// flow decides one use.
func (c *checker) flow(u plan.Use, to destination) {
	f := Flow{Name: u.Name, Host: to.host, Service: to.service}
	switch v := c.policy.decide(u.Name, to); v {
	case stays:
	case goes, asks:
		f.Asks = v == asks
		if !slices.Contains(c.flows, f) {
			c.flows = append(c.flows, f)
		}
	case refusals:
		r, _ := ruleOf(u.Name)
		d := c.report.At(u.Src, u.Span, "destination", "%s would go to %s, and it goes to %s only", u.Name, f.Host, r.service)
		d.Expected = expected(r)
		d.Hint = "--send-env " + f.Permit() + " permits it"
	case never:
		r, _ := ruleOf(u.Name)
		d := c.report.At(u.Src, u.Span, "destination", "%s must not go to a server that the plan starts in %s", u.Name, u.Where)
		d.Expected = expected(r)
	}
}

// expected says where a variable may go.
func expected(r rule) string {
	text := fmt.Sprintf("%s in a request to %s", r.name, r.service)
	if r.keyOnly {
		text = fmt.Sprintf("%s as the key of %s", r.name, r.service)
	}
	if r.servers {
		text += ", or in the environment of a server"
	}
	return text
}
