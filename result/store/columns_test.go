package store

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"sweep.dev/sweep/result"
)

var update = flag.Bool("update", false, "rewrite the golden files and the tables in docs/columns.md and docs/data.md")

// TestSchemas_areAsPublished holds the stored schemas to what other programs
// were told.
func TestSchemas_areAsPublished(t *testing.T) {
	for name, schema := range map[string]*parquet.Schema{
		"requests": parquet.SchemaOf(new(requestRow)),
		"samples":  parquet.SchemaOf(new(sampleRow)),
		"cells":    tableSchema(result.Columns(result.Extra{})),
	} {
		golden(t, filepath.Join("testdata", name+".schema"), schema.String()+"\n")
	}
}

func TestColumns_areTheSchemas(t *testing.T) {
	for _, c := range []struct {
		name    string
		columns []column
		schema  *parquet.Schema
	}{
		{"requests", requestColumns(), parquet.SchemaOf(new(requestRow))},
		{"samples", sampleColumns(), parquet.SchemaOf(new(sampleRow))},
	} {
		var got []column
		for _, f := range c.schema.Fields() {
			got = append(got, column{Name: f.Name(), Type: typeName(f), Nullable: f.Optional()})
		}
		var want []column
		for _, col := range c.columns {
			if !strings.HasSuffix(col.Doc, ".") {
				t.Errorf("%s.%s: doc %q is no sentence", c.name, col.Name, col.Doc)
			}
			want = append(want, column{Name: col.Name, Type: col.Type, Nullable: col.Nullable})
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: what is said of it and what it is differ:\n%s", c.name, diff)
		}
	}
}

func typeName(f parquet.Field) string {
	if !f.Leaf() {
		return "list<" + typeName(f.Fields()[0].Fields()[0]) + ">"
	}
	switch s := f.Type().String(); {
	case strings.HasPrefix(s, "TIMESTAMP"):
		return "timestamp"
	case s == "STRING":
		return "string"
	case s == "INT(32,true)":
		return "int32"
	case s == "INT(64,true)":
		return "int64"
	case s == "BOOLEAN":
		return "bool"
	default:
		return strings.ToLower(s)
	}
}

// TestDocs_areCurrent holds the tables of columns in the docs to the code. The prose
// around them is written by hand.
func TestDocs_areCurrent(t *testing.T) {
	cells := result.Columns(result.Extra{
		Axes: []result.Column{{Name: "*axis*", Type: "any", Nullable: true, Doc: "Each axis of the plan that has no column above, such as `arg_max_num_seqs`."}},
		SLOs: []string{"*name*"},
	})
	for page, blocks := range map[string]map[string]string{
		"columns.md": {"columns of cells": cellsTable(cells)},
		"data.md": {
			"core columns": coreList(), "methods": methods(),
			"columns of requests": markdown(requestColumns()), "columns of samples": markdown(sampleColumns()),
		},
	} {
		path := filepath.Join("..", "..", "docs", page)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		doc := string(data)
		for name, text := range blocks {
			block := regexp.MustCompile(`(?s)(<!-- ` + name + ` -->\n).*?(<!-- end -->)`)
			if !block.MatchString(doc) {
				t.Fatalf("%s has no place for the %s", page, name)
			}
			doc = block.ReplaceAllStringFunc(doc, func(old string) string {
				m := block.FindStringSubmatch(old)
				return m[1] + "\n" + text + "\n" + m[2]
			})
		}
		golden(t, path, doc)
	}
}

func coreList() string {
	var names []string
	for _, c := range result.Columns(result.Extra{}) {
		if c.Tier == result.Core {
			names = append(names, "`"+c.Name+"`")
		}
	}
	return fmt.Sprintf("The %d columns of the tier `core`: %s.\n", len(names), strings.Join(names, ", "))
}

func methods() string {
	var b strings.Builder
	b.WriteString("| method | what was new |\n| --: | --- |\n")
	for i, text := range result.Methods() {
		fmt.Fprintf(&b, "| %d | %s |\n", i+1, cell(text))
	}
	return b.String()
}

func cellsTable(columns []result.Column) string {
	var b strings.Builder
	b.WriteString("| column | tier | type | unit | null | meaning |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, c := range columns {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", c.Name, c.Tier, c.Type, c.Unit, yes(c.Nullable), cell(c.Doc))
	}
	return b.String()
}

func markdown(columns []column) string {
	var b strings.Builder
	b.WriteString("| column | type | unit | null | meaning |\n| --- | --- | --- | --- | --- |\n")
	for _, c := range columns {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", c.Name, c.Type, c.Unit, yes(c.Nullable), cell(c.Doc))
	}
	return b.String()
}

func yes(ok bool) string {
	if ok {
		return "yes"
	}
	return ""
}

// cell returns a text within a row of a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// golden holds got against a file, which -update rewrites.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s is not what the code says (go test ./store -update rewrites it):\n%s", path, diff)
	}
}
