package kubeapi

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"golang.org/x/sync/errgroup"
)

// A Right is one thing that a user may do or not.
type Right struct {
	Verb     string `json:"verb"`
	Group    string `json:"group"`    // of the API, "" for core
	Resource string `json:"resource"` // pods, pods/log
}

// reviewsAtOnce bounds how many questions wait for an answer.
const reviewsAtOnce = 8

// Review asks for each right whether the user has it in a namespace. The questions
// (SelfSubjectAccessReviews) change nothing, and every user may ask them.
func (c *Client) Review(ctx context.Context, namespace string, rights []Right) ([]bool, error) {
	allowed := make([]bool, len(rights))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(reviewsAtOnce)
	for i, r := range rights {
		group.Go(func() error {
			resource, sub, _ := strings.Cut(r.Resource, "/")
			question, err := json.Marshal(map[string]any{
				"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
				"spec": map[string]any{"resourceAttributes": map[string]string{
					"namespace": namespace, "verb": r.Verb, "group": r.Group, "resource": resource, "subresource": sub,
				}},
			})
			if err != nil {
				return err
			}
			var answer struct {
				Status struct {
					Allowed bool `json:"allowed"`
				} `json:"status"`
			}
			err = c.ask(ctx, call{method: http.MethodPost, path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body: question}, &answer)
			allowed[i] = answer.Status.Allowed
			return err
		})
	}
	return allowed, group.Wait()
}
