package kubeapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
)

// Replace puts an object in the place of the one at a path, and reads the new one into
// out. The object has the resourceVersion of the one that it was made of: if that has
// changed since, nothing happens and [Changed] is true of the error.
func (c *Client) Replace(ctx context.Context, path string, object, out any) error {
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return c.ask(ctx, call{method: http.MethodPut, path: path, body: body}, out)
}

// Changed reports whether a write was refused because the object has changed since it was
// read. After a lost answer that may have been our own write.
func Changed(err error) bool {
	at, ok := errors.AsType[*StatusError](err)
	return ok && at.Code == http.StatusConflict
}
