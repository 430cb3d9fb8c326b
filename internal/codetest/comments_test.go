package codetest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// nouns is how many functions may be described by what they are and not by what they do:
// "Attack is the ..." where "Attack returns the ..." tells more. Some are: a method that another
// package's type asks for, or a function that is another one with a bound.
const nouns = 150

// A comment on a function begins with its name and a verb.
func TestComments_verbs(t *testing.T) {
	t.Parallel()
	var found []string
	const root = "../.."
	Each(t, root, func(string) bool { return false }, func(rel string, _ *token.FileSet, _ *ast.File) {
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, filepath.Join(root, rel), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Doc == nil {
				continue
			}
			for _, verb := range []string{" is ", " are ", " says whether ", " says that "} {
				if text := f.Doc.Text(); strings.HasPrefix(text, f.Name.Name+verb) {
					line, _, _ := strings.Cut(text, "\n")
					found = append(found, set.Position(f.Pos()).String()+": "+line)
				}
			}
		}
	})
	if len(found) > nouns {
		t.Errorf("%d comments on functions say what these are, want %d at most; write what they do, such as returns or reports whether:\n%s",
			len(found), nouns, strings.Join(found, "\n"))
	}
}
