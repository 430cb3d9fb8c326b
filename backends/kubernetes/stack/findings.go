package stack

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sweep.dev/sweep/internal/humanize"
)

// findings returns what to look at before the stack is measured. Each is true of what was
// read, and none is more than a reason to look.
func findings(s *Stack) (all []string) {
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if len(s.Entries) == 0 {
		add("no route, ingress or service that could be read leads to the stack: only its pods can be asked")
	}
	for i := range s.Roles {
		r := &s.Roles[i]
		notReady(r, add)
		for _, d := range differences(r) {
			add("%s", d)
		}
		for j := range r.Pods {
			restarted(r.Name, &r.Pods[j], add)
		}
	}
	disaggregated(s, add)
	return all
}

// notReady names the pods of a role that take no requests.
func notReady(r *Role, add func(string, ...any)) {
	var bad []string
	for i := range r.Pods {
		if p := &r.Pods[i]; !p.Ready {
			bad = append(bad, fmt.Sprintf("%s (%s)", p.Name, p.State))
		}
	}
	if len(bad) > 0 {
		add("%s: %d of %s not ready: %s", r.Name, len(bad), humanize.Plural(len(r.Pods), "pod"), strings.Join(bad, ", "))
	}
}

// differences returns what the pods of one role do not have in common.
func differences(r *Role) (all []string) {
	count := func(of func(*Pod) string) int {
		values := map[string]bool{}
		for i := range r.Pods {
			if v := of(&r.Pods[i]); v != "" {
				values[v] = true
			}
		}
		return len(values)
	}
	add := func(n int, what string) {
		if n > 1 {
			all = append(all, fmt.Sprintf("%s: its pods have %d different %s", r.Name, n, what))
		}
	}
	add(count(func(p *Pod) string { return p.Revision }), "revisions, so a rollout may be under way")
	images := count(func(p *Pod) string { return mainText(p, func(c *Container) string { return c.Image }) })
	add(images, "images")
	if images == 1 {
		add(count(func(p *Pod) string { return mainText(p, func(c *Container) string { return c.ImageID }) }), "digests of one image")
	}
	add(count(func(p *Pod) string {
		return mainText(p, func(c *Container) string { return "line\x00" + strings.Join(c.Line(), "\x00") })
	}), "arguments")
	return all
}

func mainText(p *Pod, of func(*Container) string) string {
	if c := p.Main(); c != nil {
		return of(c)
	}
	return ""
}

// Line returns the whole command line that the manifest gives a container.
func (c *Container) Line() []string { return slices.Concat(c.Command, c.Args) }

// restarted says how often the containers of a pod were started again, and why.
func restarted(role string, p *Pod, add func(string, ...any)) {
	for _, c := range p.Containers {
		if c.Restarts == 0 {
			continue
		}
		why := ""
		if c.LastEnd != "" {
			why = " (last end: " + c.LastEnd + ")"
		}
		add("%s: container %s of %s was restarted %s%s", role, c.Name, p.Name, humanize.Plural(c.Restarts, "time"), why)
	}
}

// disaggregated looks at prefill and decode together.
func disaggregated(s *Stack, add func(string, ...any)) {
	role := func(name string) *Role {
		i := slices.IndexFunc(s.Roles, func(r Role) bool { return r.Name == name })
		if i < 0 {
			return nil
		}
		return &s.Roles[i]
	}
	prefill, decode := role("prefill"), role("decode")
	if prefill == nil {
		return
	}
	if decode == nil {
		add("there are prefill pods, but no decode pods")
		return
	}
	if prefill.Ready() == 0 {
		add("no prefill pod is ready: a router may let the decode pods do all work and answer 200")
	}
	if p, d := parallel(prefill), parallel(decode); p > d && d > 0 {
		add("prefill has --tensor-parallel-size %d and decode %d: NIXL does not transfer from more ranks to fewer", p, d)
	}
	if without := role(roleServer); without != nil {
		add("%s without a role beside prefill and decode: %s", humanize.Plural(len(without.Pods), "server"), podNames(without))
	}
}

func podNames(r *Role) string {
	names := make([]string, len(r.Pods))
	for i := range r.Pods {
		names[i] = r.Pods[i].Name
	}
	return strings.Join(names, ", ")
}

// parallel returns the tensor parallelism that the arguments of a role name, or 0.
func parallel(r *Role) int {
	c := r.Pods[0].Main()
	if c == nil {
		return 0
	}
	words := strings.FieldsFunc(strings.Join(c.Line(), " "), func(b rune) bool { return b == ' ' || b == '=' || b == '\n' })
	for i, w := range words[:max(len(words)-1, 0)] {
		if w == "--tensor-parallel-size" || w == "-tp" || w == "--tp" || w == "--tp-size" {
			n, err := strconv.Atoi(words[i+1])
			if err == nil {
				return n
			}
		}
	}
	return 0
}
