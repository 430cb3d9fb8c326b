package runpodapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/effect"
)

// An Error is an answer of the API other than success.
type Error struct {
	method, path string
	status       int
	problem
	wait time.Duration // that the server asked for; 0 if it did not
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "runpod: %s %s: %d %s", e.method, e.path, e.status, http.StatusText(e.status))
	if hint := e.hint(); hint != "" {
		fmt.Fprintf(&b, " (%s)", hint)
	}
	if e.Detail != "" {
		fmt.Fprintf(&b, ": %.500s", e.Detail)
	}
	for _, text := range e.Errors {
		fmt.Fprintf(&b, "; %.300s", text)
	}
	return b.String()
}

// hint says what a status means that does not speak for itself.
func (e *Error) hint() string {
	switch {
	case e.status == http.StatusPaymentRequired:
		return "the account's balance is too low"
	case e.status == http.StatusForbidden && strings.Contains(e.Detail, "1010"):
		return "Cloudflare refused this client, by its User-Agent or address; the key was not looked at"
	case e.status == http.StatusForbidden:
		return "the key lacks a permission"
	case e.status == http.StatusUnauthorized:
		return "the key is not valid"
	case e.status == http.StatusGone:
		return "this API is retired; base_url should end in /v2"
	case e.status >= 300 && e.status < 400:
		return "a redirect, which is not followed: it would take the key elsewhere"
	}
	return ""
}

// noCapacity finds the only 400 that another time or place can help.
var noCapacity = regexp.MustCompile(`(?i)no longer any instances|no instances (currently )?available|does not have the resources|not enough free GPUs`)

// Unwrap returns the class that callers branch on.
func (e *Error) Unwrap() error {
	switch {
	case e.status == http.StatusBadRequest && noCapacity.MatchString(e.Detail):
		return backends.ErrCapacity
	case e.status == http.StatusNotFound && e.method != http.MethodPost:
		return backends.ErrNotFound
	case e.status == http.StatusBadRequest, e.status == http.StatusNotFound,
		e.status == http.StatusRequestEntityTooLarge, e.status == http.StatusUnprocessableEntity:
		return backends.ErrSpec
	case e.status == http.StatusUnauthorized, e.status == http.StatusPaymentRequired,
		e.status == http.StatusForbidden, e.status == http.StatusGone,
		e.status >= 300 && e.status < 400:
		return backends.ErrRefused
	}
	return nil
}

// newError reads an error's body, which is no JSON where something between us
// and RunPod has answered.
func newError(method, path string, resp *http.Response, body []byte) *Error {
	e := &Error{method: method, path: path, status: resp.StatusCode, wait: retryAfter(resp.Header)}
	if json.Unmarshal(body, &e.problem) != nil {
		e.problem = problem{Detail: strings.Join(strings.Fields(string(body[:min(len(body), 300)])), " ")}
	}
	return e
}

// Transient reports whether the same call may go well later: no answer, or one
// that does not speak of the request.
func Transient(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, errNotSent) {
		return false
	}
	if api, ok := errors.AsType[*Error](err); ok {
		return api.status >= 500 || api.status == http.StatusTooManyRequests || api.status == http.StatusRequestTimeout
	}
	var fault *effect.Fault
	return !errors.As(err, &fault) // ours, and meant to be seen
}

// Limited reports whether a call was turned away before anybody looked at it.
func Limited(err error) bool {
	var api *Error
	return errors.As(err, &api) && api.status == http.StatusTooManyRequests
}

// IsStatus reports whether the API answered with a status.
func IsStatus(err error, status int) bool {
	var api *Error
	return errors.As(err, &api) && api.status == status
}

// Certain reports whether a create that failed has made nothing for sure: it was
// refused by an answer that speaks of it, or was never sent.
func Certain(err error) bool {
	if api, ok := errors.AsType[*Error](err); ok {
		return api.status < 500 && api.status != http.StatusRequestTimeout && api.status != http.StatusConflict
	}
	var fault *effect.Fault
	return errors.As(err, &fault) && fault.Phase == effect.Before || errors.Is(err, errNotSent)
}

// errNotSent is a call that ended before a byte of it was sent.
var errNotSent = errors.New("not sent")
