// Command house draws this repository's structure: its rooms, who imports whom, and how
// many lines of code each has (house rooms), or the lines by room and by capability
// (house size). It ends with 1 if an import leads upward, or if there are more lines than
// the bounds allow.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// pkg is what go list says of a package.
type pkg struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
}

func main() {
	if err := draw(context.Background(), os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func draw(ctx context.Context, w io.Writer, args []string) error {
	if len(args) != 1 || args[0] != "rooms" && args[0] != "size" {
		return errors.New("usage: house rooms|size")
	}
	files, err := countFiles(ctx)
	if err != nil {
		return err
	}
	if args[0] == "size" {
		drawSize(w, files)
		if all := sum(files, func(string) string { return "" })[""]; all.program > bounds.program || all.rest > bounds.rest {
			return errors.New("more lines than allowed: see internal/house/size.go")
		}
		return nil
	}
	packages, err := list(ctx, "./...")
	if err != nil {
		return err
	}
	folders, err := foldersOf(".")
	if err != nil {
		return err
	}
	drawHouse(w, folders, packages, sum(files, roomOf))
	if up := upward(imports(packages)); len(up) > 0 {
		return fmt.Errorf("%d rooms import what is not below them", len(up))
	}
	return nil
}

// list asks go list for packages.
func list(ctx context.Context, args ...string) ([]pkg, error) {
	out, err := exec.CommandContext(ctx, "go", append([]string{"list", "-json=ImportPath,Dir,GoFiles,Imports"}, args...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var packages []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		switch err := d.Decode(&p); {
		case errors.Is(err, io.EOF):
			return packages, nil
		case err != nil:
			return nil, fmt.Errorf("go list: %w", err)
		}
		packages = append(packages, p)
	}
}

// countFiles counts the lines of every Go file of the repository, by its path. A file is
// of the program if cmd/sweep is built of its package on this system and it is no test.
func countFiles(ctx context.Context) (map[string]count, error) {
	packages, err := list(ctx, "-deps", "./cmd/sweep")
	if err != nil {
		return nil, err
	}
	built := map[string]bool{}
	for _, p := range packages {
		if rel, ours := strings.CutPrefix(p.ImportPath, module); ours {
			built[rel] = true
		}
	}
	files := map[string]count{}
	err = filepath.WalkDir(".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && name != "." && (strings.HasPrefix(e.Name(), ".") || e.Name() == "testdata"):
			return fs.SkipDir
		case e.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if built[path.Dir(name)] && !strings.HasSuffix(name, "_test.go") {
			files[name] = count{program: codeLines(source)}
		} else {
			files[name] = count{rest: codeLines(source)}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("count lines: %w", err)
	}
	return files, nil
}

// foldersOf returns the folders in root that git keeps: those that are neither hidden nor
// ignored, as the folder of runs is that the quick start makes.
func foldersOf(root string) ([]string, error) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(root, ".gitignore"))
	if err != nil {
		return nil, err
	}
	ignored := strings.Fields(string(text))
	var out []string
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && !slices.Contains(ignored, "/"+e.Name()+"/") {
			out = append(out, e.Name())
		}
	}
	slices.Sort(out)
	return out, nil
}
