package stack

import (
	"cmp"
	"slices"
	"strings"
)

// The labels of the stacks that are known, in all their spellings. Sources: llm-d's
// guides and its chart llm-d-modelservice 0.4, the charts of llm-d-router 0.10 and of the
// Gateway API inference extension 1.5, Dynamo's operator 1.3 (consts.go), KServe 0.16.
const (
	dynamoGraph   = "nvidia.com/dynamo-graph-deployment-name"
	dynamoType    = "nvidia.com/dynamo-component-type"
	dynamoSubType = "nvidia.com/dynamo-sub-component-type"
	componentKey  = "app.kubernetes.io/component"
	nameKey       = "app.kubernetes.io/name"
	gatewayKey    = "gateway.networking.k8s.io/gateway-name"
	proxyKey      = "llm-d-router-proxy"
	standaloneKey = "llm-d-router-standalone"
	workerSetKey  = "leaderworkerset.sigs.k8s.io/name"
	workerKey     = "leaderworkerset.sigs.k8s.io/worker-index"
)

// Roles that are not words of a label.
const (
	roleServer   = "server" // a model server whose labels name no role
	roleRouter   = "router"
	roleProxy    = "proxy"
	roleGateway  = "gateway"
	roleFrontend = "frontend"
	roleOther    = "other"
)

// roleOrder is the way of a request. Other roles come after these, by name.
var roleOrder = []string{roleGateway, roleProxy, roleFrontend, roleRouter, "encode", "prefill", "decode", roleServer}

// roleKeys are labels whose value is the role of a model server.
var roleKeys = []string{"llm-d.ai/role", "llm-d.io/role"}

// roleNames are values that have another name in what sweep prints.
var roleNames = map[string]string{"both": "prefill-decode", "epp": roleRouter}

// routerKeys are labels that only an endpoint picker has.
var routerKeys = []string{standaloneKey, "llm-d-router-gateway", "inferencepool", "llm-d.ai/epp"}

// servingKeys say that a pod is a model server: any value but false.
var servingKeys = []string{"llm-d.ai/inference-serving", "llm-d.ai/inferenceServing"}

// groupKeys hold together the roles of one stack that no pool selects, the best first.
var groupKeys = []string{"llm-d.ai/guide", "llm-d.ai/model"}

// roleOf returns the role that a pod's labels and containers show, or roleOther.
func roleOf(p *pod) string {
	labels := p.Meta.Labels
	for _, key := range roleKeys {
		if v := labels[key]; v != "" {
			return cmp.Or(roleNames[v], v)
		}
	}
	if t := labels[dynamoType]; t != "" {
		if sub := labels[dynamoSubType]; t == "worker" && sub != "" {
			t = sub
		}
		return cmp.Or(roleNames[t], t)
	}
	component := labels[componentKey]
	switch {
	case isRouter(p):
		return roleRouter
	case labels[proxyKey] != "":
		return roleProxy
	case labels[gatewayKey] != "", component == "inference-gateway":
		return roleGateway
	case strings.HasPrefix(component, "llminferenceservice-workload"):
		// KServe's workload decodes; that it does nothing else shows beside a prefill.
		if strings.Contains(component, "prefill") {
			return "prefill"
		}
		return "decode"
	}
	if isServer(p) {
		return roleServer
	}
	return roleOther
}

// isRouter reports whether a pod is an endpoint picker.
func isRouter(p *pod) bool {
	for _, key := range routerKeys {
		if p.Meta.Labels[key] != "" {
			return true
		}
	}
	return p.Meta.Labels[componentKey] == "llminferenceservice-router-scheduler" ||
		slices.ContainsFunc(p.Spec.Containers, func(c container) bool { return c.Name == "epp" })
}

// isServer reports whether a pod is a model server: by a label, or because it has a GPU.
func isServer(p *pod) bool {
	for _, key := range servingKeys {
		if v := p.Meta.Labels[key]; v != "" && v != "false" {
			return true
		}
	}
	return slices.ContainsFunc(p.Spec.Containers, func(c container) bool { return gpus(c) != "" })
}

// isWorker reports whether a pod only helps the first pod of its group.
func isWorker(p *pod) bool {
	i := p.Meta.Labels[workerKey]
	return i != "" && i != "0"
}

// kindOf names whose stack a pod belongs to, or "".
func kindOf(p *pod) string {
	for key := range p.Meta.Labels {
		switch {
		case strings.HasPrefix(key, "nvidia.com/dynamo-"):
			return "dynamo"
		case key == "kserve.io/component", strings.HasPrefix(p.Meta.Labels[componentKey], "llminferenceservice-"):
			return "kserve"
		}
	}
	for key := range p.Meta.Labels {
		if strings.HasPrefix(key, "llm-d.ai/") || strings.HasPrefix(key, "llm-d.io/") || strings.HasPrefix(key, "llm-d-router-") {
			return "llm-d"
		}
	}
	return ""
}

// notMain are containers that stand beside the one that does the work.
var notMain = []string{"routing-proxy", "envoy", "envoy-proxy", "istio-proxy", "agentgateway", "agentgateway-proxy", "linkerd-proxy", "sidecar-frontend"}

// mainOf returns the container that does the work of a pod: the one with a GPU, else the
// first that is not known to stand beside another.
func mainOf(p *pod) string {
	for _, c := range p.Spec.Containers {
		if gpus(c) != "" {
			return c.Name
		}
	}
	for _, c := range p.Spec.Containers {
		if !slices.Contains(notMain, c.Name) {
			return c.Name
		}
	}
	return ""
}

// gpus returns the limits of a container that are accelerators, as "nvidia.com/gpu=1".
func gpus(c container) string {
	var list []string
	for _, resource := range sorted(c.Resources.Limits) {
		vendor, _, ok := strings.Cut(resource, "/")
		if n := c.Resources.Limits[resource]; ok && n != "0" && !strings.HasSuffix(vendor, "kubernetes.io") && !strings.HasPrefix(vendor, "rdma") {
			list = append(list, resource+"="+n)
		}
	}
	return strings.Join(list, ", ")
}
