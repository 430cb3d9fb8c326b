package plan

import (
	"maps"
	"net/textproto"
	"regexp"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/plan/internal/strict"
)

// loadPath says where a load axis stands when it is no axis; nil for others.
func loadPath(axis string) []string {
	kind, _ := lookupAxis(axis)
	return kind.path()
}

// given says whether the plan gives a load axis a value, here or there.
func (l *loader) given(axis string) bool {
	return l.has("matrix", axis) || l.has(loadPath(axis)...)
}

// mistyped says whether another word was most likely meant to give it one.
func (l *loader) mistyped(axis string) bool {
	return l.Mistyped["matrix."+axis] || l.Mistyped[strings.Join(loadPath(axis), ".")]
}

// where is the key that gives a load axis its value.
func (l *loader) where(axis string) []string {
	if l.has("matrix", axis) {
		return path("matrix", axis)
	}
	return loadPath(axis)
}

func (l *loader) checkAxesOfLoad(*Plan) {
	for _, axis := range axisNames() {
		if keys := loadPath(axis); keys != nil && l.has("matrix", axis) && l.has(keys...) {
			l.conflict("keep one of them", keys, "%s is also an axis of the matrix", strings.Join(keys, "."))
		}
	}
}

func (l *loader) checkAmount(p *Plan) {
	if w := &p.Load.Warmup; w.Duration > 0 && !l.has("load", "warmup", "requests") {
		w.Requests = 0
		if pr := p.Load.Prompts; pr.Kind != PromptsSynthetic && pr.Reuse != ReuseAllowed {
			l.missing("a warm-up by time alone takes nobody knows how many of the given prompts", "load.warmup.requests beside it, or reuse: allowed", "load", "warmup")
		}
	}
	requests, each, duration := l.has("load", "requests"), l.has("load", "requests_per_worker"), l.has("load", "duration")
	switch {
	case requests || each || duration || l.Mistyped["load.requests"] || l.Mistyped["load.duration"] || slices.ContainsFunc(patterns(), func(way pattern) bool { return way.ends && l.has("load", way.key) }):
	case l.has("load", "until"):
		l.missing("load.until has no cap: a metric may never be known well enough", "load.requests, load.requests_per_worker or load.duration", "load", "until")
	default:
		l.missing("nothing says when a trial ends", "load.requests, load.requests_per_worker or load.duration", "load")
	}
}

// lengths says why input_tokens has nothing to say: "" where it has. known is
// false where the plan does not tell yet.
func (l *loader) lengths(p *Plan) (why string, known bool) {
	switch t := p.Load.Trace; {
	case t != nil && t.Format == "":
		return "", false // reported
	case t.Lengths():
		return "the trace says how long each prompt is", true
	case p.Load.Prompts.Distribution == Empirical:
		return "each pair says how long its prompt is", true
	}
	return "", true
}

func (l *loader) checkMaxTokens(p *Plan) {
	if brought, known := l.lengths(p); known && brought == "" && !l.given("max_tokens") && !l.mistyped("max_tokens") {
		l.missing("nothing says how long an answer may be", "load.max_tokens or the axis max_tokens", "load")
	}
}

func (l *loader) checkSampling(p *Plan) {
	ld := &p.Load
	ignore := ld.Sampling.IgnoreEOS
	exact := ld.Output == OutputExact || ignore != nil && *ignore
	switch {
	case ld.Output == OutputNatural && ignore != nil && *ignore:
		l.conflict("keep output", path("load", "sampling", "ignore_eos"), "output: natural and ignore_eos: true contradict each other")
	case ld.Output == OutputExact && ignore != nil && !*ignore:
		l.conflict("keep output", path("load", "sampling", "ignore_eos"), "output: exact and ignore_eos: false contradict each other")
	case exact && len(ld.Sampling.Stop) > 0:
		l.conflict("write output: natural", path("load", "sampling", "stop"), "an output of exactly max_tokens cannot end at a stop text")
	case exact:
		at := path("load", "output")
		if ld.Output == "" {
			at = path("load", "sampling", "ignore_eos")
		}
		for _, key := range slices.Sorted(maps.Keys(l.profiles)) {
			if !l.profiles[key].API.IgnoreEOS {
				l.conflict("write output: natural, or leave it out", at, "the engine %s knows no ignore_eos: its outputs cannot be exact", key)
			}
		}
	}
	if n, ok := l.root.At("load", "sampling", "stop"); ok && n.Kind == syntax.List && len(n.Items) > 4 {
		l.Report.Node(n, "value", "load.sampling.stop has %d texts", len(n.Items)).Expected = "at most 4, as the API has it"
	}
}

