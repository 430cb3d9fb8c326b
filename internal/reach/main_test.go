package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestList(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for name, text := range map[string]string{
		"a/a_test.go": `package a
func TestAll(t *testing.T) { n := amount() }
func amount() int { if slow.Tests { return 9 }; return 1 }
func TestFew(t *testing.T) {}
func TestWait(t *testing.T) { time.Sleep(1) }`,
		"a/b_slow_test.go":  "//go:build slow\n\npackage a\nfunc TestTagged(t *testing.T) {}",
		"a/c_linux_test.go": "//go:build linux\n\npackage a\nfunc TestSystem(t *testing.T) { amount() }",
		"a/e2e_test.go":     "//go:build e2e\n\npackage a\nfunc TestElsewhere(t *testing.T) { amount() }",
		"b/b_test.go":       "package b\nfunc TestNothing(t *testing.T) {}",
		".hidden/a_test.go": "package h\nfunc TestHidden(t *testing.T) { _ = slow.Tests }",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for kind, want := range map[string]string{"slow": "TestAll|TestSystem|TestTagged", "clock": "TestWait"} {
		targets := map[string]map[string]bool{"slow": more, "clock": clock}[kind]
		var out strings.Builder
		if err := list(&out, root, targets); err != nil {
			t.Fatal(err)
		}
		if got, want := out.String(), filepath.Join(root, "a")+" "+want+"\n"; got != want {
			t.Errorf("%s: got %q, want %q", kind, got, want)
		}
	}
}
