package tables

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestPage holds the page to the figures that are kept.
func TestPage(t *testing.T) {
	t.Parallel()
	read := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	parse := func(name string) Record {
		r, err := ParseRecord(read(name))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	figures, before, page := parse(FiguresFile), parse(BeforeFile), read(Page)
	got, err := Document(page, figures)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, page) {
		t.Errorf("%s is not made from %s: go generate ./test/statistics", Page, FiguresFile)
	}
	if !bytes.Equal(Reference(figures, before), read(TablesPage)) {
		t.Errorf("%s is not made from %s: go generate ./test/statistics", TablesPage, FiguresFile)
	}
	for _, table := range figures.Tables {
		if name := Pictures + "/" + table.Name + ".svg"; !bytes.Equal(read(name), table.SVG(before)) {
			t.Errorf("%s is not made from %s: go generate ./test/statistics", name, FiguresFile)
		}
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	a := Table{
		Name: "rule", What: strings.Repeat("What is asked of it. ", 6), Columns: []string{"steady", "drifts"},
		Cases: []Case{{"quiet", 100, []Figure{{Value: 0.01, Error: 0.002, Unit: Share, N: 100, Bound: Bound{High: 0.05}}, {Value: 0.9, Error: 0.03, Unit: Share, N: 100}}}},
	}
	var old Record
	b := a
	b.Cases = []Case{{"quiet", 100, []Figure{{Value: 0.3, Error: 0.05, Unit: Share, N: 100}, {Value: 1, Unit: Share, N: 100}}}}
	old = old.With(b)
	text := a.Text(old)
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	for _, want := range []string{"1 ± 0.2 %", "≤ 5 %", "30 ± 5 %"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	page, err := Document([]byte("a\n<!-- table rule -->\nold\n<!-- end -->\nb\n"), Record{}.With(a))
	if err != nil || !bytes.Contains(page, []byte("(statistics/tables.md#rule)")) || !bytes.HasSuffix(page, []byte("<!-- end -->\nb\n")) || bytes.Contains(page, []byte("old")) {
		t.Errorf("%v\n%s", err, page)
	}
	if reference := Reference(Record{}.With(a), old); !bytes.Contains(reference, []byte("## rule\n\n| case | runs | steady | drifts |")) || !bytes.Contains(reference, []byte("| quiet | 100 | 1 ± 0.2 % (≤ 5 %)<br>before: 30 ± 5 % | 90 ± 3 %<br>before: 100 ± 0 % |")) {
		t.Errorf("%s", reference)
	}
	if _, err := Document([]byte("nothing"), Record{}.With(a)); err == nil {
		t.Error("a page without the marker is no error")
	}
	text2, err := Record{}.With(a).JSON()
	if err != nil {
		t.Fatal(err)
	}
	back, err := ParseRecord(text2)
	if err != nil || back.Tables[0].Text(old) != text {
		t.Errorf("%v: %+v", err, back)
	}
}
