package guard

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"sweep.dev/sweep/internal/procfs"
)

// An oomWatch tells a process that the kernel's out-of-memory killer ended
// from one that somebody else sent SIGKILL: in the first case a counter has
// moved since the process was started.
//
// The counter is oom_kill of the memory cgroup that we share with the command
// (v2: memory.events, v1: memory.oom_control); it counts kills of the cgroup's
// processes whichever limit was hit, the machine's own included. Then every
// failure of the command counts as one of memory, because an engine whose
// worker was killed exits by itself with a status of its own: vLLM's with 0.
//
// Where no cgroup can be read, it is oom_kill of /proc/vmstat, which counts for
// the whole machine. Then only a SIGKILL counts, or the status 137 by which a
// shell passes one on.
//
// Two commands in one cgroup that fail in the same run, one by a killed worker
// and one of something else, are not told apart.
type oomWatch struct {
	path   string // of the counter; "" if there is none
	shared bool   // the counter is the machine's
	before uint64
}

// watchOOM reads the counter; root is where the file system begins.
func watchOOM(root string) *oomWatch {
	candidates := procfs.CgroupFiles(root, "memory", "memory.oom_control", "memory.events")
	for i, path := range append(candidates, filepath.Join(root, "proc/vmstat")) {
		if n, ok := readCounter(path); ok {
			return &oomWatch{path: path, shared: i == len(candidates), before: n}
		}
	}
	return &oomWatch{}
}

// readCounter reads the line "oom_kill N".
func readCounter(path string) (uint64, bool) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), "oom_kill "); ok {
			n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// killed reports whether e was the out-of-memory killer's doing.
func (w *oomWatch) killed(e Exit) bool {
	if w.path == "" {
		return false
	}
	if w.shared && e.Signal != syscall.SIGKILL && e.Code != 128+int(syscall.SIGKILL) {
		return false
	}
	n, ok := readCounter(w.path)
	return ok && n > w.before
}
