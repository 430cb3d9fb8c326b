package exposition

import (
	"bytes"
	"hash/maphash"
	"math"
	"strings"
)

// direct reads a body that needs no repair: expfmt alone parses it. nil is one that
// needs it, or of which expfmt would lose or change anything without an error.
func direct(body []byte) *Exposition {
	families, lines := plain(string(body))
	if lines == 0 {
		return nil
	}
	parsed, err := parser().TextToMetricFamilies(bytes.NewReader(body))
	if err != nil {
		return nil
	}
	e := new(Exposition)
	for _, name := range families {
		if family := parsed[name]; family != nil {
			e.add(family)
		}
	}
	if e.values() != lines || e.twice() {
		return nil
	}
	return e
}

// plain looks through a body whose lines all stand as a client library writes them:
// samples under their TYPE, bare names, no blank if none has to be. It returns the
// names of the families, in the order of their first samples, and how many lines say
// a value; 0 for every other body. What stands between the quotes and behind the name
// is left to expfmt.
func plain(body string) (families []string, lines int) {
	var family, kind string
	var begun bool
	for line := range strings.Lines(body) {
		line, ok := strings.CutSuffix(line, "\n")
		if !ok || len(line) > maxLine {
			return nil, 0
		}
		switch {
		case line == "":
		case line[0] == '#':
			comment := strings.TrimLeft(line[1:], " \t")
			if !strings.HasPrefix(comment, "TYPE") {
				continue
			}
			family, kind, ok = strings.Cut(strings.TrimPrefix(line, "# TYPE "), " ")
			if !ok || family == "" || !isBare(family) || !isKind(kind) {
				return nil, 0
			}
			begun = false
		default:
			if !plainSample(line, family, kind) || lines == maxSeries {
				return nil, 0
			}
			if !begun {
				families, begun = append(families, family), true
			}
			lines++
		}
	}
	return families, lines
}

// suffixes are what a family's samples may have behind its name, by its kind.
var suffixes = map[string][]string{"histogram": {"_bucket", "_sum", "_count"}, "summary": {"_sum", "_count"}}

func plainSample(line, family, kind string) bool {
	rest, ok := strings.CutPrefix(line, family)
	if !ok || family == "" {
		return false
	}
	suffix := ""
	for _, s := range suffixes[kind] {
		if r, has := strings.CutPrefix(rest, s); has {
			rest, suffix = r, s
			break
		}
	}
	if strings.HasPrefix(rest, "{") {
		if rest, ok = plainLabels(rest[1:]); !ok {
			return false
		}
	}
	if len(rest) < 2 || rest[0] != ' ' {
		return false
	}
	switch kind + suffix {
	case "histogram": // is a bucket to expfmt, if it has a bound
		return false
	case "summary_count": // expfmt makes some whole number of any other
		return rest[1] >= '0' && rest[1] <= '9'
	}
	return true
}

// plainLabels reads from behind the opening brace to behind the closing one.
func plainLabels(rest string) (string, bool) {
	var le, quantile bool // expfmt does not mind that one stands twice
	for n := 0; !strings.HasPrefix(rest, "}"); n++ {
		name, value, ok := strings.Cut(rest, `="`)
		if !ok || name == "" || !isBare(name) || n == maxLabels || name == "le" && le || name == "quantile" && quantile {
			return "", false
		}
		le, quantile = le || name == "le", quantile || name == "quantile"
		end := 0
		for end < len(value) && value[end] != '"' {
			if value[end] == '\\' {
				end++
			}
			end++
		}
		if end >= len(value) {
			return "", false
		}
		rest = value[end+1:]
		if next, comma := strings.CutPrefix(rest, ","); comma {
			rest = next
		} else if !strings.HasPrefix(rest, "}") {
			return "", false
		}
	}
	return rest[1:], true
}

// values counts what lines have said: one that expfmt has passed over is missing.
func (e *Exposition) values() int {
	n := len(e.Points)
	for _, h := range e.Histograms {
		n += len(h.Buckets)
		if !math.IsNaN(h.Sum) {
			n++
		}
		if !math.IsNaN(h.Count) {
			n++
		}
	}
	return n
}

// twice reports whether a series may stand twice, or that a bucket counts what cannot be
// counted.
func (e *Exposition) twice() bool {
	seed := maphash.MakeSeed()
	seen := make(map[uint64]bool, len(e.Points))
	for _, p := range e.Points {
		var h maphash.Hash
		h.SetSeed(seed)
		maphash.WriteComparable(&h, p.Name)
		for _, l := range p.Labels {
			maphash.WriteComparable(&h, l)
		}
		key := h.Sum64()
		if seen[key] {
			return true
		}
		seen[key] = true
	}
	for _, h := range e.Histograms {
		for i, b := range h.Buckets {
			if i > 0 && b.Le == h.Buckets[i-1].Le || math.IsInf(b.Count, 0) || math.IsNaN(b.Count) {
				return true
			}
		}
		if math.IsInf(h.Count, 0) {
			return true
		}
	}
	return false
}
