package pods

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/kubernetes/signs"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/kubeapi"
)

// node is the part of a Node that is read. Nodes are the cluster's: often they may not be.
type node struct {
	Meta kubeapi.Meta `json:"metadata"`
	Spec struct {
		Taints []taint `json:"taints"`
	} `json:"spec"`
	Status struct {
		Conditions []kubeapi.Condition `json:"conditions"`
	} `json:"status"`
}

// A taint keeps pods off a node that do not tolerate it.
// https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
type taint struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Effect string `json:"effect"`
}

// String returns a taint as kubectl writes it.
func (t taint) String() string {
	if t.Value == "" {
		return t.Key + ":" + t.Effect
	}
	return t.Key + "=" + t.Value + ":" + t.Effect
}

// A toleration is one that a pod has: those of the plan and of the cluster.
type toleration struct {
	Key      string `json:"key"` // "" is every key
	Operator string `json:"operator"`
	Value    string `json:"value"`
	Effect   string `json:"effect"` // "" is every effect
}

func (o toleration) tolerates(t taint) bool {
	exists := o.Operator == "Exists"
	key := o.Key == t.Key || o.Key == "" && exists
	return key && (o.Effect == "" || o.Effect == t.Effect) && (exists || o.Value == t.Value)
}

const (
	noSchedule = "NoSchedule"
	noExecute  = "NoExecute"
	// ofCluster begins the keys of taints that the cluster itself puts on a node that is
	// lost, cordoned, not ready, or short of memory or disk. Nobody should tolerate them.
	ofCluster = "node.kubernetes.io/"
	// ofControl begins that of nodes that run the cluster.
	ofControl = "node-role.kubernetes.io/"
)

// untolerated returns a node's taints of some effects that a pod does not tolerate.
func (n *node) untolerated(p *pod, effects ...string) (taints []taint) {
	for _, t := range n.Spec.Taints {
		tolerated := slices.ContainsFunc(p.Spec.Tolerations, func(o toleration) bool { return o.tolerates(t) })
		if slices.Contains(effects, t.Effect) && !tolerated {
			taints = append(taints, t)
		}
	}
	return taints
}

// fits reports whether a node has the labels that a pod wants.
func (n *node) fits(p *pod) bool {
	for key, value := range p.Spec.Selector {
		if have, ok := n.Meta.Labels[key]; !ok || have != value {
			return false
		}
	}
	return true
}

// unready returns what a node says of itself that is not ready, "" for one that is. Of a node that
// is lost the cluster says it, which does not hear from it.
func (n *node) unready() (why string, lost bool) {
	for _, c := range n.Status.Conditions {
		if c.Type == "Ready" && c.Status != "True" {
			return fmt.Sprintf("Ready is %s: %s", c.Status, signs.Text(c.Reason, c.Message)), c.Status == "Unknown"
		}
	}
	return "", false
}

// controls reports whether a node runs the cluster, and takes no other pods.
func (n *node) controls() bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t taint) bool { return strings.HasPrefix(t.Key, ofControl) })
}

// lookNode reads a node.
func (p provider) lookNode(ctx context.Context, name string) (*node, error) {
	var at node
	err := p.b.call(ctx, effect.KubeRead, func(ctx context.Context, api *kubeapi.Client) error {
		return api.Get(ctx, "/api/v1/nodes/"+url.PathEscape(name), &at)
	})
	return &at, err
}

// explain adds to a failure of a pod what the nodes say, as far as they may be read: the
// scheduler of Kubernetes 1.34 names no taint, and a pod does not say that its node is lost.
func (p provider) explain(ctx context.Context, at *pod, err error) error {
	f, ok := errors.AsType[*backends.Failure](err)
	switch {
	case !ok || at == nil:
		return err
	case f.Class == signs.Node && at.Spec.Node != "":
		return p.lost(ctx, at, f)
	case (f.Class == signs.Placement || f.Class == signs.Node) && at.Spec.Node == "":
		var nodes []node
		err := p.b.call(ctx, effect.KubeRead, func(ctx context.Context, api *kubeapi.Client) (err error) {
			nodes, err = kubeapi.List[node](ctx, api, "/api/v1/nodes")
			return err
		})
		if err != nil {
			return f
		}
		return keptOff(at, nodes, f)
	}
	return err
}

