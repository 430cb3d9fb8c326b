package procfs

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// CgroupFiles returns where a file of this process's cgroup may be, below the
// file system that begins at root: v1 is its name in a hierarchy of the
// controller's own, v2 in the unified one. In a container the cgroup's path is
// often that of the machine while the mount shows the container's own cgroup as
// its root, so both are named.
func CgroupFiles(root, controller, v1, v2 string) []string {
	b, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return nil
	}
	var own, unified []string
	for line := range strings.Lines(string(b)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3) // number:controllers:path
		if len(fields) != 3 {
			continue
		}
		controllers, path := fields[1], fields[2]
		switch {
		case controllers == "":
			unified = []string{filepath.Join(root, "sys/fs/cgroup", path, v2), filepath.Join(root, "sys/fs/cgroup", v2)}
		case slices.Contains(strings.Split(controllers, ","), controller):
			mount := filepath.Join(root, "sys/fs/cgroup", controller)
			own = []string{filepath.Join(mount, path, v1), filepath.Join(mount, v1)}
		}
	}
	return append(own, unified...) // a controller belongs to one hierarchy: v1 where it is named there
}

// CPULimit returns how many CPUs' time this process's cgroup may use, such as 1.5;
// false if it has no limit, or none that the kernel shows. Limits of the cgroups
// above it are not read.
func CPULimit(root string) (cpus float64, ok bool) {
	for _, path := range CgroupFiles(root, "cpu", "cpu.cfs_quota_us", "cpu.max") {
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		fields := strings.Fields(string(b)) // v2: quota and period
		if period, err := os.ReadFile(filepath.Join(filepath.Dir(path), "cpu.cfs_period_us")); err == nil {
			fields = append(fields, strings.TrimSpace(string(period)))
		}
		if len(fields) != 2 {
			return 0, false
		}
		quota, err := strconv.ParseFloat(fields[0], 64) // v2 writes "max", v1 -1 if there is no limit
		period, err2 := strconv.ParseFloat(fields[1], 64)
		return quota / period, err == nil && err2 == nil && quota > 0 && period > 0
	}
	return 0, false
}
