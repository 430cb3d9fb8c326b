package reporttest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/judge/quality"
)

// Answered makes answers to the items 0, 1, ... of a pattern: r right, w wrong, x refused, ?
// unknown. Two texts are the same if their letters are.
func Answered(pattern string) (list []quality.Answer) {
	for i, c := range pattern {
		text := "The answer is " + string(c)
		one := quality.Answer{Item: fmt.Sprint(i), Match: quality.MatchExact, Text: &text, Again: &text}
		switch c {
		case 'r':
			one.Right = new(true)
		case 'w':
			one.Right = new(false)
		case 'x':
			one.Text, one.Again, one.Refused, one.Right = nil, nil, true, new(false)
		case '?':
			one.Text, one.Again = nil, nil
		}
		list = append(list, one)
	}
	return list
}

// Answers puts those of a launch into a run directory.
func Answers(t *testing.T, dir string, launch int, a quality.Answers) {
	t.Helper()
	var b bytes.Buffer
	if err := a.Write(&b); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(dir, layout.LaunchDir(a.Deployment, launch))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, layout.Quality), b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}
