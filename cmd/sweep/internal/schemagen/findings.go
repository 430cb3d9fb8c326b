package main

import (
	"bytes"
	"fmt"

	"sweep.dev/sweep/result/finding"
)

// findings returns docs/run.md with its tables of reasons for INVALID and of
// findings made anew.
func findings(page []byte) ([]byte, error) {
	for _, t := range []struct {
		name, head string
		facts      []finding.Fact
	}{{"reasons", "reason", finding.Reasons()}, {"findings", "finding", finding.Remarks()}} {
		var b bytes.Buffer
		fmt.Fprintf(&b, "| %s | what it means | what to do |\n| --- | --- | --- |\n", t.head)
		for _, f := range t.facts {
			doc := f.Doc
			if f.Detail != "" {
				doc += "; " + f.Detail
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.Code, doc, f.Advice)
		}
		var err error
		if page, err = between(page, t.name, b.Bytes()); err != nil {
			return nil, err
		}
	}
	return page, nil
}

// between returns page with text in the place that is marked for it by name.
func between(page []byte, name string, text []byte) ([]byte, error) {
	begin, end := []byte("<!-- "+name+" -->\n"), []byte("<!-- /"+name+" -->\n")
	before, rest, ok := bytes.Cut(page, begin)
	_, after, ok2 := bytes.Cut(rest, end)
	if !ok || !ok2 {
		return nil, fmt.Errorf("the page has no place for the %s", name)
	}
	return bytes.Join([][]byte{before, begin, text, end, after}, nil), nil
}