// lost returns the failure of a pod whose node is why it ended.
func (p provider) lost(ctx context.Context, at *pod, f *backends.Failure) error {
	n, err := p.lookNode(ctx, at.Spec.Node)
	if kubeapi.NotFound(err) {
		return &backends.Failure{Class: f.Class, Hint: "its node is gone: run it again", Err: fmt.Errorf("%w; the cluster has no node %s any more", f.Err, at.Spec.Node)}
	}
	if err != nil {
		return f
	}
	why, lost := n.unready()
	switch {
	case lost:
		return &backends.Failure{Class: f.Class, Hint: "its node was lost: run it again when the node is back, or on another one", Err: fmt.Errorf("%w; node %s is lost: %s", f.Err, at.Spec.Node, why)}
	case why != "":
		return &backends.Failure{Class: f.Class, Hint: f.Hint, Err: fmt.Errorf("%w; node %s is not ready: %s", f.Err, at.Spec.Node, why)}
	}
	if taints := n.untolerated(at, noExecute); len(taints) > 0 {
		return &backends.Failure{Class: f.Class, Hint: "somebody has drained its node: run it again, on another one or with " + tolerating(taints), Err: fmt.Errorf("%w; node %s has the taint %s", f.Err, at.Spec.Node, listed(taints))}
	}
	return f
}

// keptOff returns the failure of a pod that no node takes: those that have its labels have
// taints, or none has them.
func keptOff(at *pod, nodes []node, f *backends.Failure) error {
	var fit, open []*node // with the labels; of these, not kept off by the cluster itself
	for i := range nodes {
		n := &nodes[i]
		taints := n.untolerated(at, noSchedule, noExecute)
		if !n.fits(at) {
			continue
		}
		if len(taints) == 0 {
			return f // something else keeps it off this one
		}
		fit = append(fit, n)
		if !slices.ContainsFunc(taints, func(t taint) bool { return strings.HasPrefix(t.Key, ofCluster) }) {
			open = append(open, n)
		}
	}
	if workers := slices.DeleteFunc(slices.Clone(fit), (*node).controls); len(workers) > 0 {
		fit, open = workers, slices.DeleteFunc(open, (*node).controls)
	}
	first := func(all []*node) *node {
		return slices.MinFunc(all, func(a, b *node) int { return cmp.Compare(a.Meta.Name, b.Meta.Name) })
	}
	switch {
	case len(fit) == 0:
		return &backends.Failure{Class: signs.Placement, Hint: signs.HintLabels, Err: fmt.Errorf("%w; none of %d nodes has the labels %s", ofPlan(f.Err), len(nodes), at.labels())}
	case len(open) == 0:
		n := first(fit)
		why, _ := n.unready()
		// The plan is not wrong: without [backends.ErrSpec].
		return &backends.Failure{Class: signs.Node, Hint: signs.HintAway, Err: fmt.Errorf("pod %s: no node: of %d that fit, each has a taint of the cluster's: %s has %s; %s",
			at.Meta.Name, len(fit), n.Meta.Name, listed(n.untolerated(at, noSchedule, noExecute)), cmp.Or(why, "it is ready"))}
	}
	n := first(open)
	taints := n.untolerated(at, noSchedule, noExecute)
	has := "the labels, and the taint "
	if len(at.Spec.Selector) == 0 {
		has = "the taint "
	}
	return &backends.Failure{Class: signs.Placement, Hint: "if the node is meant for this: " + tolerating(taints), Err: fmt.Errorf("%w; node %s has %s%s", ofPlan(f.Err), n.Meta.Name, has, listed(taints))}
}

// ofPlan returns an error that another plan does not have.
func ofPlan(err error) error {
	if errors.Is(err, backends.ErrSpec) {
		return err
	}
	return fmt.Errorf("%w: %w", backends.ErrSpec, err)
}

// labels returns those that a pod wants, as key=value.
func (p *pod) labels() string {
	var all []string
	for key, value := range p.Spec.Selector {
		all = append(all, key+"="+value)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func listed(taints []taint) string {
	var all []string
	for _, t := range taints {
		all = append(all, t.String())
	}
	return strings.Join(all, ", ")
}

// tolerating returns what a plan says to tolerate taints.
func tolerating(taints []taint) string {
	var all []string
	for _, t := range taints {
		value := ""
		if t.Value != "" {
			value = "value: " + strconv.Quote(t.Value) + ", "
		}
		all = append(all, fmt.Sprintf("{key: %s, %seffect: %s}", t.Key, value, t.Effect))
	}
	return "backend.deploy.tolerations: [" + strings.Join(all, ", ") + "]"
}
