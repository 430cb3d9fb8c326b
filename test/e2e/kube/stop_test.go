//go:build e2e_kube

package kube

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sweep.dev/sweep/internal/polltest"
)

// stop ends what was started, the kubelet first so that nothing is started again, and
// removes every trace. It says what it could not remove.
func (n *node) stop() error {
	if n.dir == "" {
		return nil
	}
	var faults []error
	if n.dns != nil {
		n.dns.Close()
	}
	if n.inside != nil {
		n.inside.Close()
	}
	for _, name := range []string{"kubelet", "scheduler", "manager", "apiserver", "etcd"} {
		n.end(name)
	}
	var containers []string // pods that ended before are still known
	if list, err := n.ctrOutput("containers", "ls", "-q"); err == nil {
		containers = strings.Fields(list)
	}
	if tasks, err := n.ctrOutput("tasks", "ls", "-q"); err == nil {
		for task := range strings.FieldsSeq(tasks) {
			_ = n.ctr("tasks", "kill", "-s", "KILL", task)
		}
		// The network of a pod is in a namespace that is mounted.
		polltest.Within(5*time.Second, func() bool {
			left, err := n.ctrOutput("tasks", "ls")
			return err != nil || !strings.Contains(left, "RUNNING")
		})
	}
	n.end("containerd")
	for _, pid := range n.shims() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	polltest.Within(5*time.Second, func() bool { return len(n.shims()) == 0 })
	if left := n.shims(); len(left) > 0 {
		faults = append(faults, fmt.Errorf("processes are left: %v", left))
	}
	for _, at := range n.mounts() {
		_ = syscall.Unmount(at, syscall.MNT_DETACH)
	}
	if left := n.mounts(); len(left) > 0 {
		return errors.Join(append(faults, fmt.Errorf("still mounted, so nothing is removed: %v", left))...)
	}
	n.namespaces()
	if out, err := exec.Command("ip", "link", "del", n.bridge).CombinedOutput(); err != nil && !strings.Contains(string(out), "Cannot find device") {
		faults = append(faults, fmt.Errorf("ip link del %s: %w: %s", n.bridge, err, out))
	}
	n.traces(containers)
	return errors.Join(append(faults, os.RemoveAll(n.dir))...)
}

// traces removes what the kubelet, runc and the CNI plugins leave outside of the folder.
func (n *node) traces(containers []string) {
	logs, _ := filepath.Glob("/var/log/containers/*.log")
	for _, l := range logs {
		if to, err := os.Readlink(l); err == nil && strings.HasPrefix(to, n.dir+"/") {
			_ = os.Remove(l)
		}
	}
	results, _ := filepath.Glob("/var/lib/cni/results/*")
	for _, r := range results {
		name := filepath.Base(r)
		if strings.HasPrefix(name, n.bridge+"-") || slices.ContainsFunc(containers, func(id string) bool { return strings.Contains(name, id) }) {
			_ = os.Remove(r)
		}
	}
	groups, _ := filepath.Glob("/sys/fs/cgroup/*/k8s.io")
	for _, g := range append(groups, "/sys/fs/cgroup/k8s.io") {
		_ = syscall.Rmdir(g) // fails if somebody is in it
	}
}

// end ends a process of ours, with force after ten seconds.
func (n *node) end(name string) {
	for _, p := range n.processes {
		if p.name != name {
			continue
		}
		// The store is thrown away: nobody needs a polite end of the API server.
		signal := syscall.SIGTERM
		if name == "apiserver" || name == "etcd" {
			signal = syscall.SIGKILL
		}
		_ = p.cmd.Process.Signal(signal)
		select {
		case <-p.done:
		case <-time.After(10 * time.Second):
			_ = p.cmd.Process.Kill()
			<-p.done
		}
	}
}

// shims returns the processes that containerd left running for its containers: their command
// lines have its socket in them.
func (n *node) shims() (pids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		line, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if strings.Contains(string(line), "containerd-shim") && strings.Contains(string(line), n.file("containerd.sock")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// mounts returns the mounts below the node's folder, the deepest first.
func (n *node) mounts() (at []string) {
	text, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4], n.dir+"/") {
			at = append(at, fields[4])
		}
	}
	slices.Sort(at)
	slices.Reverse(at)
	return at
}

// namespaces removes the network namespaces of pods: those whose interface has an address
// of our network. Each pod's is a file that a namespace is mounted on.
func (n *node) namespaces() {
	files, _ := filepath.Glob("/run/netns/cni-*")
	for _, f := range files {
		out, err := exec.Command("nsenter", "--net="+f, "ip", "-4", "-o", "addr").CombinedOutput()
		if err == nil && strings.Contains(string(out), " "+n.network+".") {
			_ = syscall.Unmount(f, syscall.MNT_DETACH)
			_ = os.Remove(f)
		}
	}
}
