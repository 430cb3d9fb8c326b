// Package exposition reads what servers expose in the text format of Prometheus or
// of OpenMetrics, tolerantly: real engines send bodies that a strict reader
// refuses as a whole for one line. What it takes as it is goes to expfmt alone; the
// rest is repaired line by line before.
package exposition

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"unicode/utf16"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// MaxBody bounds one body, unpacked: 25 times its size is needed to read it, so 260 MB.
const MaxBody = 10 << 20

// Errors of Parse that a caller may want to tell apart.
var (
	ErrTruncated = errors.New("the body ends before its end")
	ErrNoMetrics = errors.New("the body holds no metrics")
)

// A Label is one name and value of a series.
type Label struct{ Name, Value string }

// A Point is one value: a counter, a gauge, an untyped series, or one quantile,
// the sum or the count of a summary.
type Point struct {
	Name   string
	Kind   string // counter, gauge, untyped or summary
	Labels []Label
	Value  float64
}

// A Bucket of a histogram counts the observations up to Le.
type Bucket struct{ Le, Count float64 }

// A Histogram is one series of buckets, sorted by their bounds.
type Histogram struct {
	Name    string
	Labels  []Label // without le
	Buckets []Bucket
	Sum     float64 // NaN if the body does not say
	Count   float64 // NaN if the body does not say
}

// A Line is a line of a body that could not be read.
type Line struct {
	Number int    // from 1
	Text   string // its begin
}

const (
	maxUnread     = 32
	maxUnreadText = 200 // bytes
)

// An Exposition is one body, in the order of its families.
type Exposition struct {
	Points     []Point
	Histograms []Histogram
	// Dropped counts lines that could not be read. A series that is missing
	// may stand on one of them.
	Dropped int
	// Unread are the first of those that are no sample at all.
	Unread []Line
	// Duplicates counts series that stood twice; the last one counts.
	Duplicates int

	points     map[string][]Point
	histograms map[string][]Histogram
}

// Parse reads a body of Prometheus' text format or of OpenMetrics, tolerantly:
// a line that cannot be read costs that line. whole says that the transport
// vouches for the body's end; without that, a last line without its newline may
// have lost digits and is ErrTruncated, as is OpenMetrics without # EOF.
// A body without any readable line is ErrNoMetrics. An Exposition is returned
// beside neither.
func Parse(body []byte, whole bool) (*Exposition, error) {
	body, err := unwrap(body)
	if err != nil {
		return nil, err
	}
	if err := ended(body, whole); err != nil {
		return nil, err
	}
	if e := direct(body); e != nil {
		return e, nil
	}
	return repaired(body)
}

// repaired reads a body that expfmt would not take as it is, or not as it is meant.
func repaired(body []byte) (*Exposition, error) {
	clean := sanitize(body)
	if clean.lines == 0 {
		return nil, fmt.Errorf("%w: %s", ErrNoMetrics, looksLike(body))
	}
	out := &Exposition{Dropped: clean.dropped, Unread: clean.unread, Duplicates: clean.duplicates}
	families, err := expand(clean.families)
	if err != nil {
		// Not seen yet. One family that the strict reader refuses must not
		// cost the others.
		families = make(map[string]*dto.MetricFamily)
		for _, f := range clean.families {
			one, err := expand([]*rawFamily{f})
			if err != nil {
				out.Dropped += len(f.samples)
				continue
			}
			families[f.name] = one[f.name]
		}
	}
	for _, f := range clean.families {
		if family := families[f.name]; family != nil {
			out.add(family)
		}
	}
	return out, nil
}

// Whole reports whether an answer vouches for the end of its body. One that only the end
// of the connection ends may have lost its tail without anybody noticing.
func Whole(resp *http.Response) bool {
	return resp.ContentLength >= 0 || resp.Uncompressed || len(resp.TransferEncoding) > 0 || resp.ProtoMajor > 1
}