// bodyOwner says which key of a plan sets a field of a request's body.
func bodyOwner(field string) string {
	return map[string]string{
		"model": "model", "messages": "load.prompts", "prompt": "load.prompts", "stream": "load.stream",
		"stream_options": "load.stream", "max_tokens": "load.max_tokens", "max_completion_tokens": "load.max_tokens",
		"temperature": "load.sampling.temperature", "top_p": "load.sampling.top_p", "seed": "load.sampling.seed",
		"stop": "load.sampling.stop", "ignore_eos": "load.output", "min_tokens": "load.output",
	}[field]
}

func (l *loader) checkBody(*Plan) {
	body := l.root.Get("load").Get("body")
	if body == nil {
		return
	}
	for _, e := range body.Entries {
		if owner := bodyOwner(e.Key.Text); owner != "" {
			l.Report.Node(e.Key, "reserved", "sweep sets %s of every request itself", e.Key.Text).Hint = "the plan's key for it is " + owner
		}
		if e.Key.Text == "n" && e.Value.Text != "1" {
			l.Report.Node(e.Key, "reserved", "one request has one answer: n is always 1")
		}
	}
}

func (l *loader) checkHeaders(*Plan) {
	seen := make(map[string]bool)
	for _, key := range []string{"headers", "request_headers"} {
		n := l.root.Get("load").Get(key)
		if n == nil {
			continue
		}
		for _, e := range n.Entries {
			l.checkHeader(e, seen)
			if key == "request_headers" {
				l.checkRequestHeader(e)
			}
		}
	}
}

func (l *loader) checkHeader(e syntax.Entry, seen map[string]bool) {
	reserved := []string{
		"Accept", "Accept-Encoding", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Expect", "Host",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade", "User-Agent", "X-Request-Id",
	}
	name := textproto.CanonicalMIMEHeaderKey(e.Key.Text)
	switch {
	case !isToken(e.Key.Text):
		l.Report.Node(e.Key, "value", "%q cannot be the name of a header", e.Key.Text)
	case slices.Contains(reserved, name):
		l.Report.Node(e.Key, "reserved", "sweep sets %s of every request itself", name)
	case seen[name]:
		l.Report.Node(e.Key, "duplicate", "the header %s is given twice", name)
	case strings.ContainsAny(e.Value.Text, "\r\n"):
		l.Report.Node(e.Value, "value", "the value of a header is one line")
	}
	seen[name] = true
}

// placeholder is what stands in braces in a request's own header. Any other
// brace is one.
var placeholder = regexp.MustCompile(`\{[a-z_]+\}`)

func (l *loader) checkRequestHeader(e syntax.Entry) {
	if strict.LooksSecret(e.Key.Text) {
		d := l.Report.Node(e.Key, "secret", "%s is a credential, and request_headers are written to files", e.Key.Text)
		d.Expected = "a credential in load.headers only, by reference"
	}
	if v := e.Value.Text; strings.Trim(v, " \t") != v || strings.ContainsFunc(v, func(r rune) bool { return (r < ' ' || r > '~') && r != '\t' && r != '\n' && r != '\r' }) {
		l.Report.Node(e.Value, "value", "the value of a request's own header is printable ASCII, without spaces around it")
	}
	names := []string{"n", "slot", "turn", "conversation", "max_tokens", "input_tokens"}
	found := placeholder.FindAllStringIndex(e.Value.Text, -1)
	for _, at := range found {
		whole := e.Value.Text[at[0]:at[1]]
		if at[0] > 0 && e.Value.Text[at[0]-1] == '$' {
			continue // a variable
		}
		name := strings.Trim(whole, "{}")
		from := len([]rune(e.Value.Text[:at[0]]))
		report := func(rule, format string, args ...any) *syntax.Diagnostic {
			return l.Report.At(e.Value.Src, e.Value.Offset(from, from+len([]rune(whole))), rule, format, args...)
		}
		switch {
		case !slices.Contains(names, name):
			d := report("placeholder", "%s is no placeholder", whole)
			d.Expected = "one of {" + strings.Join(names, "}, {") + "}"
			if near := syntax.Nearest(name, names); near != "" {
				d.Nearest = "{" + near + "}"
			}
		case name == "slot" && !l.given("concurrency"):
			report("no-effect", "{slot} is always 0: an open loop has no workers")
		case name == "turn" && !l.has("load", "conversation"):
			report("no-effect", "{turn} is always 0: the load has no conversations").Hint = "load.conversation: {turns: 4} makes some"
		case name == "input_tokens" && l.has("load", "prompts", "kind") && l.root.Get("load").Get("prompts").Get("kind").Text != PromptsSynthetic:
			report("no-effect", "{input_tokens} is known of synthetic prompts alone")
		}
	}
	if len(found) == 0 && e.Value.Kind == syntax.String {
		l.Report.Node(e.Value, "no-effect", "this header is the same in every request").Hint = "it belongs in load.headers"
	}
}

// isToken is RFC 9110's token.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"(),/:;<=>?@[\\]{}", r)
	})
}
