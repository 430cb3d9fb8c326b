// Package procfs reads what the kernel knows of processes: who descends from
// whom, since when a process runs, and what stood in its environment when it
// started. Everywhere but on Linux it knows nothing and says so with empty
// answers.
//
// A listing is not a moment: processes come and go while it is read. Callers
// that end processes repeat until nothing is left.
package procfs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// root is where the kernel shows its processes.
const root = "/proc"

// A Process is one line of the process table.
type Process struct {
	PID    int
	Parent int
	State  byte   // 'R', 'S', 'D', 'T', 'Z', ... as in proc(5)
	Start  uint64 // clock ticks since boot; with the pid it names a process for good
}

// Alive reports whether the process has not ended: a zombie has.
func (p Process) Alive() bool { return p.State != 'Z' && p.State != 'X' }

// Stat looks one process up; false if there is none.
func Stat(pid int) (Process, bool) {
	b, err := os.ReadFile(filepath.Join(root, strconv.Itoa(pid), "stat"))
	if err != nil {
		return Process{}, false
	}
	p, err := parseStat(b)
	return p, err == nil
}

// parseStat reads /proc/PID/stat. The command's name, the second field, may
// hold blanks and parentheses, so fields are counted from the last one.
func parseStat(b []byte) (Process, error) {
	first, rest, ok := bytes.Cut(b, []byte(" ("))
	end := bytes.LastIndexByte(rest, ')')
	if !ok || end < 0 {
		return Process{}, fmt.Errorf("no process name in %q", b)
	}
	fields := strings.Fields(string(rest[end+1:])) // from the third field, the state
	if len(fields) < 20 || len(fields[0]) != 1 {
		return Process{}, fmt.Errorf("%d fields in %q", len(fields), b)
	}
	pid, errPID := strconv.Atoi(string(first))
	parent, errParent := strconv.Atoi(fields[1])
	start, errStart := strconv.ParseUint(fields[19], 10, 64)
	for _, err := range []error{errPID, errParent, errStart} {
		if err != nil {
			return Process{}, err
		}
	}
	return Process{PID: pid, Parent: parent, State: fields[0][0], Start: start}, nil
}

// All lists every process that we may see.
func All() []Process {
	var all []Process
	for _, pid := range pids() {
		if p, ok := Stat(pid); ok {
			all = append(all, p)
		}
	}
	return all
}

func pids() []int {
	dir, err := os.Open(root)
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // what was read before an error still counts
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// Descendants returns the living descendants of a process, without itself,
// parents before their children.
func Descendants(pid int) []int {
	children := map[int][]Process{}
	for _, p := range All() {
		children[p.Parent] = append(children[p.Parent], p)
	}
	var tree []int
	for queue := []int{pid}; len(queue) > 0; queue = queue[1:] {
		for _, c := range children[queue[0]] {
			// A zombie's children have gone to another parent, but a process
			// whose first thread has ended looks like one and still has them.
			queue = append(queue, c.PID)
			if c.Alive() {
				tree = append(tree, c.PID)
			}
		}
	}
	return tree
}

// Below returns what [Descendants] returns at the cost of the tree alone and not of all
// processes of the machine: it reads the children of each thread. The kernel may leave out
// a child while a sibling ends, so it is for figures; to end processes use Descendants.
func Below(pid int) []int {
	if _, err := os.Stat(filepath.Join(root, "thread-self/children")); err != nil {
		return Descendants(pid) // a kernel without CONFIG_PROC_CHILDREN
	}
	var tree []int
	seen := map[int]bool{pid: true} // a process that moves to another parent meanwhile
	for queue := []int{pid}; len(queue) > 0; queue = queue[1:] {
		for _, child := range children(queue[0]) {
			if seen[child] {
				continue
			}
			seen[child] = true
			queue = append(queue, child)
			if p, ok := Stat(child); ok && p.Alive() {
				tree = append(tree, child)
			}
		}
	}
	return tree
}

// children returns the children of all threads of a process, sorted.
func children(pid int) []int {
	tasks := filepath.Join(root, strconv.Itoa(pid), "task")
	threads, _ := os.ReadDir(tasks) // none if it has ended
	var pids []int
	for _, thread := range threads {
		b, err := os.ReadFile(filepath.Join(tasks, thread.Name(), "children"))
		if err != nil {
			continue // the thread has ended
		}
		for field := range strings.FieldsSeq(string(b)) {
			if child, err := strconv.Atoi(field); err == nil {
				pids = append(pids, child)
			}
		}
	}
	slices.Sort(pids)
	return pids
}

// An Environ is the environment that a process was started with.
type Environ []byte

// ReadEnviron reads a process's environment; nil if there is no such
// process or it belongs to somebody else.
func ReadEnviron(pid int) Environ {
	b, err := os.ReadFile(filepath.Join(root, strconv.Itoa(pid), "environ"))
	if err != nil {
		return nil
	}
	return b
}

// Lookup returns the value of a variable.
func (e Environ) Lookup(name string) (string, bool) {
	for line := range bytes.SplitSeq(e, []byte{0}) {
		if v, ok := bytes.CutPrefix(line, []byte(name+"=")); ok {
			return string(v), true
		}
	}
	return "", false
}

// Has reports whether every variable of want stands in the environment. Nothing
// wanted is not found: an empty question must not match every process.
func (e Environ) Has(want map[string]string) bool {
	for name, value := range want {
		if v, ok := e.Lookup(name); !ok || v != value {
			return false
		}
	}
	return len(want) > 0
}

// With lists the living processes whose environment has every variable of
// want. It never lists this process, whatever it was started with.
func With(want map[string]string) []Process {
	var found []Process
	for _, pid := range pids() {
		if pid == os.Getpid() || !ReadEnviron(pid).Has(want) {
			continue
		}
		if p, ok := Stat(pid); ok && p.Alive() {
			found = append(found, p)
		}
	}
	return found
}

// BootID names the running boot of the machine; pids and start times mean
// nothing across two of them. Empty if it is not known.
func BootID() string {
	b, err := os.ReadFile(filepath.Join(root, "sys/kernel/random/boot_id"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
