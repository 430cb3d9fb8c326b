package codetest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"testing"
)

// Kinds of fixed waits that a test may have.
const (
	virtual = "the clock is virtual"
	late    = "a server, collector or client that is late by nature"
	fault   = "how long a fault lasts"
	endless = "a process that waits to be ended"
	poll    = "the pause of the one helper that polls"
)

// waits are the functions with a fixed wait, by file. What a wait lets happen in the
// meantime may not decide an assertion: that is internal/polltest's.
var waits = map[string]map[string]string{
	"backends/ssh/crash_test.go":            {"parent": endless},
	"cmd/sweep/fault_test.go":               {"TestStopped": fault},
	"cmd/sweep/given_test.go":               {"ServeHTTP": late},
	"cmd/sweep/stopped_linux_test.go":       {"TestVerdict_serverStopped": fault},
	"executor/extra_test.go":                {"waits": late},
	"executor/ending_slow_test.go":          {"TestEnding_saturated": late},
	"executor/ending_test.go":               {"TestEnding_probe": late},
	"test/honesty/faults_test.go":           {"stop": fault, "setClock": fault, "hog": fault},
	"test/honesty/server_test.go":           {"answer": late},
	"internal/guard/helper_test.go":         {"sleep": endless, "stubborn": endless, "tree4": endless, "show": endless},
	"backends/local/local_test.go":          {"parent": endless},
	"internal/polltest/polltest.go":         {"Within": poll},
	"backends/provision/crash_test.go":      {"crash": virtual},
	"backends/runpodapi/client_test.go":     {"TestCreate_whole": late, "TestLister": late},
	"load/loadtest/answer.go":               {"token": late},
	"load/stamp/stamp_test.go":              {"TestConn_betweenSendAndRead": late},
	"load/stopped_test.go":                  {"TestWatch_stoppedProcess": fault},
	"sim/resync_test.go":                    {"TestResync": fault},
	"load/worker/group_test.go":             {"TestGroup_wrongClients": late, "Write": late},
	"load/worker/processes/process_test.go": {"TestClients_stopped": fault},
}

// No test waits for a fixed time and then looks: what comes later on a busy machine
// would be missed there, and everywhere else the test would be slow.
func TestWaits(t *testing.T) {
	found := make(map[string]map[string]bool)
	EachTest(t, filepath.Join("..", ".."), func(rel string, set *token.FileSet, file *ast.File) {
		for _, w := range fixedWaits(file) {
			if found[rel] == nil {
				found[rel] = make(map[string]bool)
			}
			found[rel][w.in] = true
			if waits[rel][w.in] == "" {
				t.Errorf("%s: %s waits for a fixed time: use polltest, or synctest", set.Position(w.at), w.in)
			}
		}
	})
	for rel, list := range waits {
		for name := range list {
			if !found[rel][name] {
				t.Errorf("%s: %s has no fixed wait any more", rel, name)
			}
		}
	}
}

// A fixedWait is a call of time.Sleep, or a receive from time.After outside a select.
type fixedWait struct {
	in string // the function
	at token.Pos
}

// fixedWaits returns a file's that are not written in a function for synctest.Test.
func fixedWaits(file *ast.File) (list []fixedWait) {
	for _, d := range file.Decls {
		in := "a variable"
		if f, ok := d.(*ast.FuncDecl); ok {
			in = f.Name.Name
		}
		choices := make(map[ast.Node]bool) // of a select
		ast.Inspect(d, func(n ast.Node) bool {
			if choices[n] {
				return false
			}
			switch n := n.(type) {
			case *ast.CommClause:
				choices[n.Comm] = n.Comm != nil
			case *ast.CallExpr:
				if is(n.Fun, "synctest", "Test") {
					return false
				}
			case *ast.SelectorExpr: // also where it is handed on
				if is(n, "time", "Sleep") {
					list = append(list, fixedWait{in, n.Pos()})
				}
			case *ast.UnaryExpr:
				if call, ok := n.X.(*ast.CallExpr); ok && n.Op == token.ARROW && is(call.Fun, "time", "After") {
					list = append(list, fixedWait{in, n.Pos()})
				}
			}
			return true
		})
	}
	return list
}

func is(e ast.Expr, pkg, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == pkg
}

func TestFixedWaits(t *testing.T) {
	const src = `package p
func a() { time.Sleep(1) }
func b() { for range 3 { f(time.Sleep) } }
func c() { <-time.After(1) }
func d() { synctest.Test(t, func(t *testing.T) { time.Sleep(1); <-time.After(1) }) }
func e() { select { case <-x: time.Sleep(1); case <-time.After(1): default: } }
func f() { time.AfterFunc(1, nil); clock.Sleep(1) }
`
	file, err := parser.ParseFile(token.NewFileSet(), "", src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range fixedWaits(file) {
		got = append(got, w.in)
	}
	if want := []string{"a", "b", "c", "e"}; !slices.Equal(got, want) {
		t.Errorf("fixed waits in %q, want %q", got, want)
	}
}
