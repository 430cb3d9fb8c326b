// Package exposition reads what servers expose in the text format of Prometheus or
// of OpenMetrics, tolerantly: real engines send bodies that a strict reader
// refuses as a whole for one line.
package exposition

import (
	"bytes"
	"cmp"
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
)

// MaxBody bounds one body, unpacked.
const MaxBody = 32 << 20

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
	Sum     float64 // NaN where the body does not say
	Count   float64 // NaN where the body does not say
}

// An Exposition is one body, in the order of its families.
type Exposition struct {
	Points     []Point
	Histograms []Histogram
	// Dropped counts lines that could not be read. A series that is missing
	// may stand on one of them.
	Dropped int
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
	clean := sanitize(body)
	if clean.lines == 0 {
		return nil, fmt.Errorf("%w: %s", ErrNoMetrics, looksLike(body))
	}
	out := &Exposition{Dropped: clean.dropped, Duplicates: clean.duplicates}
	for _, f := range clean.families {
		out.add(f)
	}
	return out, nil
}

// Whole says that an answer vouches for the end of its body. One that only the end
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

// Unwrap takes off what was put around a text: gzip that nobody announced, and
// UTF-16 with its mark, which shells of Windows write into files. Of a gzip that was
// cut it returns what it could unpack, beside the error.
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

// add files the samples of a family: as points, or those of a histogram's one
// series together.
func (e *Exposition) add(f *rawFamily) {
	switch f.kind {
	case "summary":
		e.addSummaries(f)
	case "histogram":
		e.addHistograms(f)
	default:
		for _, s := range f.samples {
			e.Points = append(e.Points, Point{s.name, f.kind, s.labels, s.value})
		}
	}
}

// A series is the samples of a family that differ in one label and in their
// suffixes alone.
type series struct {
	labels  []Label // without that label
	samples []rawSample
}

// seriesBy sorts samples into series, in the order of their first samples.
func (f *rawFamily) seriesBy(label string) []*series {
	var all []*series
	byLabels := map[string]*series{}
	for _, s := range f.samples {
		labels := s.labels
		if _, ok := s.label(label); ok {
			labels = slices.DeleteFunc(slices.Clone(labels), func(l Label) bool { return l.Name == label })
		}
		key := LabelString(labels)
		if byLabels[key] == nil {
			byLabels[key] = &series{labels: labels}
			all = append(all, byLabels[key])
		}
		byLabels[key].samples = append(byLabels[key].samples, s)
	}
	return all
}

// addSummaries adds quantiles, then the sum and the count of each series.
func (e *Exposition) addSummaries(f *rawFamily) {
	sum, count := f.name+"_sum", f.name+"_count"
	for _, of := range f.seriesBy("quantile") {
		last := map[string]float64{}
		for _, s := range of.samples {
			switch s.name {
			case sum:
				last[sum] = s.value
			case count:
				last[count] = math.Trunc(s.value)
			default:
				e.Points = append(e.Points, Point{s.name, "summary", s.labels, s.value})
			}
		}
		for _, name := range []string{sum, count} {
			if v, ok := last[name]; ok {
				e.Points = append(e.Points, Point{name, "summary", of.labels, v})
			}
		}
	}
}

func (e *Exposition) addHistograms(f *rawFamily) {
	for _, of := range f.seriesBy("le") {
		out := Histogram{Name: f.name, Labels: of.labels, Sum: math.NaN(), Count: math.NaN()}
		for _, s := range of.samples {
			switch s.name {
			case f.name + "_sum":
				out.Sum = s.value
			case f.name + "_count":
				out.Count = s.value
			default:
				le, _ := bound(s, "le") // a bucket without one was dropped
				out.Buckets = append(out.Buckets, Bucket{le, s.value})
			}
		}
		slices.SortFunc(out.Buckets, func(a, b Bucket) int { return cmp.Compare(a.Le, b.Le) })
		e.Histograms = append(e.Histograms, out)
	}
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

// Flat is every value of the body as a series of its own, buckets included.
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
