package kubeapi

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/url"
	"time"
)

// mergePatch is the type of a JSON merge patch (RFC 7386). Unlike an apply it changes
// what it names and nothing else, whoever made the object.
const mergePatch = "application/merge-patch+json"

// Create makes an object at the path of its collection, and reads it as it was made into
// out, which may be nil. A field that the server does not know is refused, not dropped.
// The name is the fence against making it twice: see [Exists]. The request is sent once:
// where its error is no answer, [Refused] is false, and the object may be there.
func (c *Client) Create(ctx context.Context, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	return c.ask(ctx, call{method: http.MethodPost, path: path + "?fieldValidation=Strict", body: body, notTwice: true}, out)
}

// Merge changes the fields of an object that a JSON merge patch has, and reads the
// object as it is then into out, which may be nil.
func (c *Client) Merge(ctx context.Context, path string, patch, out any) error {
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	return c.ask(ctx, call{method: http.MethodPatch, path: path, kind: mergePatch, body: body}, out)
}

// How the cluster deletes what an object owns.
const (
	Foreground = "Foreground" // the owner goes when what blocks it has gone
	Background = "Background" // the owner goes at once
)

// A Deletion says how to delete.
type Deletion struct {
	// UID is that of the object that is meant: another one of its name stays. "" is
	// whichever has the name.
	UID         string
	Propagation string        // "" is the kind's default
	Grace       time.Duration // of a pod, up to the next second; 0 is the pod's own
}

// Delete asks the server to delete an object. It returns when the server has taken note,
// which may be long before the object is gone. An object that is not there, or that has
// another UID, is a success.
func (c *Client) Delete(ctx context.Context, path string, d Deletion) error {
	options := map[string]any{"apiVersion": "v1", "kind": "DeleteOptions"}
	if d.UID != "" {
		options["preconditions"] = map[string]string{"uid": d.UID}
	}
	if d.Propagation != "" {
		options["propagationPolicy"] = d.Propagation
	}
	if d.Grace > 0 { // never 0: that forgets a pod whose processes may go on
		options["gracePeriodSeconds"] = int(math.Ceil(d.Grace.Seconds()))
	}
	body, err := json.Marshal(options)
	if err != nil {
		return err
	}
	err = c.ask(ctx, call{method: http.MethodDelete, path: path, body: body}, nil)
	if at, ok := errors.AsType[*StatusError](err); ok && (at.Code == http.StatusNotFound || at.Code == http.StatusConflict && d.UID != "") {
		return nil
	}
	return err
}

// DeleteSelected asks the server to delete the objects of a collection that a label selector
// names. It takes the right to deletecollection alone; the answer may have the objects, and is
// not read.
func (c *Client) DeleteSelected(ctx context.Context, path, labels string) error {
	query := url.Values{"labelSelector": {labels}, "propagationPolicy": {Background}}
	return c.ask(ctx, call{method: http.MethodDelete, path: path + "?" + query.Encode()}, nil)
}

// Exists reports whether a create was refused because there is an object of that name.
func Exists(err error) bool {
	at, ok := errors.AsType[*StatusError](err)
	return ok && at.Code == http.StatusConflict && at.Reason == "AlreadyExists"
}

// Refused reports whether the server has answered that it did not do what was asked. What
// is no answer, or the answer of a server in trouble, says nothing.
func Refused(err error) bool {
	if _, denied := errors.AsType[*Denied](err); denied {
		return true
	}
	at, ok := errors.AsType[*StatusError](err)
	return ok && at.Code >= 400 && at.Code < 500
}
