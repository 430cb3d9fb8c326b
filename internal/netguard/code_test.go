package netguard_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sweep.dev/sweep/internal/codetest"
)

// Who may connect without this package, and why.
var plainDialers = map[string]string{
	"backends/ssh": "the agent's socket is a file; its TCP connections are guarded",
}

// unguarded are the functions and types that connect without a check of the address.
var unguarded = map[string][]string{
	"net": {
		"Dial", "DialTimeout", "DialIP", "DialTCP", "DialUDP", "Dialer",
	},
	"net/http":   {"Get", "Head", "Post", "PostForm", "DefaultClient", "DefaultTransport"},
	"crypto/tls": {"Dial", "DialWithDialer", "Dialer"},
}

// TestCode reads the program's own source: whoever connects does it through
// this package, and every HTTP client says that it follows no redirect, or
// which.
func TestCode(t *testing.T) {
	// The drill, and modules of their own.
	skip := func(rel string) bool { return slices.Contains([]string{"drill", "tools"}, path.Base(rel)) }
	codetest.Each(t, filepath.Join("..", ".."), skip, func(rel string, set *token.FileSet, file *ast.File) {
		for _, fault := range faults(set, file, path.Dir(rel)) {
			t.Error(fault)
		}
	})
}

// faults lists what a file of a folder does around the guard.
func faults(set *token.FileSet, file *ast.File, folder string) []string {
	packages := map[string]string{} // by the name that the file has for them
	for _, spec := range file.Imports {
		p := strings.Trim(spec.Path.Value, `"`)
		name := p[strings.LastIndexByte(p, '/')+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		packages[name] = p
	}
	is := func(e ast.Expr, pkg, name string) bool {
		s, ok := e.(*ast.SelectorExpr)
		if !ok || s.Sel.Name != name {
			return false
		}
		x, ok := s.X.(*ast.Ident)
		return ok && packages[x.Name] == pkg
	}
	var found []string
	fault := func(n ast.Node, format string, args ...any) {
		found = append(found, fmt.Sprintf("%s: %s", set.Position(n.Pos()), fmt.Sprintf(format, args...)))
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			if is(n.Type, "net/http", "Client") && !hasKey(n, "CheckRedirect") {
				fault(n, "an HTTP client that follows redirects: use netguard.Client, or netguard.NoRedirect")
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "new" && len(n.Args) == 1 && is(n.Args[0], "net/http", "Client") {
				fault(n, "an HTTP client that follows redirects: use netguard.Client")
			}
		case *ast.ValueSpec:
			if n.Type != nil && is(n.Type, "net/http", "Client") {
				fault(n, "an HTTP client that follows redirects: use netguard.Client")
			}
		case *ast.SelectorExpr:
			for pkg, names := range unguarded {
				for _, name := range names {
					if is(n, pkg, name) && folder != "internal/netguard" && plainDialers[folder] == "" {
						fault(n, "%s.%s connects anywhere: use netguard.Dial or netguard.Client", pkg, name)
					}
				}
			}
		}
		return true
	})
	return found
}

func hasKey(lit *ast.CompositeLit, name string) bool {
	for _, e := range lit.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			if id, ok := kv.Key.(*ast.Ident); ok && id.Name == name {
				return true
			}
		}
	}
	return false
}

// TestCode finds each fault that it looks for.
func TestFaults(t *testing.T) {
	for code, want := range map[string]string{
		`import "net/http"; var c = http.Client{}`:                          "follows redirects",
		`import "net/http"; var c = &http.Client{Timeout: 1}`:               "follows redirects",
		`import "net/http"; var c http.Client`:                              "follows redirects",
		`import "net/http"; var c = new(http.Client)`:                       "follows redirects",
		`import web "net/http"; var c = web.Client{}`:                       "follows redirects",
		`import "net/http"; var r, _ = http.Get("http://x")`:                "net/http.Get",
		`import "net/http"; var c = http.DefaultClient`:                     "net/http.DefaultClient",
		`import "net"; var d net.Dialer`:                                    "net.Dialer",
		`import "net"; var d, _ = net.Dial("tcp", "x:1")`:                   "net.Dial ",
		`import "crypto/tls"; var d, _ = tls.Dial("tcp", "x:1", nil)`:       "crypto/tls.Dial",
		`import "net/http"; var c = http.Client{CheckRedirect: x}`:          "",
		`import "net/http"; var c *http.Client`:                             "",
		`import "net"; var l, _ = net.Listen("tcp", ":0")`:                  "",
		`import "sweep.dev/sweep/internal/netguard"; var d = netguard.Dial`: "",
	} {
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, "x.go", "package x\n"+code+"\n", parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(faults(set, file, "x"), "\n")
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s\ngot %q, want %q", code, got, want)
		}
	}
}
