package kubeapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

// Bounds of a list.
const (
	pageSize   = 250
	maxObjects = 10_000
)

// A Version is what the API server says of itself.
type Version struct {
	GitVersion string `json:"gitVersion"` // as in "v1.34.4"
	Platform   string `json:"platform"`
}

// Version asks for the server's version, which every user may.
func (c *Client) Version(ctx context.Context) (v Version, err error) {
	return v, c.Get(ctx, "/version", &v)
}

// List reads all objects at a path, page by page. A list that changed so much that the
// server lost its place begins again, once.
func List[T any](ctx context.Context, c *Client, path string) ([]T, error) {
	return ListSelected[T](ctx, c, path, "")
}

// ListSelected is [List] of the objects with some labels, as "a=b,c=d".
func ListSelected[T any](ctx context.Context, c *Client, path, labels string) ([]T, error) {
	all, err := pages[T](ctx, c, path, labels)
	if at, ok := errors.AsType[*StatusError](err); ok && at.Code == http.StatusGone {
		return pages[T](ctx, c, path, labels)
	}
	return all, err
}

func pages[T any](ctx context.Context, c *Client, path, labels string) (all []T, err error) {
	next := ""
	for {
		query := url.Values{"limit": {strconv.Itoa(pageSize)}}
		if labels != "" {
			query.Set("labelSelector", labels)
		}
		if next != "" {
			query.Set("continue", next)
		}
		var page struct {
			Metadata struct {
				Continue string `json:"continue"`
			} `json:"metadata"`
			Items []T `json:"items"`
		}
		if err := c.Get(ctx, path+"?"+query.Encode(), &page); err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		switch next = page.Metadata.Continue; {
		case next == "":
			return all, nil
		case len(all) >= maxObjects || len(page.Items) == 0:
			return nil, fmt.Errorf("kubernetes: %s: %d objects and more, at most %d are read", path, len(all), maxObjects)
		}
	}
}
