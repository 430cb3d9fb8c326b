// Package foreign is what backends of servers that somebody else runs have in common: how
// the address of one is written, what its requests carry, and whether it answers.
package foreign

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/netguard"
	"sweep.dev/sweep/internal/secret"
)

// Address returns a URL that may be asked, without a slash at its end and without the
// /v1 that many clients want in it: paths of the API begin with it.
func Address(text string, guard netguard.Guard) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		// A parser's error shows the whole URL; it may hold a password.
		return nil, errors.New("not a URL")
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, errors.New("want http://host:port or https://host")
	case u.User != nil:
		return nil, errors.New("put credentials into key or headers, by reference (${NAME})")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("nothing may follow the path")
	case u.Port() != "" && !isPort(u.Port()):
		return nil, fmt.Errorf("%s is not a port", u.Port())
	}
	u.Path = strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/v1")
	return u, guard.Check(u.Hostname())
}

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}

// Headers are what every request to a server carries, by canonical name. They are for
// that server and no other.
type Headers map[string]secret.String

var (
	headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
	sensitive  = regexp.MustCompile(`(?i)authorization|cookie|token|secret|password|passwd|(^|[-_])key$|apikey`)
	reference  = regexp.MustCompile(`\$\{[A-Za-z_][A-Za-z0-9_]*\}`)
)

// IsLiteral reports whether a text is not a reference; what is empty is no secret.
func IsLiteral(s secret.String) bool { return !s.IsZero() && !reference.MatchString(s.Ref()) }

// HeadersOf returns those of a plan's headers and key. The errors are everything that is
// wrong with them.
func HeadersOf(headers map[string]secret.String, key secret.String) (Headers, []error) {
	all := Headers{}
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		value, canonical := headers[name], http.CanonicalHeaderKey(name)
		switch _, twice := all[canonical]; {
		case !headerName.MatchString(name):
			bad("headers: %q is not a header's name", name)
		case slices.Contains([]string{"Host", "Content-Length", "Transfer-Encoding", "Connection"}, canonical):
			bad("headers: %s is the client's own", name)
		case twice:
			bad("headers: %s is there twice", canonical)
		case sensitive.MatchString(name) && IsLiteral(value):
			bad("headers: %s: want a reference, ${NAME}, and not the secret itself", name)
		}
		all[canonical] = value
	}
	if !key.IsZero() {
		if IsLiteral(key) {
			bad("key: want a reference, ${NAME}, and not the secret itself")
		}
		if _, twice := all["Authorization"]; twice {
			bad("key and the header Authorization are the same thing")
		}
		all["Authorization"] = Bearer(key)
	}
	for name, value := range all {
		if strings.ContainsAny(value.Reveal(), "\r\n\x00") {
			bad("%s: the value holds a line break", name)
		}
	}
	return all, errs
}

// Bearer returns the value of the header Authorization for a key.
func Bearer(key secret.String) secret.String {
	return secret.New("Bearer "+key.Ref(), "Bearer "+key.Reveal())
}

// Set adds the headers to those of a request.
func (all Headers) Set(h interface{ Set(name, value string) }) {
	for name, value := range all {
		h.Set(name, value.Reveal())
	}
}

// probeTimeout bounds Probe where its context does not.
const probeTimeout = 30 * time.Second

// Probe asks a server for its models. Any answer but a refused key, a redirect to another
// server or a server's error will do: not every server lists its models, or to every key.
func Probe(ctx context.Context, at *url.URL, dial func(ctx context.Context, network, addr string) (net.Conn, error), headers Headers) error {
	ctx, cancel := context.WithTimeoutCause(ctx, probeTimeout, fmt.Errorf("no answer within %v", probeTimeout))
	defer cancel()
	client := netguard.Client(dial, 0)
	client.CheckRedirect = netguard.SameServer
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.JoinPath("/v1/models").String(), http.NoBody)
	if err != nil {
		return err
	}
	headers.Set(req.Header)
	resp, err := client.Do(req)
	switch {
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("%s: %w", at.Host, context.Cause(ctx))
	case err != nil:
		return err
	}
	defer resp.Body.Close()
	switch status := resp.StatusCode; {
	case status == http.StatusUnauthorized:
		return fmt.Errorf("%s: %w: status %d", at.Host, backends.ErrRefused, status)
	case status >= 300 && status < 400:
		return fmt.Errorf("%s redirects to %q: write that URL", at.Host, redacted(resp.Header.Get("Location")))
	case status >= 500:
		return fmt.Errorf("%s: status %d", at.Host, status)
	}
	return nil
}

// redacted returns a URL without what may be secret in it.
func redacted(location string) string {
	u, err := url.Parse(location)
	if err != nil {
		return "?"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}
