package procfs

import (
	"os"
	"path/filepath"
	"testing"
)

func TestCPULimit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files map[string]string
		want  float64
	}{
		"v2": {map[string]string{
			"proc/self/cgroup": "0::/pod/client\n", "sys/fs/cgroup/pod/client/cpu.max": "150000 100000\n",
		}, 1.5},
		"v2, no limit": {map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n",
		}, 0},
		"v2, the container's own cgroup is the mount's root": {map[string]string{
			"proc/self/cgroup": "0::/machine/path\n", "sys/fs/cgroup/cpu.max": "50000 100000\n",
		}, 0.5},
		"v1": {map[string]string{
			"proc/self/cgroup":                        "3:cpu,cpuacct:/a\n0::/\n",
			"sys/fs/cgroup/cpu/a/cpu.cfs_quota_us":    "200000\n",
			"sys/fs/cgroup/cpu/a/cpu.cfs_period_us":   "100000\n",
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us":      "-1\n",
			"sys/fs/cgroup/cpu/cpu.cfs_period_us":     "100000\n",
			"sys/fs/cgroup/cpu.max":                   "100000 100000\n",
			"sys/fs/cgroup/cpuacct/a/irrelevant_file": "1\n",
		}, 2},
		"v1, no limit": {map[string]string{
			"proc/self/cgroup":                    "1:cpu:/\n",
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us":  "-1\n",
			"sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
		}, 0},
		"cut":  {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "100000\n"}, 0},
		"none": {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := tree(t, c.files)
			if got, ok := CPULimit(root); ok != (c.want > 0) || ok && got != c.want {
				t.Errorf("%v, %v; want %v", got, ok, c.want)
			}
		})
	}
}

func TestThrottled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files map[string]string
		want  int
		ok    bool
	}{
		"v2":      {map[string]string{"proc/self/cgroup": "0::/pod\n", "sys/fs/cgroup/pod/cpu.stat": "usage_usec 5\nnr_periods 9\nnr_throttled 3\n"}, 3, true},
		"v1":      {map[string]string{"proc/self/cgroup": "3:cpu:/a\n", "sys/fs/cgroup/cpu/a/cpu.stat": "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n"}, 0, true},
		"no line": {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.stat": "usage_usec 5\n"}, 0, false},
		"none":    {nil, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := tree(t, c.files)
			if n, ok := Throttled(root); n != c.want || ok != c.ok {
				t.Errorf("%d, %v; want %d, %v", n, ok, c.want, c.ok)
			}
		})
	}
}

// tree returns a folder with files, by their paths below it.
func tree(t *testing.T, files map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	for path, text := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}
