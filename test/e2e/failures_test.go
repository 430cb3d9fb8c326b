//go:build e2e || e2e_vllm

package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A provoked is one way in which a server does not start.
type provoked struct {
	name   string
	set    []string // on top of the rig's plan
	taken  bool     // its port is somebody else's; ${port} in set
	memory int64    // limit of all processes together, in bytes; 0 is none

	class string
	parts []string // of the row's error: the line, the hint and the change
}

// failures: each is a row of class and cause, which is a result of the plan and
// no fault of the run, and leaves nothing running.
func (g rig) failures(t *testing.T, cases []provoked) {
	need(t, g.task, g.files...)
	for _, p := range cases {
		t.Run(p.name, func(t *testing.T) {
			var port string
			if p.taken {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				port = strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
			}
			dir := filepath.Join(t.TempDir(), "run")
			argv := []string{
				program, "run", "-o", dir, "--set", "on_start_failure=record",
				"--only", fmt.Sprintf("max_tokens == %d && concurrency == %d", g.short, g.low),
			}
			for _, set := range p.set {
				argv = append(argv, "--set", strings.ReplaceAll(set, "${port}", port))
			}
			if p.memory > 0 {
				// It goes in before it becomes the program: what it starts is in too.
				argv = append([]string{"sh", "-c", `echo $$ > "$0" && exec "$@"`, memoryLimit(t, p.memory)}, argv...)
			}
			s := launch(t, append(argv, g.plan)...)
			code := s.wait()
			// Of a full group the kernel may kill sweep too, right after the server.
			for again := 0; code == -1 && p.memory > 0 && again < 5; again++ {
				s.nothingLeft(10 * time.Second)
				if err := os.RemoveAll(dir); err != nil {
					t.Fatal(err)
				}
				s = launch(t, append(argv, g.plan)...)
				code = s.wait()
			}
			if code != 0 {
				t.Errorf("exit code %d, want 0: the failure is what was asked for", code)
			}
			s.nothingLeft(0)

			rows := readRows(t, dir)
			if len(rows) != 1 {
				t.Fatalf("got %d rows, want 1", len(rows))
			}
			r := rows[0]
			t.Logf("%s: %s", r["error_class"], r["error"])
			if r["status"] != "failed" || r["error_class"] != p.class {
				t.Errorf("%s of class %q, want a failed row of class %q", r["status"], r["error_class"], p.class)
			}
			for _, part := range p.parts {
				if !strings.Contains(r["error"], part) {
					t.Errorf("the error does not say %q", part)
				}
			}
			if t.Failed() {
				logs, _ := filepath.Glob(filepath.Join(dir, "deployments", "*", "l01", "*.log"))
				for _, log := range logs {
					text, _ := os.ReadFile(log)
					t.Logf("%s:\n%s", filepath.Base(log), text)
				}
			}
		})
	}
}

// memoryLimit makes a memory cgroup for this test, of version 1 or 2, and
// returns the file that takes the processes.
func memoryLimit(t *testing.T, limit int64) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("it takes root to limit the memory of processes")
	}
	name := fmt.Sprintf("sweep-e2e-%d", os.Getpid())
	dir, files := filepath.Join("/sys/fs/cgroup", name), []string{"memory.max", "memory.swap.max"}
	if _, err := os.Stat("/sys/fs/cgroup/memory"); err == nil {
		dir, files = filepath.Join("/sys/fs/cgroup/memory", name), []string{"memory.limit_in_bytes", "memory.memsw.limit_in_bytes"}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	// The cleanup of the processes, which is registered later, runs before it.
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	text := []byte(strconv.FormatInt(limit, 10))
	if err := os.WriteFile(filepath.Join(dir, files[0]), text, 0o644); err != nil {
		t.Fatal(err)
	}
	if files[1] == "memory.swap.max" {
		text = []byte("0")
	}
	_ = os.WriteFile(filepath.Join(dir, files[1]), text, 0o644) // not there without swap
	return filepath.Join(dir, "cgroup.procs")
}
