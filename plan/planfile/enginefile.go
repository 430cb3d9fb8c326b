package planfile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/input"
	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/internal/file"
)

// engineFiles reads the profiles of Options.EngineFiles and of the plan, in that
// order. A resume takes the copies that its run kept instead, so that it knows the
// same engines even if their files were moved.
func (l *loader) engineFiles() {
	l.sums = make(map[string]string)
	if l.opts.EngineTexts != nil {
		for _, f := range l.opts.EngineTexts {
			l.addEngine(l.file.Root, f)
		}
	} else {
		for _, name := range l.opts.EngineFiles {
			l.readEngine(l.file.Root, name, name)
		}
		for _, n := range file.Texts(l.file.Root.Get("engine_files")) {
			path := n.Text
			if !filepath.IsAbs(path) {
				path = filepath.Join(l.dir, path)
			}
			l.readEngine(n, n.Text, path)
		}
	}
}

func (l *loader) readEngine(at *syntax.Node, name, path string) {
	text, err := engine.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		l.Report.Node(at, "file", "there is no engine file %s", name).Hint = "it is looked for in the plan's folder"
	case err != nil:
		l.Report.Node(at, "file", "engine file %s: %v", name, input.Reason(err))
	default:
		l.addEngine(at, plan.EngineFile{Name: name, Text: text})
	}
}

func (l *loader) addEngine(at *syntax.Node, f plan.EngineFile) {
	profile, err := l.own.Add(f.Text)
	if err != nil {
		l.Report.Node(at, "engine-file", "%s", inFile(f.Name, err))
		return
	}
	sum := sha256.Sum256(f.Text)
	l.sums[profile.Name] = hex.EncodeToString(sum[:])
	l.texts = append(l.texts, f)
}

// inFile returns an error about a file on one line, each part at its place if it
// has one.
func inFile(name string, err error) string {
	many, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return name + ": " + err.Error()
	}
	var parts []string
	for _, one := range many.Unwrap() {
		parts = append(parts, name+":"+one.Error())
	}
	return strings.Join(parts, "; ")
}
