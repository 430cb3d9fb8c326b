package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"sweep.dev/sweep/result"
)

// Why a request ended that did not end by itself.
var (
	ErrPlanned  = errors.New("cancelled as the plan has it")
	ErrDeadline = errors.New("deadline of the request")
	ErrDrained  = errors.New("the time to drain is over")
	ErrEnough   = errors.New("answer complete")
	ErrTooLarge = errors.New("answer over its limit")
)

// ClassOfStatus returns the class of a status other than 200.
func ClassOfStatus(code int) string {
	switch {
	case code == 401, code == 403:
		return result.ErrAuth
	case code == 408, code == 429, code == 503, code == 529:
		return result.ErrOverload
	case code == 400, code == 404, code == 422:
		return result.ErrRejected
	case code == 502, code >= 520 && code <= 524:
		return result.ErrProxy
	case code >= 500:
		return result.ErrServer
	}
	return result.ErrHTTP
}

// ClassOfError returns the class of an error of net/http, before the answer or
// within it. net/http has no types for answers that are not HTTP.
func ClassOfError(err error) string {
	var connect *ConnectError
	text := err.Error()
	switch {
	case errors.As(err, &connect):
		return result.ErrConnect
	case errors.Is(err, ErrTooLarge):
		return result.ErrProtocol
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return result.ErrReset
	case strings.Contains(text, "malformed"), strings.Contains(text, "chunk length"),
		strings.Contains(text, "chunked"), strings.Contains(text, "server response headers exceeded"),
		strings.Contains(text, "bad Content-Length"), strings.Contains(text, "unsupported transfer encoding"):
		return result.ErrProtocol
	}
	return result.ErrReset
}

// StatusText says what a server said with a status other than 200.
func StatusText(code int, retryAfter string, body []byte) string {
	text := fmt.Sprintf("HTTP %d", code)
	var v map[string]any
	switch {
	case json.Unmarshal(body, &v) == nil && v != nil:
		text += ": " + errorText(v)
	case len(body) > 0:
		text += ": " + string(body)
	}
	if retryAfter != "" {
		text += " (retry after " + retryAfter + ")"
	}
	return Clip(text)
}

// A ConnectError is a request that got no connection.
type ConnectError struct{ Err error }

func (e *ConnectError) Error() string { return e.Err.Error() }
func (e *ConnectError) Unwrap() error { return e.Err }

const maxErrorText = 400

// Clip makes one short, printable line of what a server said.
func Clip(s string) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
	s = strings.TrimSpace(s)
	if len(s) <= maxErrorText {
		return strings.Clone(s) // and not all that it was cut out of
	}
	return cut(s, maxErrorText) + "..."
}

// cut returns the beginning of s, which is longer than n bytes: at most n, and no part
// of a character.
func cut(s string, n int) string {
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
