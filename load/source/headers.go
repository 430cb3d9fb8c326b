package source

import (
	"fmt"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/placeholder"
	"sweep.dev/sweep/result"
)

// reserved are the fields of a request's head that only the drivers may set:
// another value would change what the request is, or how its answer is read.
var reserved = []string{
	"Accept", "Accept-Encoding", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Expect", "Host",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade", "User-Agent", "X-Request-Id",
}

// CheckHeaders says what in Headers cannot be: names that are none or are the
// drivers' own, values that would end their line, and unknown placeholders. A
// brace that no placeholder follows stands for itself.
func (c *Config) CheckHeaders() error {
	seen := map[string]bool{}
	for _, h := range c.Headers {
		name := textproto.CanonicalMIMEHeaderKey(h.Name)
		switch {
		case !isToken(h.Name):
			return fmt.Errorf("%q cannot be the name of a header", h.Name)
		case slices.Contains(reserved, name):
			return fmt.Errorf("the header %s is no request's own to set", name)
		case seen[name]:
			return fmt.Errorf("the header %s is given twice", name)
		case strings.ContainsFunc(h.Value, func(r rune) bool { return (r < ' ' || r > '~') && r != '\t' }):
			return fmt.Errorf("the value of the header %s is not one line of printable ASCII", name)
		case strings.Trim(h.Value, " \t") != h.Value:
			return fmt.Errorf("the value of the header %s begins or ends with a space", name)
		}
		seen[name] = true
		for _, p := range parts(h.Value) {
			if p.name && !slices.Contains(placeholder.Names(), p.text) {
				return fmt.Errorf("the header %s has the placeholder {%s}, which is none of %s", name, p.text, strings.Join(placeholder.Names(), ", "))
			}
		}
	}
	return nil
}

// isToken is RFC 9110's token.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"(),/:;<=>?@[\\]{}", r)
	})
}

// A part of a template is text, or the name of a placeholder.
type part struct {
	text string
	name bool
}

// parts takes a template apart. A placeholder is lower case letters and _ in
// braces.
func parts(s string) []part {
	var out []part
	text := 0 // if what was not taken yet begins
	for i := 0; i < len(s); i++ {
		if s[i] != '{' {
			continue
		}
		n := len(s[i+1:]) - len(strings.TrimLeft(s[i+1:], "abcdefghijklmnopqrstuvwxyz_"))
		if end := i + 1 + n; n > 0 && end < len(s) && s[end] == '}' {
			out = append(out, part{text: s[text:i]}, part{s[i+1 : end], true})
			text, i = end+1, end
		}
	}
	return append(out, part{text: s[text:]})
}

// headers fills in templates.
type headers struct {
	names     []string
	templates [][]part
	session   string // what the names of conversations begin with
}

func (c *Config) headers(phase result.Phase) headers {
	h := headers{}
	if len(c.Headers) == 0 {
		return h
	}
	hi, _ := c.own(fmt.Sprintf("conversations %s %d", phase, max(1, c.Attempt)))
	h.session = fmt.Sprintf("%016x-", hi^c.Salt)
	for _, t := range c.Headers {
		h.names = append(h.names, t.Name)
		h.templates = append(h.templates, parts(t.Value))
	}
	return h
}

// of returns the headers of a job.
func (h *headers) of(j *load.Job, slot, conversation int) []load.Header {
	if len(h.names) == 0 {
		return nil
	}
	out := make([]load.Header, len(h.names))
	for i, name := range h.names {
		var b []byte
		for _, p := range h.templates[i] {
			if !p.name {
				b = append(b, p.text...)
				continue
			}
			switch p.text {
			case "n":
				b = strconv.AppendInt(b, int64(j.N), 10)
			case "slot":
				b = strconv.AppendInt(b, int64(slot), 10)
			case "turn":
				b = strconv.AppendInt(b, int64(j.Turn), 10)
			case "conversation":
				b = strconv.AppendInt(append(b, h.session...), int64(conversation), 10)
			case "max_tokens":
				b = strconv.AppendInt(b, int64(j.MaxTokens), 10)
			case "input_tokens":
				if t := j.Prompt.Target; t != result.Unknown {
					b = strconv.AppendInt(b, int64(t), 10)
				}
			}
		}
		out[i] = load.Header{Name: name, Value: string(b)}
	}
	return out
}
