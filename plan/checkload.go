package plan

import (
	"maps"
	"net/textproto"
	"slices"
	"strings"

	"sweep.dev/sweep/plan/internal/syntax"
)

// loadPaths says where each load axis stands when it is no axis.
func loadPath(axis string) []string {
	switch axis {
	case "concurrency", "request_rate", "max_tokens":
		return path("load", axis)
	case "input_tokens", "shared_prefix":
		return path("load", "prompts", axis)
	}
	return nil
}

// given says whether the plan gives a load axis a value, here or there.
func (l *loader) given(axis string) bool {
	return l.has("matrix", axis) || l.has(loadPath(axis)...)
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

func (l *loader) checkLoop(p *Plan) {
	closed, open := l.given("concurrency"), l.given("request_rate")
	switch {
	case closed && open:
		l.conflict("a closed loop has concurrency, an open loop has request_rate (and max_in_flight)", l.where("request_rate"),
			"a load has a concurrency or a request_rate, not both")
	case !closed && !open:
		l.missing("the load has neither a concurrency nor a request_rate", "an axis concurrency: [1, 8, 32], or load.concurrency, or request_rate in either place", "load")
		return
	}
	ld := &p.Load
	if open {
		for _, key := range []string{"think_time", "requests_per_worker"} {
			if l.has("load", key) {
				l.ignored("an open loop has no workers", "", "load", key)
			}
		}
		if ld.Arrivals == "" {
			ld.Arrivals = "poisson"
		}
		switch {
		case ld.Arrivals != "gamma" && l.has("load", "burstiness"):
			l.ignored("it is the shape of gamma arrivals", "write arrivals: gamma", "load", "burstiness")
		case ld.Arrivals == "gamma" && ld.Burstiness == 0:
			ld.Burstiness = 1
		}
		return
	}
	for _, key := range []string{"arrivals", "burstiness", "max_in_flight"} {
		if l.has("load", key) {
			l.ignored("a closed loop sends when a request has ended", "give a request_rate in place of concurrency", "load", key)
		}
	}
}

func (l *loader) checkAmount(*Plan) {
	requests, each, duration := l.has("load", "requests"), l.has("load", "requests_per_worker"), l.has("load", "duration")
	switch {
	case requests && each:
		l.conflict("keep one of them", path("load", "requests_per_worker"), "load has both requests and requests_per_worker")
	case !requests && !each && !duration:
		l.missing("nothing says when a trial ends", "load.requests, load.requests_per_worker or load.duration", "load")
	}
}

func (l *loader) checkMaxTokens(*Plan) {
	if !l.given("max_tokens") {
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
	headers := l.root.Get("load").Get("headers")
	if headers == nil {
		return
	}
	reserved := []string{"Accept", "Accept-Encoding", "Connection", "Content-Length", "Content-Type", "Host", "Transfer-Encoding", "User-Agent", "X-Request-Id"}
	seen := make(map[string]bool)
	for _, e := range headers.Entries {
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
}

// isToken is RFC 9110's token.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"(),/:;<=>?@[\\]{}", r)
	})
}
