package csv

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/sinks"
	"sweep.dev/sweep/sinks/sinktest"
)

func TestContract(t *testing.T) {
	sinktest.Run(t, sinktest.Suite{
		New: func(columns []result.Column) (sinks.Sink, error) {
			return New(Config{Columns: Columns{"full"}}, columns)
		},
		Files: []string{"cells.csv", "groups.csv"},
		Cells: "cells.csv",
		Read:  read,
	})
}

// read reads a CSV file with the types of the columns.
func read(data []byte, columns []result.Column) ([]result.Row, error) {
	records, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	if err != nil {
		return nil, err
	}
	var rows []result.Row
	for _, record := range records[1:] {
		row := result.Row{}
		for i, text := range record {
			c, ok := result.Lookup(columns, records[0][i])
			if !ok {
				return nil, fmt.Errorf("no column %q", records[0][i])
			}
			v, err := value(c.Type, text)
			if err != nil {
				return nil, err
			}
			row[c.Name] = v
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func value(t result.Type, text string) (any, error) {
	switch {
	case text == "":
		return nil, nil
	case t == result.Int:
		return strconv.ParseInt(text, 10, 64)
	case t == result.Float:
		return strconv.ParseFloat(text, 64)
	case t == result.Bool:
		return strconv.ParseBool(text)
	case t == result.Timestamp:
		return time.Parse(time.RFC3339, text)
	}
	return text, nil
}

// cells builds a table and returns cells.csv.
func cells(t *testing.T, s *Sink, table sinks.Table) string {
	t.Helper()
	var out string
	err := s.Build(t.Context(), table, func(name string, write func(sinks.Writer) error) error {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			return err
		}
		if name == "cells.csv" {
			out = b.String()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestColumns_choosesAndOrders(t *testing.T) {
	eight := []string{
		"gpu", "concurrency", "max_tokens", "p50_ttft_ms", "p95_ttft_ms",
		"p50_e2e_ms", "p95_e2e_ms", "throughput_tok_s",
	}
	table := sinktest.Table(t, 1)
	maps.Copy(slices.Collect(table.Rows)[0], map[string]any{
		"gpu": "l4", "concurrency": int64(8), "max_tokens": int64(128), "p50_ttft_ms": 12.5,
		"p95_ttft_ms": 31.0, "p50_e2e_ms": 900.25, "p95_e2e_ms": nil, "throughput_tok_s": 361.1,
	})
	s, err := New(Config{Columns: eight}, table.Columns)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Join(eight, ",") + "\nl4,8,128,12.5,31,900.25,,361.1\n"
	if got := cells(t, s, table); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	s, err = New(Config{Columns: []string{"max_tokens", "gpu"}}, table.Columns)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := cells(t, s, table), "max_tokens,gpu\n128,l4\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Without a choice cells.csv has the tier core: that of the registry, and what
// the plan adds.
func TestColumns_areCoreByDefault(t *testing.T) {
	table := sinktest.Table(t, 1)
	var core []string
	for _, c := range table.Columns {
		if c.Tier == result.Core {
			core = append(core, c.Name)
		}
	}
	for _, choice := range []Columns{nil, {"core"}} {
		s, err := New(Config{Columns: choice}, table.Columns)
		if err != nil {
			t.Fatal(err)
		}
		header, _, _ := strings.Cut(cells(t, s, table), "\n")
		if header != strings.Join(core, ",") {
			t.Errorf("%v: %s", choice, header)
		}
		for _, name := range []string{"arg_max_num_seqs", "slo_smooth", "p95_ttft_ms"} {
			if !slices.Contains(strings.Split(header, ","), name) {
				t.Errorf("%v: %s is missing", choice, name)
			}
		}
	}
}

func TestColumns_areChecked(t *testing.T) {
	columns := result.Columns(result.Extra{})
	for _, c := range []struct {
		columns []string
		want    string
	}{
		{[]string{"gpu", "p95_tttft_ms"}, `columns: there is no column "p95_tttft_ms"; did you mean "p95_ttft_ms"?`},
		{[]string{"zzz"}, `columns: there is no column "zzz"`},
		{[]string{"gpu", "gpu"}, `columns: "gpu" is there twice`},
		{[]string{"gpu", "full"}, `columns: "full" stands for several columns; write columns: full, without a list`},
	} {
		if _, err := New(Config{Columns: c.columns}, columns); err == nil || err.Error() != c.want {
			t.Errorf("%v: got %v, want %s", c.columns, err, c.want)
		}
	}
}

// TestText_isNoFormula holds texts harmless and numbers numbers.
func TestText_isNoFormula(t *testing.T) {
	table := sinktest.Table(t, 1)
	row := slices.Collect(table.Rows)[0]
	row["p50_ttft_ms"], row["trial"] = -1.5, int64(-3)
	for text, want := range map[string]string{
		`=HYPERLINK("http://x")`: `'=HYPERLINK("http://x")`,
		"+1":                     "'+1",
		"-1":                     "'-1",
		"@SUM(A1)":               "'@SUM(A1)",
		"\tx":                    "'\tx",
		"\rx":                    " x",
		"\x00=x":                 "'=x",
		"0.8\x1b[31m.1\x07":      "0.8.1",
		"two\nlines":             "two\nlines",
		"a=b":                    "a=b",
		"":                       "",
	} {
		slices.Collect(table.Rows)[0]["error"] = text
		for raw, want := range map[bool]string{false: want, true: text} {
			s, err := New(Config{Columns: []string{"error", "p50_ttft_ms", "trial"}, Raw: raw}, table.Columns)
			if err != nil {
				t.Fatal(err)
			}
			records, err := csv.NewReader(strings.NewReader(cells(t, s, table))).ReadAll()
			if err != nil {
				t.Fatal(err)
			}
			if got := records[1]; got[0] != want || got[1] != "-1.5" || got[2] != "-3" {
				t.Errorf("%q (raw: %v): got %q, want %q, -1.5 and -3", text, raw, got, want)
			}
		}
	}
}