// Salvage reads what a file or a cut answer still holds, whatever became of its
// end. whole is as of [Parse]: without it a last line without its newline is dropped
// and counted. Its errors are those of [Parse] but for ErrTruncated.
func Salvage(body []byte, whole bool) (*Exposition, error) {
	plain, err := Unwrap(body)
	if err != nil && len(plain) == 0 {
		return nil, err
	}
	e, err := Parse(plain, whole && err == nil)
	if !errors.Is(err, ErrTruncated) {
		return e, err
	}
	cut := bytes.LastIndexByte(plain, '\n') + 1
	if e, err = Parse(plain[:cut], true); err != nil {
		return nil, fmt.Errorf("%w: %s", ErrNoMetrics, looksLike(plain))
	}
	if cut < len(plain) {
		e.Dropped++
	}
	return e, nil
}

func expand(families []*rawFamily) (map[string]*dto.MetricFamily, error) {
	return parser().TextToMetricFamilies(bytes.NewReader(text(families)))
}

func parser() *expfmt.TextParser {
	p := expfmt.NewTextParser(model.UTF8Validation)
	return &p
}

// Unwrap removes the encoding of a text: gzip without a header that announces it, and
// UTF-16 with its mark, which shells of Windows write into files. If a gzip is cut, it
// returns what it could unpack, and the error.
func Unwrap(body []byte) ([]byte, error) {
	var err error
	if bytes.HasPrefix(body, []byte{0x1f, 0x8b}) {
		body, err = unpack(body)
	}
	var order binary.ByteOrder
	switch {
	case bytes.HasPrefix(body, []byte{0xff, 0xfe}):
		order = binary.LittleEndian
	case bytes.HasPrefix(body, []byte{0xfe, 0xff}):
		order = binary.BigEndian
	default:
		return body, err
	}
	units := make([]uint16, len(body)/2-1)
	for i := range units {
		units[i] = order.Uint16(body[2*i+2:])
	}
	return []byte(string(utf16.Decode(units))), err
}

// unwrap is Unwrap, and takes off the JSON string that some releases of llama.cpp
// send.
func unwrap(body []byte) ([]byte, error) {
	body, err := Unwrap(body)
	if err != nil {
		return nil, err
	}
	if trimmed := bytes.TrimSpace(body); bytes.HasPrefix(trimmed, []byte(`"`)) {
		var s string
		if err := json.Unmarshal(trimmed, &s); err == nil {
			return []byte(s), nil
		}
	}
	return body, nil
}

// unpack returns beside an error what came before it.
func unpack(body []byte) ([]byte, error) {
	zr, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	// A bomb is cut at the bound, not unpacked.
	out, err := io.ReadAll(io.LimitReader(zr, MaxBody+1))
	switch {
	case len(out) > MaxBody:
		return nil, fmt.Errorf("the body is larger than %d MiB", MaxBody>>20)
	case err != nil:
		return out, fmt.Errorf("unpack: %w", err)
	}
	return out, nil
}

func ended(body []byte, whole bool) error {
	tail := bytes.TrimRight(body, " \t\r\n")
	if whole || bytes.HasSuffix(tail, []byte("# EOF")) {
		return nil
	}
	if len(body) == 0 || body[len(body)-1] != '\n' {
		return ErrTruncated
	}
	return nil
}

func looksLike(body []byte) string {
	head := strings.ToLower(strings.TrimSpace(string(body[:min(len(body), 256)])))
	switch {
	case head == "":
		return "it is empty"
	case strings.HasPrefix(head, "<"):
		return "it looks like HTML"
	case strings.HasPrefix(head, "[") && bytes.Contains(body, []byte(`"numActiveRequests"`)):
		return "it looks like JSON: trtllm-serve's iteration statistics, whose metrics are at /prometheus/metrics"
	case strings.HasPrefix(head, "{"), strings.HasPrefix(head, "["):
		return "it looks like JSON"
	default:
		return "no line of it can be read"
	}
}

