package main

import (
	"os"
	"strings"
	"testing"
)

const (
	shipped = "../../docs/export/grafana.json"
	sample  = "../../docs/export/sweep.prom"
)

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestCheck holds the shipped dashboard, and that each fault of one is found.
func TestCheck(t *testing.T) {
	known, err := parseSeries(read(t, sample))
	if err != nil {
		t.Fatal(err)
	}
	whole := string(read(t, shipped))
	if n, err := check([]byte(whole), known); err != nil || n < 9 {
		t.Errorf("%d queries, %v", n, err)
	}
	for _, c := range []struct{ about, old, new, want string }{
		{"a field that Grafana does not know", `"editable": true`, `"editabel": true`, "editabel"},
		{"a field of another type", `"schemaVersion": 39`, `"schemaVersion": "39"`, "schemaVersion"},
		{"an option of a panel that it does not have", `"pointSize": 6`, `"pointsize": 6`, "pointsize"},
		{"a panel that is none of Grafana's", `"bargauge"`, `"bar"`, `"bar"`},
		{"a query that does not parse", `sweep_error_ratio{plan=~\"$plan\"}`, `sweep_error_ratio{plan=~\"$plan\"`, "parse error"},
		{"a metric that is not exported", `"sweep_error_ratio{`, `"sweep_error_share{`, "sweep_error_share is not exported"},
		{"a label that is not exported", `and on(cell, trial, run)`, `and on(cell, trail, run)`, "no label trail"},
		{"a percentile that is not exported", `percentile=\"95\"`, `percentile=\"97\"`, "no series fits"},
		{"a legend of no label", `{{engine}}`, `{{motor}}`, "no label motor"},
		{"a variable of no metric", `label_values(sweep_run_trials, plan)`, `label_values(sweep_runs, plan)`, "sweep_runs is not exported"},
	} {
		broken := strings.Replace(whole, c.old, c.new, 1)
		if broken == whole {
			t.Fatalf("%s: the dashboard has no %s", c.about, c.old)
		}
		if _, err := check([]byte(broken), known); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.about, err, c.want)
		}
	}
}
