package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// ticks is what the kernel counts CPU time in for everyone outside of it:
// USER_HZ, which is 100 on every architecture that Go knows.
const ticks = 100

// A stat is what /proc/PID/stat says of the work of one process.
type stat struct {
	state  byte          // R, S, D, T, Z, ...
	start  uint64        // clock ticks since boot; with the pid it names a process for good
	cpu    time.Duration // user and system
	memory uint64        // resident, bytes
}

func readStat(pid int) (stat, bool) { return readStatOf("/proc/" + strconv.Itoa(pid)) }

func readStatOf(folder string) (stat, bool) {
	b, err := os.ReadFile(folder + "/stat")
	if err != nil {
		return stat{}, false
	}
	s, err := parseStat(b)
	return s, err == nil
}

// parseStat reads the fields of proc(5) by their numbers there. The second,
// the command's name, may hold blanks and parentheses; counting begins behind
// its last one.
func parseStat(b []byte) (stat, error) {
	end := bytes.LastIndexByte(b, ')')
	if end < 0 {
		return stat{}, fmt.Errorf("no process name in %q", b)
	}
	fields := strings.Fields(string(b[end+1:]))
	const first = 3 // the number of fields[0]
	var numbers [4]uint64
	for i, n := range [...]int{14, 15, 22, 24} { // utime, stime, starttime, rss
		if n-first >= len(fields) {
			return stat{}, fmt.Errorf("%d fields in %q", len(fields)+first-1, b)
		}
		v, err := strconv.ParseUint(fields[n-first], 10, 64)
		if err != nil {
			return stat{}, fmt.Errorf("field %d of %q: %w", n, b, err)
		}
		numbers[i] = v
	}
	return stat{
		state:  fields[0][0],
		start:  numbers[2],
		cpu:    time.Duration(numbers[0]+numbers[1]) * (time.Second / ticks),
		memory: numbers[3] * uint64(os.Getpagesize()),
	}, nil
}

// A tree adds up the work of processes that come and go.
type tree struct {
	seen  map[id]time.Duration
	total time.Duration // since the first look, also of those that have ended
	looks int
}

type id struct {
	pid   int
	start uint64
}

// stopped returns how many of the processes of the last look are in state T.
func (t *tree) stopped(read func(int) (stat, bool)) (n int) {
	for p := range t.seen {
		if s, ok := read(p.pid); ok && s.start == p.start && s.state == stopped {
			n++
		}
	}
	return n
}

// stopped is the state of a process that SIGSTOP or a terminal has stopped; one
// that a debugger holds is in another (proc_pid_stat(5)).
const stopped = 'T'

// observe reads the current processes. CPU time before the first look does not count;
// a process that shows up later counts from its start. The time that a process used
// between the last look and its end is lost.
func (t *tree) observe(pids []int, read func(int) (stat, bool)) (processes int, memory uint64) {
	now := make(map[id]time.Duration, len(pids))
	for _, pid := range pids {
		s, ok := read(pid)
		if !ok {
			continue
		}
		key := id{pid, s.start}
		if _, twice := now[key]; twice {
			continue
		}
		now[key] = s.cpu
		memory += s.memory
		processes++
		if t.looks > 0 {
			t.total += max(s.cpu-t.seen[key], 0)
		}
	}
	t.seen = now
	t.looks++
	return processes, memory
}
