package stack

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"sweep.dev/sweep/internal/kubeapi"
)

// cluster is what was read of a namespace.
type cluster struct {
	namespace string
	pods      []pod
	services  []service
	pools     []pool
	routes    []route
	gateways  []gateway
	ingresses []ingress
	apis      []string // group/version of what exists, beside the core's
	findings  []string // what could not be read
	denied    []*kubeapi.Denied
}

// The kinds that are read, with their versions, the newest first. A cluster may lack all
// but the core's.
var (
	poolAPIs    = []string{"inference.networking.k8s.io/v1", "inference.networking.x-k8s.io/v1alpha2"}
	routeAPIs   = []string{"gateway.networking.k8s.io/v1", "gateway.networking.k8s.io/v1beta1"}
	ingressAPIs = []string{"networking.k8s.io/v1"}
)

// collect reads the objects of a namespace that may belong to a stack. Only the pods
// are indispensable.
func collect(ctx context.Context, api *kubeapi.Client, namespace string) (*cluster, error) {
	c := &cluster{namespace: namespace}
	core := "/api/v1/namespaces/" + url.PathEscape(namespace)
	var err error
	if c.pods, err = kubeapi.List[pod](ctx, api, podsOf(namespace)); err != nil {
		return nil, err
	}
	if c.services, err = optional[service](c, "services")(kubeapi.List[service](ctx, api, core+"/services")); err != nil {
		return nil, err
	}
	if c.pools, err = listed[pool](ctx, api, c, poolAPIs, "inferencepools"); err != nil {
		return nil, err
	}
	if c.routes, err = listed[route](ctx, api, c, routeAPIs, "httproutes"); err != nil {
		return nil, err
	}
	if c.gateways, err = listed[gateway](ctx, api, c, routeAPIs, "gateways"); err != nil {
		return nil, err
	}
	if c.ingresses, err = listed[ingress](ctx, api, c, ingressAPIs, "ingresses"); err != nil {
		return nil, err
	}
	return c, c.foreignGateways(ctx, api)
}

func podsOf(namespace string) string {
	return "/api/v1/namespaces/" + url.PathEscape(namespace) + "/pods"
}

// listed reads a kind in the newest version that the server has, and nothing if it has
// none.
func listed[T any](ctx context.Context, api *kubeapi.Client, c *cluster, versions []string, resource string) ([]T, error) {
	for _, version := range versions {
		list, err := kubeapi.List[T](ctx, api, "/apis/"+version+"/namespaces/"+url.PathEscape(c.namespace)+"/"+resource)
		if kubeapi.NotFound(err) {
			continue
		}
		if err == nil {
			c.apis = append(c.apis, version+" "+resource)
		}
		return optional[T](c, resource)(list, err)
	}
	return nil, nil
}

// optional makes a finding of a list that may not be read, and of any other error one.
func optional[T any](c *cluster, resource string) func([]T, error) ([]T, error) {
	return func(list []T, err error) ([]T, error) {
		if denied, ok := errors.AsType[*kubeapi.Denied](err); ok {
			c.findings = append(c.findings, fmt.Sprintf("%v: what leads to the stack through %s is not known", denied, resource))
			c.denied = append(c.denied, denied)
			return nil, nil
		}
		return list, err
	}
}

// foreignGateways reads the gateways in other namespaces that routes of this one name.
func (c *cluster) foreignGateways(ctx context.Context, api *kubeapi.Client) error {
	seen := map[reference]bool{}
	for _, r := range c.routes {
		for _, parent := range r.Spec.Parents {
			key := reference{Namespace: parent.Namespace, Name: parent.Name}
			if !isGateway(parent) || parent.Namespace == "" || parent.Namespace == c.namespace || seen[key] || len(seen) == maxForeign {
				continue
			}
			seen[key] = true
			var g gateway
			err := api.Get(ctx, "/apis/"+routeAPIs[0]+"/namespaces/"+url.PathEscape(parent.Namespace)+"/gateways/"+url.PathEscape(parent.Name), &g)
			_, denied := errors.AsType[*kubeapi.Denied](err)
			switch {
			case err == nil:
				c.gateways = append(c.gateways, g)
			case denied || kubeapi.NotFound(err):
				c.findings = append(c.findings, fmt.Sprintf("the address of gateway %s/%s is not known: %v", parent.Namespace, parent.Name, err))
			default:
				return err
			}
		}
	}
	return nil
}

// maxForeign bounds the gateways of other namespaces that are asked for.
const maxForeign = 20

// isGateway reports whether a parent of a route is a gateway. One without a kind is.
func isGateway(parent reference) bool { return parent.Kind == "" || parent.Kind == "Gateway" }
