package drill

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/backends/runpod/runpodtest"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/rundir"
)

// The text that a failure prints replays its scenario.
func TestScenario_text(t *testing.T) {
	for _, s := range order(1, false, nil) {
		got, err := parseScenario(s.String())
		if err != nil {
			t.Fatal(err)
		}
		if got.String() != s.String() {
			t.Errorf("%s is read as %s", s, got)
		}
		if s.kill != "" {
			if _, err := effect.New(rule(s.kill)); err != nil {
				t.Errorf("%s: %v", s, err)
			}
		}
	}
	for _, bad := range []string{"", "point", "point/kil=x", "x/then=nothing", "x/faults=none-such", "x/beat=soon"} {
		if s, err := parseScenario(bad); err == nil {
			t.Errorf("%q is read as %s", bad, s)
		}
	}
}

// No point and no fault is forgotten, now or when another one is added.
func TestList_complete(t *testing.T) {
	list := all()
	killed := map[string]bool{}
	for _, s := range list {
		killed[s.kill], killed[s.again] = true, true
	}
	for _, p := range effect.Points() {
		for _, phase := range phases() {
			at := string(p) + ":" + string(phase)
			_, never := none()[p]
			if want := reached(p) && !never; killed[at] != want {
				t.Errorf("%s: a scenario kills there: %v, want %v", at, killed[at], want)
			}
		}
	}
	faults := covered(list)
	for _, k := range runpodtest.FaultKinds {
		if !faults[k.Name] {
			t.Errorf("no scenario has the fault %s", k.Name)
		}
	}
	for _, class := range classes() {
		if !slices.ContainsFunc(order(3, true, nil)[:len(classes())], func(s scenario) bool { return s.class == class }) {
			t.Errorf("a quick drill does not begin with a scenario of the class %s", class)
		}
	}
}

// A seed decides alone, and what was seen comes last.
func TestOrder(t *testing.T) {
	text := func(list []scenario) string {
		var b strings.Builder
		for _, s := range list {
			b.WriteString(s.String() + "\n")
		}
		return b.String()
	}
	first := order(7, false, nil)
	if text(first) != text(order(7, false, nil)) {
		t.Error("one seed gives two orders")
	}
	if text(first) == text(order(8, false, nil)) {
		t.Error("two seeds give one order")
	}
	seen := map[string]int{first[0].String(): 1}
	if again := order(7, false, seen); again[0].String() == first[0].String() || again[len(again)-1].String() != first[0].String() {
		t.Error("what was run before is not the last")
	}
}

// The oracle finds everything that it is there for.
func TestOracle(t *testing.T) {
	at := time.Now()
	pod := func(change func(*runpodtest.PodCost)) runpodtest.PodCost {
		h := runpodtest.PodCost{ID: "p", Name: "sw-x", Created: at.Add(-time.Hour), Gone: at, Expires: at.Add(time.Hour)}
		change(&h)
		return h
	}
	o := oracle{slack: time.Minute, cost: 0.5}
	good := runpodtest.Audit{At: at, USD: 0.5, Pods: []runpodtest.PodCost{pod(func(*runpodtest.PodCost) {})}}
	if err := o.check(good); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*runpodtest.Audit){
		"alive":     func(a *runpodtest.Audit) { a.Pods[0].Gone = time.Time{} },
		"overdue":   func(a *runpodtest.Audit) { a.Pods[0].Expires = at.Add(-2 * time.Minute) },
		"foreign":   func(a *runpodtest.Audit) { a.Touched = []runpodtest.Event{{Method: "DELETE"}} },
		"no intent": func(a *runpodtest.Audit) { a.NoIntent = []string{"pod x"} },
		"bill":      func(a *runpodtest.Audit) { a.USD = 0.51 },
	} {
		bad := good
		bad.Pods = slices.Clone(good.Pods)
		spoil(&bad)
		if err := o.check(bad); err == nil {
			t.Errorf("%s: the oracle finds nothing", name)
		}
	}
}

func TestGrid(t *testing.T) {
	row := func(cell, status string) string { return cell + ",1," + status + ",4,8,8,runpod,\n" }
	complete := ""
	for _, c := range []string{"a", "b", "c", "d", "e", "f"} {
		complete += row(c, "ok")
	}
	for name, c := range map[string]struct {
		rows string
		good bool
	}{
		"complete": {complete, true},
		"missing":  {complete[len(row("a", "ok")):], false},
		"twice":    {complete + row("a", "ok"), false},
		"failed":   {complete[len(row("a", "ok")):] + row("a", "failed"), false},
	} {
		dir := t.TempDir()
		text := "cell_id,trial,status,concurrency,requests,completed,backend,error\n" + c.rows
		if err := os.WriteFile(filepath.Join(dir, "cells.csv"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := grid(dir); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestChanged(t *testing.T) {
	a, b := rundir.Key{Cell: "a", Trial: 1}, rundir.Key{Cell: "b", Trial: 1}
	before := map[rundir.Key]string{a: "1"}
	if err := changed(before, map[rundir.Key]string{a: "1", b: "2"}); err != nil {
		t.Error(err)
	}
	for name, after := range map[string]map[rundir.Key]string{"gone": {b: "1"}, "changed": {a: "2"}} {
		if err := changed(before, after); err == nil {
			t.Errorf("%s: nothing is found", name)
		}
	}
}

func TestCanaries(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("x rpa_CANARY y"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := canaries([]string{"hf_CANARY"}, dir, filepath.Join(dir, "missing")); err != nil {
		t.Error(err)
	}
	if err := canaries([]string{"hf_CANARY", "rpa_CANARY"}, dir); err == nil {
		t.Error("a credential in a file is not found")
	}
}
