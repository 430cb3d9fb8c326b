package engine

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"

	"sweep.dev/sweep/internal/syntax"
)

// guard refuses a file before the YAML decoder sees it, which has no limits of
// its own. A file that is no profile may be any file of the machine, and no
// message holds a word of it: neither of this function, nor of what reads the
// file after it.
func guard(src []byte) error {
	if len(src) > maxFile {
		return fmt.Errorf("it has more than %d KiB", maxFile>>10)
	}
	var r syntax.Report
	root := syntax.Parse("", string(src), &r)
	diagnostics := r.Diagnostics()
	switch {
	case root == nil:
		d := diagnostics.List[0]
		if strings.ContainsRune(d.Message, '"') {
			d.Message = "it is not valid YAML" // what the library says here is a word of the file
		}
		return place(d.Line, d.Col, d.Message)
	case root.Kind != syntax.Map:
		return place(1, 1, "it is no engine profile: it is not a mapping")
	case root.Get("name") == nil:
		return place(1, 1, "it is no engine profile: name is missing")
	case diagnostics == nil:
		return nil
	}
	var errs []error
	for _, d := range diagnostics.List {
		errs = append(errs, place(d.Line, d.Col, d.Message))
	}
	return errors.Join(errs...)
}

// inYAML returns an error of the YAML library without the lines of the file that it
// shows.
func inYAML(err error) error {
	if e, ok := errors.AsType[yaml.Error](err); ok && e.GetToken() != nil {
		pos := e.GetToken().Position
		return place(pos.Line, pos.Column, e.GetMessage())
	}
	return fmt.Errorf("profile: %w", err)
}

// place returns one error at its place, in the form of all errors of [Parse].
func place(line, column int, text string) error {
	return errors.Join(fmt.Errorf("%d:%d: %s", line, column, text))
}
