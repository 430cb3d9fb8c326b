package main

import (
	"bytes"
	"fmt"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// series are the labels of each series, by the name of its metric.
type series map[string][]map[string]string

// parseSeries reads a file in Prometheus' text format.
func parseSeries(text []byte) (series, error) {
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	s := series{}
	for name, f := range families {
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			s[name] = append(s[name], labels)
		}
	}
	return s, nil
}

// has says that no series of a metric has a label.
func (s series) has(metric, label string) error {
	if len(s[metric]) == 0 {
		return fmt.Errorf("%s is not exported", metric)
	}
	for _, labels := range s[metric] {
		if _, ok := labels[label]; ok {
			return nil
		}
	}
	return fmt.Errorf("%s has no label %s", metric, label)
}
