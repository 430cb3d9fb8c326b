package proc

import (
	"os"
	"strconv"
	"time"
)

// maxThreads bounds how many threads of a server are read: two files of the kernel's for
// each trial and thread.
const maxThreads = 4096

// threads are the CPU times of threads since they began.
type threads map[id]time.Duration

// readThreads reads those of processes. It sees none of a process that is not ours to see.
func readThreads(pids []int) threads {
	all := threads{}
	for _, pid := range pids {
		folder := "/proc/" + strconv.Itoa(pid) + "/task"
		f, err := os.Open(folder)
		if err != nil {
			continue
		}
		names, _ := f.Readdirnames(maxThreads) // those that are there
		_ = f.Close()                          // read only
		for _, name := range names {
			tid, err := strconv.Atoi(name)
			if err != nil || len(all) == maxThreads {
				continue
			}
			if s, ok := readStatOf(folder + "/" + name); ok {
				all[id{tid, s.start}] = s.cpu
			}
		}
	}
	return all
}

// busiest returns the most that one thread has used since an earlier look. A thread that was
// not there then counts from its start; one that has ended does not count.
func (t threads) busiest(before threads) (most time.Duration) {
	for key, used := range t {
		most = max(most, used-before[key])
	}
	return most
}
