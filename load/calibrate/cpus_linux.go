package calibrate

import (
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// allowed returns the CPUs that this process may run on.
func allowed() []int {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	var list []int
	for cpu := 0; len(list) < set.Count(); cpu++ {
		if set.IsSet(cpu) {
			list = append(list, cpu)
		}
	}
	return list
}

// startOn starts a process that may run on the given CPUs only: it inherits
// them from the thread that starts it.
func startOn(cpus []int, start func() error) error {
	if len(cpus) == 0 {
		return start()
	}
	runtime.LockOSThread()
	var before unix.CPUSet
	if unix.SchedGetaffinity(0, &before) != nil || setCPUs(0, cpus) != nil {
		runtime.UnlockOSThread()
		return start() // a sandbox that forbids it
	}
	defer func() {
		// A thread that could not be set free must not run anything else: it ends
		// with its goroutine if it stays locked.
		if unix.SchedSetaffinity(0, &before) == nil {
			runtime.UnlockOSThread()
		}
	}()
	return start()
}

// confine keeps all threads of this process on the given CPUs until release.
// It is false if they could not be kept there.
func confine(cpus []int) (release func(), ok bool) {
	none := func() {}
	var before unix.CPUSet
	if len(cpus) == 0 || unix.SchedGetaffinity(0, &before) != nil {
		return none, false
	}
	var all []int
	for cpu := 0; len(all) < before.Count(); cpu++ {
		if before.IsSet(cpu) {
			all = append(all, cpu)
		}
	}
	release = func() { everyThread(all) }
	if !everyThread(cpus) {
		release()
		return none, false
	}
	return release, true
}

// everyThread sets the CPUs of all threads. A thread begins with those of the
// one that made it, so that after a second look none is left out.
func everyThread(cpus []int) bool {
	for range 2 {
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return false
		}
		for _, t := range threads {
			id, err := strconv.Atoi(t.Name())
			if err != nil {
				return false
			}
			if err := setCPUs(id, cpus); err != nil && err != unix.ESRCH { //nolint:errorlint // an errno as the kernel gives it
				return false
			}
		}
	}
	return true
}

func setCPUs(thread int, cpus []int) error {
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	return unix.SchedSetaffinity(thread, &set)
}
