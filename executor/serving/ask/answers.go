package ask

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/engine/failure"
	"sweep.dev/sweep/result"
)

// A Status is an answer other than 200.
type Status struct {
	Code int
	text string
	body string // without secrets
}

func (e *Status) Error() string { return e.text }

// Body returns the whole answer, without secrets.
func (e *Status) Body() string { return e.body }

// IsModel reports whether the server does not have the model: with 404, as if it did
// not have the path.
func (e *Status) IsModel() bool {
	return e.Code == http.StatusNotFound && strings.Contains(strings.ToLower(e.body), "model")
}

// Refused reports whether the server does not take the request as it is.
func (e *Status) Refused() bool {
	return e.Code == http.StatusBadRequest || e.Code == http.StatusUnprocessableEntity
}

// A badStream is an answer of 200 that is no stream, or that failed.
type badStream struct{ class, text string }

func (e *badStream) Error() string { return e.text }

// A NoAnswer is a question that got no HTTP answer.
type NoAnswer struct{ Err error }

func (e *NoAnswer) Error() string { return e.Err.Error() }
func (e *NoAnswer) Unwrap() error { return e.Err }

// Lasting returns the failure that an answer means if waiting does not change
// it, and nil otherwise.
func Lasting(err error) *backends.Failure {
	because := func(class, hint string) *backends.Failure {
		return &backends.Failure{Class: class, Err: err, Hint: hint}
	}
	var status *Status
	var stream *badStream
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &status):
		return refusalOf(status, because)
	case errors.Is(err, http.ErrSchemeMismatch):
		return because(result.ErrConnect, "the server speaks http there and not https")
	case isTLS(err):
		return because(result.ErrConnect, "TLS does not work: check the host name, the port and the server's certificate")
	case strings.Contains(err.Error(), "malformed HTTP"): // net/http has no type for it
		return because(result.ErrProtocol, "the port does not speak plain HTTP: check it, and http or https")
	case errors.As(err, &syntax), errors.As(err, &stream) && stream.class == result.ErrProtocol:
		return because(result.ErrProtocol, "the answer is not that of OpenAI's API: check the URL")
	}
	return nil
}

// refusalOf judges a status other than 200.
func refusalOf(s *Status, because func(class, hint string) *backends.Failure) *backends.Failure {
	switch {
	case s.IsModel():
		return because(failure.ClassWrongModel, "the server does not know the model: served_model_name of the engine is the name to ask with")
	case s.Code == http.StatusUnauthorized, s.Code == http.StatusForbidden:
		return because(result.ErrAuth, "the server does not take the key: check the key and the headers that the plan sends")
	case s.Code == http.StatusBadRequest && strings.Contains(s.text, "HTTPS"):
		return because(result.ErrProtocol, "the server speaks https there: write https:// in the URL")
	case s.Refused():
		return because(result.ErrRejected, "the server refuses a short request: check the engine of the plan, whose profile says what is sent")
	case s.Code >= 300 && s.Code < 400:
		return because(result.ErrRejected, "requests of a load follow no redirect: give the URL that it leads to, or its path in an engine file (api.chat)")
	case slices.Contains([]int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone, http.StatusNotImplemented}, s.Code):
		return because(result.ErrRejected, "the server does not have this path: check the URL and the engine of the plan")
	}
	return nil
}

// isTLS reports whether a handshake failed for a reason that lasts. A connection that
// breaks during the handshake is no such reason.
func isTLS(err error) bool {
	var (
		record tls.RecordHeaderError
		verify *tls.CertificateVerificationError
		alert  *net.OpError // of the server, see crypto/tls
	)
	return errors.As(err, &record) || errors.As(err, &verify) ||
		errors.As(err, &alert) && alert.Op == "remote error"
}
