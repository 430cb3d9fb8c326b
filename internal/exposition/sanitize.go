package exposition

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// maxSeries bounds what one body may make us keep.
	maxSeries = 100_000
	// maxLine bounds one line of a body, in bytes.
	maxLine = 64 << 10
	// maxLabels bounds the labels of a series: for each of them, expfmt goes through
	// all that came before it.
	maxLabels = 100
)

// A rawSample is one line of a body that says a value.
type rawSample struct {
	name   string
	labels []Label // sorted by name
	value  float64
}

func (s rawSample) label(name string) (string, bool) {
	for _, l := range s.labels {
		if l.Name == name {
			return l.Value, true
		}
	}
	return "", false
}

// A rawFamily is what stands under one TYPE.
type rawFamily struct {
	name, kind string
	samples    []rawSample
	index      map[string]int // place in samples by name and labels
}

// sanitized is a body in the strict form that expfmt reads without an error.
type sanitized struct {
	families   []*rawFamily // in the order of their first sample
	lines      int          // lines that said a value
	dropped    int          // of all lines, those that could not be read
	unread     []Line       // the first of those
	duplicates int          // series that stood twice; the last one counts
}

// drop counts a line that cannot be read.
func (out *sanitized) drop(n int, line []byte) {
	if out.dropped++; len(out.unread) < maxUnread {
		out.unread = append(out.unread, Line{n, strings.ToValidUTF8(string(line[:min(len(line), maxUnreadText)]), "?")})
	}
}

// sanitize reads a body line by line, so that one bad line costs one line. It
// settles what the strict reader gives a whole body up for: CRLF, a missing
// final newline, a byte order mark, HELP or TYPE twice or after the samples,
// types and comments of OpenMetrics, exemplars, float timestamps, -nan, label
// values with bad escapes or bytes. HELP and timestamps are not kept.
func sanitize(body []byte) sanitized {
	var samples []rawSample
	out := sanitized{}
	types := make(map[string]string)
	n := 0
	for line := range bytes.Lines(bytes.TrimPrefix(body, []byte("\ufeff"))) {
		n++
		line = bytes.Trim(line, " \t\r\n")
		switch {
		case len(line) == 0:
		case line[0] == '#':
			if name, kind, ok := typeLine(string(line)); ok {
				types[name] = kind
			}
		case len(line) > maxLine || out.lines >= maxSeries:
			out.drop(n, line)
		default:
			s, ok := sampleLine(string(line))
			if !ok {
				out.drop(n, line)
				continue
			}
			out.lines++
			samples = append(samples, s)
		}
	}
	inferHistograms(samples, types)
	out.group(samples, types)
	return out
}

// typeLine reads "# TYPE name kind". Kinds that the text format does not have
// become untyped.
func typeLine(line string) (name, kind string, ok bool) {
	f := strings.Fields(strings.TrimPrefix(line, "#"))
	if len(f) != 3 || f[0] != "TYPE" {
		return "", "", false
	}
	if kind = strings.ToLower(f[2]); !isKind(kind) {
		kind = "untyped"
	}
	return strings.Trim(f[1], `"`), kind, true
}

func isKind(kind string) bool {
	switch kind {
	case "counter", "gauge", "histogram", "summary", "untyped":
		return true
	}
	return false
}

// inferHistograms finds histograms whose TYPE is missing by their buckets.
func inferHistograms(samples []rawSample, types map[string]string) {
	for _, s := range samples {
		base, isBucket := strings.CutSuffix(s.name, "_bucket")
		if !isBucket || types[s.name] != "" || types[base] != "" {
			continue
		}
		if _, ok := bound(s, "le"); ok {
			types[base] = "histogram"
		}
	}
}

// group files every sample under its family and drops those that their family
// cannot have.
func (out *sanitized) group(samples []rawSample, types map[string]string) {
	families := make(map[string]*rawFamily)
	for _, s := range samples {
		name, kind, ok := familyOf(s, types)
		if ok {
			ok = fit(&s, name, kind)
		}
		if !ok {
			out.dropped++
			out.lines--
			continue
		}
		f := families[name]
		if f == nil {
			f = &rawFamily{name: name, kind: kind, index: make(map[string]int)}
			families[name] = f
			out.families = append(out.families, f)
		}
		key := s.name + "{" + LabelString(s.labels)
		if i, twice := f.index[key]; twice {
			out.duplicates++
			f.samples[i] = s
			continue
		}
		f.index[key] = len(f.samples)
		f.samples = append(f.samples, s)
	}
}

