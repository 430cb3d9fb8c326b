package pods

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/kubernetes/signs"
)

// What a taint keeps off is what the cluster's own rules say.
func TestToleration(t *testing.T) {
	t.Parallel()
	of := taint{"sku", "gpu", "NoSchedule"}
	for o, want := range map[toleration]bool{
		{"sku", "Equal", "gpu", "NoSchedule"}: true,
		{"sku", "", "gpu", ""}:                true,
		{"sku", "Exists", "", ""}:             true,
		{"", "Exists", "", ""}:                true,
		{"sku", "Equal", "cpu", ""}:           false,
		{"sku", "Equal", "", ""}:              false,
		{"", "Equal", "gpu", ""}:              false,
		{"sku", "Exists", "", "NoExecute"}:    false,
		{"pool", "Exists", "", ""}:            false,
	} {
		if got := o.tolerates(of); got != want {
			t.Errorf("%+v: %v, want %v", o, got, want)
		}
	}
}

// The nodes say which taint keeps a pod off, what a plan may say to tolerate it, and what
// is not the plan's fault. The scheduler says the same of all of them.
func TestKeptOff(t *testing.T) {
	t.Parallel()
	const (
		ours  = `{"metadata":{"name":"%","labels":{"gpu":"h100"}},"spec":{"taints":[{"key":"sku","value":"gpu","effect":"NoSchedule"}]}}`
		bare  = `{"metadata":{"name":"%","labels":{"gpu":"h100"}},"spec":{"taints":[{"key":"drain","effect":"NoExecute"}]}}`
		free  = `{"metadata":{"name":"%","labels":{"gpu":"h100"}},"spec":{"taints":[{"key":"slow","effect":"PreferNoSchedule"}]}}`
		other = `{"metadata":{"name":"%","labels":{"gpu":"a100"}}}`
		lost  = `{"metadata":{"name":"%","labels":{"gpu":"h100"}},"spec":{"taints":[{"key":"node.kubernetes.io/unreachable","effect":"NoSchedule"}]},
			"status":{"conditions":[{"type":"Ready","status":"Unknown","reason":"NodeStatusUnknown","message":"Kubelet stopped posting node status."}]}}`
		plane = `{"metadata":{"name":"%","labels":{"gpu":"h100"}},"spec":{"taints":[{"key":"node-role.kubernetes.io/control-plane","effect":"NoSchedule"}]}}`
	)
	was := &backends.Failure{Class: signs.Placement, Hint: "look", Err: errors.Join(backends.ErrSpec, errors.New("untolerated taint(s)"))}
	for name, c := range map[string]struct {
		nodes      []string
		tolerates  string
		class      string
		spec       bool // the plan is wrong
		hint, text string
	}{
		"a taint":           {[]string{other, ours}, "", "placement", true, `backend.deploy.tolerations: [{key: sku, value: "gpu", effect: NoSchedule}]`, "node b has the labels, and the taint sku=gpu:NoSchedule"},
		"one that drains":   {[]string{bare}, "", "placement", true, "[{key: drain, effect: NoExecute}]", "drain:NoExecute"},
		"the other taint":   {[]string{ours, bare}, `{"key":"sku","operator":"Exists"}`, "placement", true, "look", "untolerated"},
		"no node":           {[]string{other}, "", "placement", true, signs.HintLabels, "none of 1 nodes has the labels gpu=h100"},
		"a free one":        {[]string{ours, free}, "", "placement", true, "look", "untolerated"},
		"lost":              {[]string{lost, other}, "", "node", false, signs.HintAway, "a has node.kubernetes.io/unreachable:NoSchedule; Ready is Unknown: NodeStatusUnknown: Kubelet stopped posting node status"},
		"lost, and a plane": {[]string{lost, plane}, "", "node", false, signs.HintAway, "a has node.kubernetes.io/unreachable:NoSchedule"},
		"a plane alone":     {[]string{plane, other}, "", "placement", true, "node-role.kubernetes.io/control-plane", "node a has the labels"},
		"lost, and a taint": {[]string{lost, ours}, "", "placement", true, "sku", "node b has"},
	} {
		var nodes []node
		for i, text := range c.nodes {
			var n node
			if err := json.Unmarshal([]byte(strings.Replace(text, "%", string(rune('a'+i)), 1)), &n); err != nil {
				t.Fatal(err)
			}
			nodes = append(nodes, n)
		}
		var p pod
		if err := json.Unmarshal([]byte(`{"metadata":{"name":"x"},"spec":{"nodeSelector":{"gpu":"h100"},"tolerations":[`+c.tolerates+`]}}`), &p); err != nil {
			t.Fatal(err)
		}
		err := keptOff(&p, nodes, was)
		f, ok := errors.AsType[*backends.Failure](err)
		if !ok || f.Class != c.class || errors.Is(err, backends.ErrSpec) != c.spec || !strings.Contains(f.Hint, c.hint) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %s (%s): %v", name, f.Class, f.Hint, err)
		}
	}
}
