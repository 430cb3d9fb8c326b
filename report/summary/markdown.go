package summary

import (
	"bytes"
	"fmt"
	"io"

	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/draw"
)

// MaxMarkdown is the most that Markdown writes: GitHub drops the summary of a step as a
// whole if it is larger than 1 MiB.
const MaxMarkdown = 900 << 10

// Markdown writes the summaries of some runs for the summary of a CI step: at most
// MaxMarkdown bytes, cut at the end of a line with a note.
func Markdown(w io.Writer, runs []*report.Run) error {
	var b bytes.Buffer
	for _, run := range runs {
		if err := Write(&b, run, draw.Style{Markdown: true}); err != nil {
			return err
		}
	}
	text := b.Bytes()
	if n := len(text); n > MaxMarkdown {
		note := fmt.Sprintf("\nCut at %d of %d bytes: summary.md of each run has all.\n", MaxMarkdown, n)
		end := bytes.LastIndexByte(text[:MaxMarkdown-len(note)], '\n')
		text = append(text[:end+1], note...)
	}
	_, err := w.Write(text)
	return err
}