func (e *Exposition) add(f *dto.MetricFamily) {
	name := f.GetName()
	for _, m := range f.GetMetric() {
		labels := make([]Label, 0, len(m.GetLabel()))
		for _, l := range m.GetLabel() {
			labels = append(labels, Label{l.GetName(), l.GetValue()})
		}
		slices.SortFunc(labels, func(a, b Label) int { return strings.Compare(a.Name, b.Name) })
		point := func(name, kind string, v *float64) {
			if v != nil {
				e.Points = append(e.Points, Point{name, kind, labels, *v})
			}
		}
		// A typed pointer may be nil if the strict reader made a metric
		// before it found its value; its zero must not become a value.
		switch {
		case m.Counter != nil:
			point(name, "counter", m.Counter.Value)
		case m.Gauge != nil:
			point(name, "gauge", m.Gauge.Value)
		case m.Untyped != nil:
			point(name, "untyped", m.Untyped.Value)
		case m.Summary != nil:
			e.addSummary(name, labels, m.Summary)
		case m.Histogram != nil:
			e.addHistogram(name, labels, m.Histogram)
		}
	}
}

func (e *Exposition) addSummary(name string, labels []Label, s *dto.Summary) {
	for _, q := range s.GetQuantile() {
		with := append(slices.Clone(labels), Label{"quantile", FormatValue(q.GetQuantile())})
		slices.SortFunc(with, func(a, b Label) int { return strings.Compare(a.Name, b.Name) })
		e.Points = append(e.Points, Point{name, "summary", with, q.GetValue()})
	}
	if s.SampleSum != nil {
		e.Points = append(e.Points, Point{name + "_sum", "summary", labels, s.GetSampleSum()})
	}
	if s.SampleCount != nil {
		e.Points = append(e.Points, Point{name + "_count", "summary", labels, float64(s.GetSampleCount())})
	}
}

func (e *Exposition) addHistogram(name string, labels []Label, h *dto.Histogram) {
	out := Histogram{Name: name, Labels: labels, Sum: math.NaN(), Count: math.NaN()}
	if h.SampleSum != nil {
		out.Sum = h.GetSampleSum()
	}
	switch {
	case h.SampleCountFloat != nil:
		out.Count = h.GetSampleCountFloat()
	case h.SampleCount != nil:
		out.Count = float64(h.GetSampleCount())
	}
	for _, b := range h.GetBucket() {
		count := float64(b.GetCumulativeCount())
		if b.CumulativeCountFloat != nil {
			count = b.GetCumulativeCountFloat()
		}
		out.Buckets = append(out.Buckets, Bucket{b.GetUpperBound(), count})
	}
	slices.SortFunc(out.Buckets, func(a, b Bucket) int {
		switch {
		case a.Le < b.Le:
			return -1
		case a.Le > b.Le:
			return 1
		}
		return 0
	})
	e.Histograms = append(e.Histograms, out)
}

// Named returns the points of one name.
func (e *Exposition) Named(name string) []Point {
	if e.points == nil {
		e.points = make(map[string][]Point)
		for _, p := range e.Points {
			e.points[p.Name] = append(e.points[p.Name], p)
		}
	}
	return e.points[name]
}

// HistogramsNamed returns the histograms of one name.
func (e *Exposition) HistogramsNamed(name string) []Histogram {
	if e.histograms == nil {
		e.histograms = make(map[string][]Histogram)
		for _, h := range e.Histograms {
			e.histograms[h.Name] = append(e.histograms[h.Name], h)
		}
	}
	return e.histograms[name]
}

// Flat returns every value of the body as a series of its own, buckets included.
func (e *Exposition) Flat() []Point {
	out := slices.Clone(e.Points)
	for _, h := range e.Histograms {
		for _, b := range h.Buckets {
			with := append(slices.Clone(h.Labels), Label{"le", FormatValue(b.Le)})
			slices.SortFunc(with, func(a, b Label) int { return strings.Compare(a.Name, b.Name) })
			out = append(out, Point{h.Name + "_bucket", "histogram", with, b.Count})
		}
		if !math.IsNaN(h.Sum) {
			out = append(out, Point{h.Name + "_sum", "histogram", h.Labels, h.Sum})
		}
		if !math.IsNaN(h.Count) {
			out = append(out, Point{h.Name + "_count", "histogram", h.Labels, h.Count})
		}
	}
	return out
}
