package tables

import (
	"bytes"
	"fmt"
)

// Files of the repository, from its root.
const (
	Page        = "docs/statistics.md"
	Pictures    = "docs/statistics"              // one a table, NAME.svg
	FiguresFile = "docs/statistics/figures.json" // the full tables as last made
	BeforeFile  = "docs/statistics/before.json"  // those of the rules before
)

const pageEnd = "<!-- end -->"

// Document puts each table between its markers, <!-- table NAME --> and
// <!-- end -->.
func Document(page []byte, figures, before Record) ([]byte, error) {
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
		text := "\n" + t.Markdown(before) + "\n"
		page = bytes.Join([][]byte{page[:from], []byte(text), page[from+length:]}, nil)
	}
	return page, nil
}
