package published

import (
	"fmt"
	"slices"
	"strings"
)

const (
	maxDisorder = 1e-3 // of a percentile: less is rounding
	maxApart    = 0.10 // by which a rate may differ from its number by the duration
	maxLittle   = 1.1  // of the concurrency
	atOnce      = 0.01 // of the duration
	minSent     = 10   // requests that are many at once
)

// implausible finds figures that cannot be, whatever the server did.
func implausible(l *load) (State, string, func(figure) bool) {
	spoilt := make(map[string]bool)
	var texts []string
	for _, of := range []func(*load) (string, []string){nothings, disorder, wrongRates} {
		if text, names := of(l); len(names) > 0 {
			texts = append(texts, text)
			for _, name := range names {
				spoilt[name] = true
			}
		}
	}
	if len(texts) == 0 {
		return OK, "no figure is 0 or without end, no percentile is below a lower one, and rates are their numbers by the duration", none
	}
	return Bad, strings.Join(texts, "; "), func(f figure) bool { return spoilt[f.name] }
}

// nothings finds latencies and rates that are 0, less, or no number. If the mean
// is, so is all that is said of that latency.
func nothings(l *load) (text string, names []string) {
	families := make(map[string]bool)
	spoil := func(f figure, is string) {
		if names = append(names, f.name); text == "" {
			text = f.name + " is " + is
		}
		families[f.family] = families[f.family] || f.latency() && f.mean()
	}
	for _, f := range l.all {
		// A deviation may be 0, and so may a gap between chunks that were read together.
		least := f.mean() || f.p > 0 && f.kind != gap && f.kind != chunk
		switch {
		case !finite(f.value) && f.value > 0:
			spoil(f, "infinite")
		case !finite(f.value):
			spoil(f, "no number")
		case f.value < 0 || f.value == 0 && least && f.kind != peak && (f.latency() || l.completed != 0):
			spoil(f, number(f.value))
		}
	}
	for _, f := range l.all {
		if families[f.family] && !slices.Contains(names, f.name) {
			names = append(names, f.name)
		}
	}
	return text, names
}

// disorder finds percentiles that are below one of a lower rank.
func disorder(l *load) (text string, names []string) {
	last := make(map[string]figure)
	for _, f := range l.all { // of a kind the lowest percentile first
		if !f.latency() || f.p == 0 || f.value <= 0 || !finite(f.value) || f.family == "intvty" {
			continue // an interactivity falls as its time per token grows
		}
		lower, ok := last[f.family]
		if ok && lower.p < f.p && f.value < lower.value*(1-maxDisorder) {
			names = append(names, lower.name, f.name)
			if text == "" {
				text = fmt.Sprintf("%s is %s and %s is %s", f.name, number(f.value), lower.name, number(lower.value))
			}
			continue
		}
		last[f.family] = f
	}
	return text, names
}

// wrongRates finds rates that are not their number by the duration.
func wrongRates(l *load) (text string, names []string) {
	if !finite(l.duration) || l.duration <= 0 {
		return "", nil
	}
	for _, r := range l.rates {
		i := slices.IndexFunc(l.all, func(f figure) bool { return f.name == r.figure })
		if i < 0 || !finite(r.of) || r.of <= 0 || !finite(l.all[i].value) {
			continue
		}
		want, is := r.of/l.duration, l.all[i].value
		if is < want*(1-maxApart) || is > want*(1+maxApart) {
			names = append(names, r.figure)
			if text == "" {
				text = fmt.Sprintf("%s is %s, and %s %s in %s s are %s (bound %s %%)", r.figure, number(is), number(r.of), r.word, number(l.duration), number(want), number(maxApart*100))
			}
		}
	}
	return text, names
}

func sentAtOnce(l *load) (State, string, func(figure) bool) {
	starts := l.of(func(r request) float64 { return r.start })
	switch {
	case l.rate > 0:
		return OK, "requests were sent at a rate", none
	case len(starts) >= minSent && len(starts) == l.completed && finite(l.duration):
		span := starts[len(starts)-1] - starts[0]
		text := fmt.Sprintf("%d requests were sent within %s ms of %s s", len(starts), number(span*1e3), number(l.duration))
		if span < atOnce*l.duration {
			return Remark, text, none
		}
		return OK, text, none
	case l.concurrency > 0 && l.completed >= minSent:
		text := fmt.Sprintf("%d requests at concurrency %d", l.completed, l.concurrency)
		if l.concurrency >= l.completed {
			return Remark, text, none
		}
		return OK, text, none
	}
	return Undecided, "the file says neither a concurrency nor when requests were sent", none
}

func moreThanInFlight(l *load) (State, string, func(figure) bool) {
	e2e := l.e2eMean
	if list := l.of(func(r request) float64 { return r.end - r.start }); !finite(e2e) && len(list) == l.completed {
		sum := 0.0
		for _, v := range list {
			sum += v
		}
		e2e = sum / float64(len(list))
	}
	if !l.closed() || l.completed <= 0 || !finite(l.duration) || l.duration <= 0 || !finite(e2e) {
		return Undecided, "the file does not say the concurrency, the duration and the mean latency", none
	}
	inFlight := float64(l.completed) / l.duration * e2e
	text := fmt.Sprintf("rate times latency are %.2f requests in flight of %d (bound %s %%)", inFlight, l.concurrency, number(maxLittle*100))
	if inFlight > maxLittle*float64(l.concurrency) {
		return Remark, text, none
	}
	return OK, text, none
}
