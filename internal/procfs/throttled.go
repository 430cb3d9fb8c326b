package procfs

import (
	"os"
	"strconv"
	"strings"
)

// Throttled returns in how many periods the kernel has held this process's cgroup back at
// its CPU limit (nr_throttled of cpu.stat); false if the kernel does not say. root is
// where the file system begins.
func Throttled(root string) (periods int, ok bool) {
	for _, path := range CgroupFiles(root, "cpu", "cpu.stat", "cpu.stat") {
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			if name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name == "nr_throttled" {
				n, err := strconv.Atoi(value)
				return n, err == nil
			}
		}
	}
	return 0, false
}
