package tables

import (
	"bytes"
	"fmt"
	"path"
)

// Files of the repository, from its root.
const (
	Page        = "docs/statistics.md"
	TablesPage  = "docs/statistics/tables.md"
	Pictures    = "docs/statistics"              // one a table, NAME.svg
	FiguresFile = "docs/statistics/figures.json" // the full tables as last made
	BeforeFile  = "docs/statistics/before.json"  // those of the rules before
)

const pageEnd = "<!-- end -->"

// Document puts what each table asks, its picture and where its figures are between its
// markers, <!-- table NAME --> and <!-- end -->.
func Document(page []byte, figures Record) ([]byte, error) {
	for _, t := range figures.Tables {
		mark := []byte("<!-- table " + t.Name + " -->\n")
		from := bytes.Index(page, mark)
		if from < 0 {
			return nil, fmt.Errorf("there is no %q", mark)
		}
		from += len(mark)
		length := bytes.Index(page[from:], []byte(pageEnd))
		if length < 0 {
			return nil, fmt.Errorf("%q has no %q", mark, pageEnd)
		}
		text := fmt.Sprintf("\n%s\n\n![%s](%s)\n\n[Figures of %s](%s#%s)\n\n", t.What, t.Alt(),
			path.Join(path.Base(Pictures), t.Name+".svg"), t.Name, path.Join(path.Base(Pictures), path.Base(TablesPage)), t.Name)
		page = bytes.Join([][]byte{page[:from], []byte(text), page[from+length:]}, nil)
	}
	return page, nil
}

// Reference returns the page that has the figures of each table.
func Reference(figures, before Record) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Figures of the statistical rules\n\n[statistics.md](../%s) says what each table asks and how to read it.\n", path.Base(Page))
	for _, t := range figures.Tables {
		fmt.Fprintf(&b, "\n## %s\n\n%s", t.Name, t.Markdown(before))
	}
	return b.Bytes()
}
