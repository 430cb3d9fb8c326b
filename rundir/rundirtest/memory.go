package rundirtest

import (
	"flag"
	"os"
	"runtime/debug"
)

// InMemory has the tests of this binary make their directories in memory, if the system
// has a file system for that and TMPDIR names no other. Call it first in TestMain. Most
// of the time of a small run on a disk is fsync, and no test needs a real disk: a killed
// process loses nothing of a file system in memory either, and the loss of power is
// simulated. Benchmarks do need one. Garbage is collected less often, too: a thousand
// small runs have a small heap.
func InMemory() {
	if !flag.Parsed() {
		flag.Parse()
	}
	if flag.Lookup("test.bench").Value.String() != "" {
		return
	}
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() && os.Getenv("TMPDIR") == "" {
		_ = os.Setenv("TMPDIR", "/dev/shm")
	}
	debug.SetGCPercent(400)
}
