package rules

import (
	"net/textproto"
	"regexp"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/load/placeholder"
	"sweep.dev/sweep/plan/internal/file"
	"sweep.dev/sweep/plan/internal/strict"
)

// bodyOwner is the key of a plan that sets a field of a request's body.
var bodyOwner = map[string]string{
	"model": "model", "messages": "load.prompts", "prompt": "load.prompts", "stream": "load.stream",
	"stream_options": "load.stream", "max_tokens": "load.max_tokens", "max_completion_tokens": "load.max_tokens",
	"temperature": "load.sampling.temperature", "top_p": "load.sampling.top_p", "seed": "load.sampling.seed",
	"stop": "load.sampling.stop", "ignore_eos": "load.output", "min_tokens": "load.output",
}

func (c *Checked) body() {
	for _, e := range file.Entries(c.Root.Get("load").Get("body")) {
		if owner := bodyOwner[e.Key.Text]; owner != "" {
			c.Report.Node(e.Key, "reserved", "sweep sets %s of every request itself", e.Key.Text).Hint = "the plan's key for it is " + owner
		}
		if e.Key.Text == "n" && e.Value.Text != "1" {
			c.Report.Node(e.Key, "reserved", "one request has one answer: n is always 1")
		}
	}
}

func (c *Checked) headers() {
	seen := make(map[string]bool)
	for _, key := range []string{"headers", "request_headers"} {
		for _, e := range file.Entries(c.Root.Get("load").Get(key)) {
			c.header(e, seen)
		}
	}
}

func (c *Checked) header(e syntax.Entry, seen map[string]bool) {
	reserved := []string{
		"Accept", "Accept-Encoding", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Expect", "Host",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade", "User-Agent", "X-Request-Id",
	}
	name := textproto.CanonicalMIMEHeaderKey(e.Key.Text)
	switch {
	case !isToken(e.Key.Text):
		c.Report.Node(e.Key, "value", "%q cannot be the name of a header", e.Key.Text)
	case slices.Contains(reserved, name):
		c.Report.Node(e.Key, "reserved", "sweep sets %s of every request itself", name)
	case seen[name]:
		c.Report.Node(e.Key, "duplicate", "the header %s is given twice", name)
	case strings.ContainsAny(e.Value.Text, "\r\n"):
		c.Report.Node(e.Value, "value", "the value of a header is one line")
	}
	seen[name] = true
}

// braces are what a name stands in, in a request's own header. Any other
// brace is one.
var braces = regexp.MustCompile(`\{[a-z_]+\}`)

func (c *Checked) requestHeaders() {
	for _, e := range file.Entries(c.Root.Get("load").Get("request_headers")) {
		c.requestHeader(e)
	}
}

func (c *Checked) requestHeader(e syntax.Entry) {
	if strict.LooksSecret(e.Key.Text) {
		d := c.Report.Node(e.Key, "secret", "%s is a credential, and request_headers are written to files", e.Key.Text)
		d.Expected = "a credential in load.headers only, by reference"
	}
	if v := e.Value.Text; strings.Trim(v, " \t") != v || strings.ContainsFunc(v, func(r rune) bool { return (r < ' ' || r > '~') && r != '\t' && r != '\n' && r != '\r' }) {
		c.Report.Node(e.Value, "value", "the value of a request's own header is printable ASCII, without spaces around it")
	}
	names := placeholder.Names()
	found := braces.FindAllStringIndex(e.Value.Text, -1)
	for _, at := range found {
		whole := e.Value.Text[at[0]:at[1]]
		if at[0] > 0 && e.Value.Text[at[0]-1] == '$' {
			continue // a variable
		}
		name := strings.Trim(whole, "{}")
		from := len([]rune(e.Value.Text[:at[0]]))
		report := func(rule, format string, args ...any) *syntax.Diagnostic {
			return c.Report.At(e.Value.Src, e.Value.Offset(from, from+len([]rune(whole))), rule, format, args...)
		}
		switch {
		case !slices.Contains(names, name):
			d := report("placeholder", "%s is no placeholder", whole)
			d.Expected = "one of {" + strings.Join(names, "}, {") + "}"
			if near := syntax.Nearest(name, names); near != "" {
				d.Nearest = "{" + near + "}"
			}
		case name == "slot" && !c.Given("concurrency"):
			report("no-effect", "{slot} is always 0: an open loop has no workers")
		case name == "turn" && !c.Has("load", "conversation"):
			report("no-effect", "{turn} is always 0: the load has no conversations").Hint = "load.conversation: {turns: 4} makes some"
		case name == "input_tokens" && !synthetic(c):
			report("no-effect", "{input_tokens} is known of synthetic prompts alone")
		}
	}
	if len(found) == 0 && e.Value.Kind == syntax.String {
		c.Report.Node(e.Value, "no-effect", "this header is the same in every request").Hint = "it belongs in load.headers"
	}
}

// isToken is RFC 9110's token.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"(),/:;<=>?@[\\]{}", r)
	})
}
