package attempt

import "sweep.dev/sweep/internal/procfs"

// stealing begins to look at the CPU time that the machine's hypervisor gives to
// others; the returned function ends that.
func (a *Attempt) stealing() (stop func()) {
	from, ok := procfs.ReadCPUTime()
	return func() {
		if to, still := procfs.ReadCPUTime(); ok && still {
			if share, known := to.StolenSince(from); known {
				a.stolen = &share
			}
		}
	}
}
