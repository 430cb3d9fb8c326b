package calibrate

import (
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// divide gives the last of the CPUs to the server and all others to the client.
// A single one they share.
func divide(cpus []int) (client, server []int) {
	if len(cpus) < 2 {
		return cpus, nil
	}
	return cpus[:len(cpus)-1], cpus[len(cpus)-1:]
}

// ThisMachine returns where this process runs; sweep is the program's version.
func ThisMachine(sweep string) Machine {
	m := Machine{CPUs: len(allowed()), Sweep: sweep, CPU: runtime.GOARCH, Kernel: runtime.GOOS}
	m.Host, _ = os.Hostname() // "" tells it from no other: it is a name, not a key
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:])
	}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
				m.CPU = strings.TrimSpace(value)
				break
			}
		}
	}
	return m
}
