package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A run of an earlier method is shown with its figures and a warning. It is neither gone on
// with nor taken over, and compare names both methods before it would say a number.
func TestMethod_earlier(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "run"), os.DirFS(filepath.Join("testdata", "method2"))); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"cells", "-v", "run"}, {"report", "--format", "md", "run"}} {
		r := sweep(t, dir, nil, args...)
		if r.code != exitOK || !strings.Contains(r.stdout, "of method 2") {
			t.Errorf("%v: exit %d\n%s%s", args, r.code, r.stdout, r.stderr)
		}
	}
	const plan = "run/plan.yaml"
	if r := sweep(t, dir, nil, append(append([]string{"run", "-o", "today"}, rehearsal...), plan)...); r.code != exitOK {
		t.Fatalf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	for _, args := range [][]string{{"resume", "run"}, {"run", "--reuse", "run", "-o", "new", plan}, {"compare", "noise", "run", "today", "-o", "x.json"}} {
		r := sweep(t, dir, nil, args...)
		if want := "the figures of the run are made by method 2, this sweep makes them by method 3"; r.code != exitResume || !strings.Contains(r.stderr, want) {
			t.Errorf("%v: exit %d\n%s%s", args, r.code, r.stdout, r.stderr)
		}
	}
	r := sweep(t, dir, nil, "compare", "run", "today")
	if !strings.HasPrefix(r.stdout, "differs: method 2 -> 3") || !strings.Contains(r.stdout, "nothing can be compared: figures of methods 2 and 3 mean different things") {
		t.Errorf("compare: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if r := sweep(t, dir, nil, "cells", "-v", "today"); r.code != exitOK || strings.Contains(r.stdout, "of method") {
		t.Errorf("today: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
}
