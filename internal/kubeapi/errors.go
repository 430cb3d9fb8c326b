package kubeapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// A StatusError is an answer of the API server that is no success.
type StatusError struct {
	Path    string
	Code    int    // of HTTP
	Reason  string // as in "NotFound", "" if the answer has none
	Message string
}

func (e *StatusError) Error() string {
	switch e.Code {
	case http.StatusUnauthorized:
		return fmt.Sprintf("kubernetes: %s: the server does not know who asks (401 Unauthorized): the token of the kubeconfig is wrong or expired", e.Path)
	case http.StatusTooManyRequests:
		return fmt.Sprintf("kubernetes: %s: the server is too busy (429): %s", e.Path, e.Message)
	}
	return fmt.Sprintf("kubernetes: %s: %d %s: %s", e.Path, e.Code, cmp.Or(e.Reason, http.StatusText(e.Code)), e.Message)
}

// NotFound reports whether the server has no such object, or no such kind of object.
func NotFound(err error) bool {
	at, ok := errors.AsType[*StatusError](err)
	return ok && at.Code == http.StatusNotFound
}

// A Denied is a refusal by the cluster's access rules (RBAC): a role lacks this verb.
type Denied struct {
	User      string
	Verb      string
	Group     string // of the API, "" for core
	Resource  string // pods, pods/log
	Namespace string // "" for the whole cluster
}

func (e *Denied) Error() string {
	where := "in the whole cluster"
	if e.Namespace != "" {
		where = "in namespace " + e.Namespace
	}
	return fmt.Sprintf("kubernetes: %s may not %s %s %s", cmp.Or(e.User, "this user"), e.Verb, Qualified(e.Group, e.Resource), where)
}

// Qualified returns a resource with its API group, as kubectl spells it.
func Qualified(group, resource string) string {
	if group == "" {
		return resource
	}
	return resource + "." + group
}

// denied is how the server's own access rules refuse. Quotas, admission and a namespace
// that goes away answer 403 as well, with other texts.
var denied = regexp.MustCompile(`User "([^"]*)" cannot (\S+) resource "([^"]+)" in API group "([^"]*)"(?: in the namespace "([^"]+)")?`)

// maxMessage bounds the text of an answer in an error, in bytes.
const maxMessage = 400

// refusal returns the error of an answer that is no success.
func refusal(path string, resp *http.Response, answer []byte) error {
	var status struct{ Kind, Reason, Message string }
	if json.Unmarshal(answer, &status) != nil || status.Kind != "Status" {
		// A proxy before the server, or no API server at all.
		status.Reason, status.Message = "", strings.Join(strings.Fields(string(answer[:min(len(answer), maxMessage)])), " ")
	}
	return refused(path, resp.StatusCode, status.Reason, status.Message)
}

// refused returns the error of a status of the API.
func refused(path string, code int, reason, message string) error {
	if code == http.StatusForbidden {
		if m := denied.FindStringSubmatch(message); m != nil {
			return &Denied{User: m[1], Verb: m[2], Resource: m[3], Group: m[4], Namespace: m[5]}
		}
	}
	if len(message) > maxMessage {
		message = message[:maxMessage] + "..."
	}
	return &StatusError{Path: path, Code: code, Reason: reason, Message: message}
}