// familyOf finds the TYPE that a sample stands under.
func familyOf(s rawSample, types map[string]string) (name, kind string, ok bool) {
	if kind := types[s.name]; kind != "" {
		return s.name, kind, true
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		base, has := strings.CutSuffix(s.name, suffix)
		if !has {
			continue
		}
		switch kind := types[base]; {
		case kind == "histogram", kind == "summary" && suffix != "_bucket":
			return base, kind, true
		}
	}
	// OpenMetrics names the family of x_total and x_created plainly x.
	if base, has := strings.CutSuffix(s.name, "_total"); has && types[base] == "counter" {
		return s.name, "counter", true
	}
	if base, has := strings.CutSuffix(s.name, "_created"); has && types[base] != "" {
		return s.name, "gauge", true
	}
	return s.name, "untyped", true
}

// fit checks a sample against its family, and writes its bound in one form, so
// that le="1" and le="1.0" are the same bucket.
func fit(s *rawSample, family, kind string) bool {
	switch kind {
	case "histogram":
		if s.name == family {
			return false
		}
		if s.name == family+"_sum" {
			return true
		}
		// A count that is no count would be read as some other number.
		if s.value < 0 || math.IsNaN(s.value) || math.IsInf(s.value, 0) {
			return false
		}
		return s.name == family+"_count" || normalize(s, "le")
	case "summary":
		switch s.name {
		case family:
			return normalize(s, "quantile")
		case family + "_count":
			return s.value >= 0 && !math.IsInf(s.value, 0)
		}
	}
	return true
}

func bound(s rawSample, label string) (float64, bool) {
	text, ok := s.label(label)
	if !ok {
		return 0, false
	}
	v, ok := ParseValue(text)
	return v, ok && !math.IsNaN(v)
}

func normalize(s *rawSample, label string) bool {
	v, ok := bound(*s, label)
	if !ok {
		return false
	}
	s.labels = slices.Clone(s.labels)
	for i := range s.labels {
		if s.labels[i].Name == label {
			s.labels[i].Value = FormatValue(v)
		}
	}
	return true
}

// sampleLine reads "name{label="value",...} value [timestamp] [# exemplar]".
func sampleLine(line string) (rawSample, bool) {
	var s rawSample
	rest := line
	s.name, rest = bareName(rest)
	rest = strings.TrimLeft(rest, " \t")
	if strings.HasPrefix(rest, "{") {
		var ok bool
		if rest, ok = labelSet(&s, rest[1:]); !ok {
			return s, false
		}
	}
	if s.name == "" {
		return s, false
	}
	rest, _, _ = strings.Cut(rest, "#") // an exemplar; a value holds no #
	f := strings.Fields(rest)
	if len(f) == 0 || len(f) > 2 {
		return s, false
	}
	v, ok := ParseValue(f[0])
	if !ok {
		return s, false
	}
	if len(f) == 2 {
		if _, ok := ParseValue(f[1]); !ok {
			return s, false
		}
	}
	s.value = v
	return s, true
}

// bareName cuts a metric or label name off the front of s.
func bareName(s string) (name, rest string) {
	i := 0
	for i < len(s) {
		c := s[i]
		if c == '_' || c == ':' || c|0x20 >= 'a' && c|0x20 <= 'z' || i > 0 && c >= '0' && c <= '9' {
			i++
			continue
		}
		break
	}
	return s[:i], s[i:]
}

