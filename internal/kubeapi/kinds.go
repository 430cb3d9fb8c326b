package kubeapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// A Kind is one kind of objects that a cluster has.
type Kind struct {
	Resource   string `json:"name"` // deployments
	Kind       string `json:"kind"` // Deployment
	Namespaced bool   `json:"namespaced"`
}

// Kinds asks which kinds an API has, by its version as in "v1" or "apps/v1". It has none
// if the cluster does not know the API.
func (c *Client) Kinds(ctx context.Context, apiVersion string) ([]Kind, error) {
	var list struct {
		Resources []Kind `json:"resources"`
	}
	err := c.Get(ctx, base(apiVersion), &list)
	if NotFound(err) {
		return nil, nil
	}
	var kinds []Kind
	for _, k := range list.Resources {
		if !strings.Contains(k.Resource, "/") { // deployments/status is no kind
			kinds = append(kinds, k)
		}
	}
	return kinds, err
}

func base(apiVersion string) string {
	group, version, ok := strings.Cut(apiVersion, "/")
	if !ok {
		return "/api/" + url.PathEscape(apiVersion)
	}
	return "/apis/" + url.PathEscape(group) + "/" + url.PathEscape(version)
}

// Collection returns the path of the objects of a resource in a namespace.
func Collection(apiVersion, namespace, resource string) string {
	return fmt.Sprintf("%s/namespaces/%s/%s", base(apiVersion), url.PathEscape(namespace), url.PathEscape(resource))
}

// Try asks whether a create would be accepted, and creates nothing. Defaults, strict
// fields, quotas and the rules of admission are looked at as for [Client.Create].
func (c *Client) Try(ctx context.Context, path string, in any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	return c.ask(ctx, call{method: http.MethodPost, path: path + "?dryRun=All&fieldValidation=Strict", body: body}, nil)
}
