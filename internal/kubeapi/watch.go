package kubeapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
)

// watchTime is how long the server keeps a watch open, in seconds.
const watchTime = 300

// A Change is one that a watch reports.
type Change struct {
	Type   string          `json:"type"` // ADDED, MODIFIED, DELETED
	Object json.RawMessage `json:"object"`
}

// Watch hands on each change of one object of a collection after a version of it. It
// returns when the server, a proxy or the network ends the watch: nil, or why. What
// changed until the next watch is found by reading the object again.
func (c *Client) Watch(ctx context.Context, path, name, version string, take func(Change) error) error {
	query := url.Values{
		"watch": {"1"}, "fieldSelector": {"metadata.name=" + name}, "resourceVersion": {version},
		"allowWatchBookmarks": {"true"}, "timeoutSeconds": {strconv.Itoa(watchTime)},
	}
	body, err := c.Stream(ctx, path+"?"+query.Encode())
	if err != nil {
		return err
	}
	defer body.Close()
	for frames := json.NewDecoder(body); ; {
		var change Change
		if err := frames.Decode(&change); err != nil {
			return nil // every watch ends
		}
		switch change.Type {
		case "BOOKMARK":
		case "ERROR":
			return fmt.Errorf("kubernetes: %s: the watch ends: %.200s", path, change.Object)
		default:
			if err := take(change); err != nil {
				return err
			}
		}
	}
}