// labelSet reads from behind the opening brace to behind the closing one. A
// first quoted string without a value is the metric's name, as in UTF-8 mode.
func labelSet(s *rawSample, rest string) (string, bool) {
	for {
		rest = strings.TrimLeft(rest, " \t")
		if strings.HasPrefix(rest, "}") {
			slices.SortFunc(s.labels, func(a, b Label) int { return strings.Compare(a.Name, b.Name) })
			for i := 1; i < len(s.labels); i++ {
				if s.labels[i].Name == s.labels[i-1].Name {
					return "", false
				}
			}
			return rest[1:], true
		}
		var l Label
		var ok bool
		quoted := strings.HasPrefix(rest, `"`)
		if quoted {
			l.Name, rest, ok = quotedString(rest[1:])
		} else {
			l.Name, rest = bareName(rest)
			ok = !strings.Contains(l.Name, ":")
		}
		if !ok || l.Name == "" || l.Name == "__name__" {
			return "", false
		}
		rest = strings.TrimLeft(rest, " \t")
		if quoted && s.name == "" && !strings.HasPrefix(rest, "=") {
			s.name = l.Name
		} else {
			value, found := strings.CutPrefix(rest, "=")
			value, opens := strings.CutPrefix(strings.TrimLeft(value, " \t"), `"`)
			if !found || !opens {
				return "", false
			}
			if l.Value, rest, ok = quotedString(value); !ok || len(s.labels) == maxLabels {
				return "", false
			}
			s.labels = append(s.labels, l)
		}
		rest = strings.TrimLeft(rest, " \t")
		if next, comma := strings.CutPrefix(rest, ","); comma {
			rest = next
		} else if !strings.HasPrefix(rest, "}") {
			return "", false
		}
	}
}

// quotedString reads from behind the opening quote. An escape that the format
// does not have stands for itself (C:\Windows), bad bytes become U+FFFD.
func quotedString(s string) (text, rest string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return strings.ToValidUTF8(b.String(), string(utf8.RuneError)), s[i+1:], true
		case c == '\\' && i+1 < len(s):
			i++
			switch s[i] {
			case 'n':
				b.WriteByte('\n')
			case '\\', '"':
				b.WriteByte(s[i])
			default:
				b.WriteByte('\\')
				b.WriteByte(s[i])
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", "", false
}

// ParseValue reads a number as the format knows it, and C's spellings of not a
// number. Go's hexadecimal and underscored numbers are no numbers here, nor is
// what does not fit into a float64.
func ParseValue(s string) (float64, bool) {
	if strings.ContainsAny(s, "xXpP_") {
		return 0, false
	}
	if t := strings.TrimLeft(s, "+-"); len(s)-len(t) <= 1 && strings.EqualFold(t, "nan") {
		return math.NaN(), true
	}
	v, err := strconv.ParseFloat(s, 64)
	return v, err == nil
}

// FormatValue writes a number as the format knows it.
func FormatValue(v float64) string {
	switch {
	case math.IsInf(v, 1):
		return "+Inf"
	case math.IsInf(v, -1):
		return "-Inf"
	case math.IsNaN(v):
		return "NaN"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// text writes families in the strict text format.
func text(families []*rawFamily) []byte {
	var b bytes.Buffer
	for _, f := range families {
		b.WriteString("# TYPE ")
		writeName(&b, f.name)
		b.WriteString(" " + f.kind + "\n")
		for _, s := range f.samples {
			plain := isBare(s.name)
			if plain {
				b.WriteString(s.name)
			}
			b.WriteByte('{')
			if !plain {
				writeName(&b, s.name)
				b.WriteByte(',')
			}
			for i, l := range s.labels {
				if i > 0 {
					b.WriteByte(',')
				}
				writeName(&b, l.Name)
				b.WriteByte('=')
				writeQuoted(&b, l.Value)
			}
			b.WriteString("} " + FormatValue(s.value) + "\n")
		}
	}
	return b.Bytes()
}

func isBare(name string) bool {
	_, rest := bareName(name)
	return rest == ""
}

func writeName(b *bytes.Buffer, name string) {
	if isBare(name) {
		b.WriteString(name)
		return
	}
	writeQuoted(b, name)
}

var escaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func writeQuoted(b *bytes.Buffer, s string) {
	b.WriteByte('"')
	b.WriteString(escaper.Replace(s))
	b.WriteByte('"')
}

// LabelString returns the canonical form of a label set: k="v" pairs sorted by
// name, joined by commas.
func LabelString(labels []Label) string {
	var b bytes.Buffer
	for i, l := range labels {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(l.Name)
		b.WriteByte('=')
		writeQuoted(&b, l.Value)
	}
	return b.String()
}
