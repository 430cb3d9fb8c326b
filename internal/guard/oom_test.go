package guard

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// write makes the files of a root.
func write(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOOM(t *testing.T) {
	const (
		v1 = "oom_kill_disable 0\nunder_oom 0\noom_kill "
		v2 = "low 0\nhigh 0\nmax 4\noom 1\noom_kill "
		vm = "nr_free_pages 1\noom_kill "
	)
	killed := Exit{Code: -1, Signal: syscall.SIGKILL}
	failed := Exit{Code: 1}
	for _, c := range []struct {
		name   string
		cgroup string
		path   string // of the counter that moves
		text   string
		exit   Exit
		want   bool
	}{
		{"v2", "0::/a/b\n", "sys/fs/cgroup/a/b/memory.events", v2, killed, true},
		{"v2 in a container", "0::/../x\n", "sys/fs/cgroup/memory.events", v2, killed, true},
		{"v1", "5:cpu:/\n4:memory,x:/a\n0::/\n", "sys/fs/cgroup/memory/a/memory.oom_control", v1, killed, true},
		{"v1 in a container", "4:memory:/host/path\n", "sys/fs/cgroup/memory/memory.oom_control", v1, killed, true},
		{"a worker was killed", "0::/a\n", "sys/fs/cgroup/a/memory.events", v2, failed, true},
		{"a worker was killed and the server ends with 0", "0::/a\n", "sys/fs/cgroup/a/memory.events", v2, Exit{}, true},
		{"the machine's counter", "", "proc/vmstat", vm, killed, true},
		{"the machine's counter, by a shell", "", "proc/vmstat", vm, Exit{Code: 137}, true},
		{"the machine's counter, another's death", "", "proc/vmstat", vm, failed, false},
		{"nothing moved", "0::/a\n", "elsewhere", "", killed, false},
	} {
		root := t.TempDir()
		write(t, root, map[string]string{"proc/self/cgroup": c.cgroup, "proc/vmstat": vm + "3\n"})
		if c.text != "" {
			write(t, root, map[string]string{c.path: c.text + "3\n"})
		}
		w := watchOOM(root)
		if w.killed(c.exit) {
			t.Errorf("%s: said so before the counter moved", c.name)
		}
		write(t, root, map[string]string{c.path: c.text + "4\n"})
		if got := w.killed(c.exit); got != c.want {
			t.Errorf("%s: got %v", c.name, got)
		}
	}
	if watchOOM(t.TempDir()).killed(killed) {
		t.Error("said so without any counter")
	}
}
