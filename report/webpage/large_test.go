package webpage

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/reporttest/large"
)

// TestWrite_size holds how many bytes a cell takes: ten thousand with 100 points each are
// less than 15 MB. The first cells have the most, as tables have 500 rows of them.
func TestWrite_size(t *testing.T) {
	t.Parallel()
	const cells, most = 120, 1500
	dir := filepath.Join(t.TempDir(), "run")
	large.Run{Cells: cells, Points: 100 * cells}.Make(t, dir)
	run, err := report.OpenLean(dir)
	if err != nil {
		t.Fatal(err)
	}
	data := func(html string) int {
		at := strings.Index(html, `class="data">`)
		return strings.Index(html[at:], "</script>")
	}
	html := write(t, run)
	if each := data(html) / cells; each > most {
		t.Errorf("the data of a cell take %d bytes, want %d at most", each, most)
	}
	var md bytes.Buffer
	if err := Write(&md, []*report.Run{run}); err != nil || md.String() != html {
		t.Errorf("written again the page differs (%v)", err)
	}
}
