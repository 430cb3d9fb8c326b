package kubeapi

import (
	"context"
	"net/http"
)

// Raw asks for what is no JSON of the API, as a page that the server fetches from a pod.
// Every status is an answer. Its caller closes the body, and bounds the time by ctx.
func (c *Client) Raw(ctx context.Context, path string) (*http.Response, error) {
	return c.open(ctx, call{method: http.MethodGet, path: path})
}
