package procfs

import (
	"os"
	"os/exec"
	"slices"
	"testing"
)

func TestParseStat(t *testing.T) {
	const tail = " S 41 40 40 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 10 11"
	for _, c := range []struct {
		name, in string
		want     Process
		bad      bool
	}{
		{name: "plain", in: "42 (sh)" + tail, want: Process{42, 41, 'S', 987654}},
		{name: "a name made to confuse", in: "42 (a) S 1 (b)" + tail, want: Process{42, 41, 'S', 987654}},
		{name: "empty", in: "", bad: true},
		{name: "cut off", in: "42 (sh) S 41 40", bad: true},
		{name: "no end of the name", in: "42 (sh", bad: true},
		{name: "not a pid", in: "x (sh)" + tail, bad: true},
	} {
		got, err := parseStat([]byte(c.in))
		if (err != nil) != c.bad || got != c.want {
			t.Errorf("%s: got %+v, %v", c.name, got, err)
		}
	}
}

func TestStat_self(t *testing.T) {
	p, ok := Stat(os.Getpid())
	if !ok || p.PID != os.Getpid() || p.Parent != os.Getppid() || p.Start == 0 || !p.Alive() {
		t.Errorf("got %+v, %v", p, ok)
	}
	if _, ok := Stat(1 << 30); ok {
		t.Error("a process that cannot be was found")
	}
}

func TestDescendants_grandchildren(t *testing.T) {
	cmd := exec.Command("sh", "-c", `sleep 60 & echo $!; wait`)
	cmd.Env = append(os.Environ(), "PROCFS_TEST=yes", "PROCFS_OTHER=a=b")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 16)
	if _, err := out.Read(buf); err != nil {
		t.Fatal(err)
	}
	tree, below := Descendants(os.Getpid()), Below(os.Getpid())
	found := With(map[string]string{"PROCFS_TEST": "yes", "PROCFS_OTHER": "a=b"})
	for _, pid := range slices.Backward(tree) {
		if p, err := os.FindProcess(pid); err == nil {
			_ = p.Kill() // ended already is as good
		}
	}
	_ = cmd.Wait() // killed

	if len(tree) != 2 || tree[0] != cmd.Process.Pid {
		t.Errorf("got tree %v, want the shell %d and its child", tree, cmd.Process.Pid)
	}
	if !slices.Equal(below, tree) {
		t.Errorf("by the threads' children the tree is %v, want %v", below, tree)
	}
	var pids []int
	for _, p := range found {
		pids = append(pids, p.PID)
	}
	if !slices.Equal(pids, slices.Sorted(slices.Values(tree))) {
		t.Errorf("found %v by environment, want %v", pids, tree)
	}
	if all := With(nil); len(all) != 0 {
		t.Errorf("found %v for nothing", all)
	}
	if left := With(map[string]string{"PROCFS_TEST": "no"}); len(left) != 0 {
		t.Errorf("found %v for a value that nobody has", left)
	}
}

func TestBootID(t *testing.T) {
	if len(BootID()) != 36 {
		t.Errorf("got %q", BootID())
	}
}

func BenchmarkDescendants(b *testing.B) {
	for name, tree := range map[string]func(int) []int{"all": Descendants, "below": Below} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				tree(os.Getpid())
			}
		})
	}
}
