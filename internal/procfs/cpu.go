package procfs

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// CPUTime is what the machine's CPUs have done since it was booted, in ticks.
type CPUTime struct {
	All   uint64 // of all CPUs together, idle ones included
	Steal uint64 // in which a hypervisor ran others
}

// ReadCPUTime returns the machine's time until now; false if the kernel does not
// show it.
func ReadCPUTime() (CPUTime, bool) {
	b, err := os.ReadFile(filepath.Join(root, "stat"))
	if err != nil {
		return CPUTime{}, false
	}
	return parseCPUTime(b)
}

// parseCPUTime reads the first line of /proc/stat: user, nice, system, idle,
// iowait, irq, softirq, steal, and the guests' time, which is in user and nice
// already (proc_stat(5)).
func parseCPUTime(b []byte) (CPUTime, bool) {
	line, _, _ := bytes.Cut(b, []byte("\n"))
	fields := bytes.Fields(line)
	const steal = 8
	if len(fields) <= steal || string(fields[0]) != "cpu" {
		return CPUTime{}, false
	}
	var t CPUTime
	for i := 1; i <= steal; i++ {
		v, err := strconv.ParseUint(string(fields[i]), 10, 64)
		if err != nil {
			return CPUTime{}, false
		}
		t.All += v
		t.Steal = v
	}
	return t, true
}

// StolenSince returns the share of the machine's CPU time that its hypervisor gave to
// others between two readings, 0 to 1; false if no time has passed, or if the
// kernel's figures stepped back.
func (t CPUTime) StolenSince(from CPUTime) (share float64, ok bool) {
	if t.All <= from.All || t.Steal < from.Steal {
		return 0, false
	}
	return float64(t.Steal-from.Steal) / float64(t.All-from.All), true
}
