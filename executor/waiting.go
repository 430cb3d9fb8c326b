package executor

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/event"
	"sweep.dev/sweep/host"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/result"
)

// patience bounds the wait for a server. Zero fields have the defaults.
type patience struct {
	// silent is how long a given server may leave questions unanswered; default
	// givenSilence. timeouts.ready bounds one that answers "not yet".
	silent time.Duration
	// again is the time between two refusals of a server that sweep started,
	// after which it is believed; default refusedAgain.
	again time.Duration
}

const (
	givenSilence = 30 * time.Second
	refusedAgain = 5 * time.Second
)

// A wait judges the answers of a server that is not ready yet, and shows the
// last of them to people.
type wait struct {
	lastAnswer
	given bool // the server is not ours: its first refusal ends the wait
	// own says that the engine's own process answers. A proxy, a tunnel, a
	// frontend and a router answer 404 and 502 before their route exists.
	own bool

	silent  time.Time // since when nothing was answered
	refused time.Time // since when the same thing is refused; zero if it is not
}

func (d *deployment) waitFor(dep backends.Deployment, step string) *wait {
	entry := d.profile.EntryRole()
	direct := dep.Host(entry, 0).Path() == host.Direct
	computes := d.profile.Role(entry).Computes()
	return &wait{
		lastAnswer: lastAnswer{deployment: d, step: step}, given: d.Given, own: direct && computes && len(d.profile.Roles) < 2,
		silent: time.Now(),
	}
}

// judge takes one answer. The returned error ends the wait; nil goes on.
func (w *wait) judge(err error) error {
	now := time.Now()
	w.show(err)
	if _, ok := err.(*wrongModel); ok { //nolint:errorlint // returned as it is, never wrapped
		return err // a proxy that has no route names no model
	}
	var none *noAnswer
	if !errors.As(err, &none) {
		w.silent = now
	}
	refusal := lasting(err)
	switch {
	case refusal == nil:
		w.refused = time.Time{}
	case w.given:
		return refusal
	case !w.own:
	case w.refused.IsZero():
		w.refused = now
	case now.Sub(w.refused) >= cmp.Or(w.patience.again, refusedAgain):
		return refusal
	}
	if limit := cmp.Or(w.patience.silent, givenSilence); w.given && none != nil && now.Sub(w.silent) >= limit {
		return &backends.Failure{
			Class: result.ErrConnect, Err: fmt.Errorf("no answer for %s: %w", limit, err),
			Hint: "is the server up, and is backend.url its address? sweep probe URL shows what answers there",
		}
	}
	return nil
}

// A lastAnswer shows people what they wait for.
type lastAnswer struct {
	*deployment
	step  string
	shown string
}

// show emits the last answer if it is another than the one before.
func (l *lastAnswer) show(err error) {
	text := wire.Clip(l.mask.Text(err.Error()))
	if text == l.shown {
		return
	}
	l.shown = text
	l.emit(event.Event{Type: event.Waiting, Deployment: l.ID, Step: l.step, Label: l.label, Text: text})
}

// A noAnswer is a question that got no HTTP answer.
type noAnswer struct{ err error }

func (e *noAnswer) Error() string { return e.err.Error() }
func (e *noAnswer) Unwrap() error { return e.err }

// lasting returns the failure that an answer means if waiting does not change
// it, and nil otherwise.
func lasting(err error) *backends.Failure {
	because := func(class, hint string) *backends.Failure {
		return &backends.Failure{Class: class, Err: err, Hint: hint}
	}
	var status *badStatus
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
func refusalOf(s *badStatus, because func(class, hint string) *backends.Failure) *backends.Failure {
	switch {
	case s.isModel():
		return because(engine.ClassWrongModel, "the server does not know the model: served_model_name of the engine is the name to ask with")
	case s.code == http.StatusUnauthorized, s.code == http.StatusForbidden:
		return because(result.ErrAuth, "the server does not take the key: check the key and the headers that the plan sends")
	case s.code == http.StatusBadRequest && strings.Contains(s.text, "HTTPS"):
		return because(result.ErrProtocol, "the server speaks https there: write https:// in the URL")
	case s.code == http.StatusBadRequest, s.code == http.StatusUnprocessableEntity:
		return because(result.ErrRejected, "the server refuses a request of one token: check the engine of the plan, whose profile says what is sent")
	case slices.Contains([]int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone, http.StatusNotImplemented}, s.code),
		s.code >= 300 && s.code < 400:
		return because(result.ErrRejected, "the server does not have this path: check the URL and the engine of the plan")
	}
	return nil
}

// isModel says whether the server does not have the model: with 404, as if it did
// not have the path.
func (e *badStatus) isModel() bool {
	return e.code == http.StatusNotFound && strings.Contains(strings.ToLower(e.body), "model")
}

// isTLS says whether a handshake failed for a reason that lasts. A connection that
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

// served lists the models of a server, as far as it says; none is no error.
func (c *apiClient) served(ctx context.Context, path string) []string {
	body, err := c.get(ctx, cmp.Or(path, "/v1/models"))
	if err != nil {
		return nil
	}
	ids, err := modelIDs(body)
	if err != nil {
		return nil
	}
	return ids
}

func modelIDs(body []byte) ([]string, error) {
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	var ids []string
	for _, m := range list.Data {
		ids = append(ids, m.ID)
	}
	return ids, nil
}
