package planfile

import (
	"regexp"
	"strings"

	"sweep.dev/sweep/internal/syntax"
)

// gather reports what was found in the readings of named loads, in the words of their
// file. What is said of a part that loads share holds if it holds for one of them; but a
// key has no effect only if it has none for any.
func (l *loader) gather() {
	all := l.loads
	common := make(map[syntax.Diagnostic]int)
	for _, r := range all {
		if d := r.Report.Diagnostics(); r.name != "" && d != nil {
			for _, one := range d.List {
				common[place(one)]++
			}
		}
	}
	for _, r := range all {
		if r.name == "" {
			continue
		}
		own := make(map[syntax.Diagnostic]bool)
		for _, n := range []*syntax.Node{r.item, l.file.Root.Get("slo")} { // a load sees its own objectives alone
			nodes(n, func(n *syntax.Node) {
				own[syntax.Diagnostic{File: n.Src.Name, Line: n.Line, Col: n.Col}] = true
			})
		}
		words := strings.NewReplacer("load", "loads."+r.name)
		l.Report.Merge(r.Report, func(d *syntax.Diagnostic) bool {
			at := syntax.Diagnostic{File: d.File, Line: d.Line, Col: d.Col}
			if d.Rule == "no-effect" && !own[at] && common[place(*d)] < len(all) {
				return false
			}
			for _, text := range []*string{&d.Message, &d.Expected, &d.Hint, &d.Nearest} {
				*text = ofLoad.ReplaceAllStringFunc(*text, words.Replace)
			}
			return true
		})
	}
}

// ofLoad matches the section of the keys of a load.
var ofLoad = regexp.MustCompile(`\bload\.|\bin load$|^load takes `)

// place returns where a diagnostic is, and what it says.
func place(d syntax.Diagnostic) syntax.Diagnostic {
	return syntax.Diagnostic{File: d.File, Line: d.Line, Col: d.Col, Message: d.Message}
}

// nodes calls f for a node and all below it, keys included.
func nodes(n *syntax.Node, f func(*syntax.Node)) {
	if n == nil {
		return
	}
	f(n)
	for _, item := range n.Items {
		nodes(item, f)
	}
	for _, e := range n.Entries {
		f(e.Key)
		nodes(e.Value, f)
	}
}
