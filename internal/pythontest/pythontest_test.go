package pythontest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"sweep.dev/sweep/internal/pythontest"
)

func TestFirst(t *testing.T) {
	path := t.TempDir()
	real, shim := filepath.Join(path, "real"), filepath.Join(path, "shim")
	for _, dir := range []string{real, shim} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	interpreter := filepath.Join(real, "python3")
	prints, err := exec.LookPath("echo") // any program that is no script
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(prints, interpreter); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(shim, "python3")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho "+interpreter+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}

	t.Setenv("PATH", shim)
	pythontest.First()
	if got, err := exec.LookPath("python3"); err != nil || got != interpreter {
		t.Errorf("a script: python3 is %q, %v", got, err)
	}
	before := os.Getenv("PATH")
	pythontest.First()
	if got := os.Getenv("PATH"); got != before {
		t.Errorf("no script: PATH is %q, was %q", got, before)
	}
	t.Setenv("PATH", "")
	pythontest.First()
	if got := os.Getenv("PATH"); got != "" {
		t.Errorf("no python3: PATH is %q", got)
	}
}
