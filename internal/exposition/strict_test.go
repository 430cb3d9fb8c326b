package exposition

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// strictly reads families once more, by Prometheus' own reader.
func strictly(families []*rawFamily) (map[string]string, error) {
	p := expfmt.NewTextParser(model.UTF8Validation)
	read, err := p.TextToMetricFamilies(bytes.NewReader(text(families)))
	out := map[string]string{}
	for name, f := range read {
		for _, m := range f.GetMetric() {
			say := func(name string, v float64, more ...Label) {
				labels := more
				for _, l := range m.GetLabel() {
					labels = append(labels, Label{l.GetName(), l.GetValue()})
				}
				slices.SortFunc(labels, func(a, b Label) int { return strings.Compare(a.Name, b.Name) })
				out[name+"{"+LabelString(labels)+"}"] = FormatValue(v)
			}
			switch {
			case m.Counter != nil:
				say(name, m.Counter.GetValue())
			case m.Gauge != nil:
				say(name, m.Gauge.GetValue())
			case m.Untyped != nil:
				say(name, m.Untyped.GetValue())
			case m.Summary != nil:
				for _, q := range m.Summary.GetQuantile() {
					say(name, q.GetValue(), Label{"quantile", FormatValue(q.GetQuantile())})
				}
				if m.Summary.SampleSum != nil {
					say(name+"_sum", m.Summary.GetSampleSum())
				}
				if m.Summary.SampleCount != nil {
					say(name+"_count", float64(m.Summary.GetSampleCount()))
				}
			case m.Histogram != nil:
				for _, b := range m.Histogram.GetBucket() {
					v := float64(b.GetCumulativeCount())
					if b.CumulativeCountFloat != nil {
						v = b.GetCumulativeCountFloat()
					}
					say(name+"_bucket", v, Label{"le", FormatValue(b.GetUpperBound())})
				}
				if m.Histogram.SampleSum != nil {
					say(name+"_sum", m.Histogram.GetSampleSum())
				}
				if m.Histogram.SampleCountFloat != nil {
					say(name+"_count", m.Histogram.GetSampleCountFloat())
				} else if m.Histogram.SampleCount != nil {
					say(name+"_count", float64(m.Histogram.GetSampleCount()))
				}
			}
		}
	}
	return out, err
}

// Prometheus' own reader finds the same in what is read of a body.
func TestParse_asPrometheus(t *testing.T) {
	t.Parallel()
	for name, body := range bodies(t) {
		e, err := Parse(body, true)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if body, err = unwrap(body); err != nil {
			t.Fatal(err)
		}
		want, err := strictly(sanitize(body).families)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, flatMap(e)); diff != "" {
			t.Errorf("%s (-prometheus +got):\n%s", name, diff)
		}
	}
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
