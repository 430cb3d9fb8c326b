package load

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// watchedEnv makes this test binary a process with a watch, which says what
// the watch saw once its standard input ends.
const watchedEnv = "SWEEP_LOAD_WATCHED"

func watched() {
	w := StartWatch()
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	fmt.Println(w.Stop().MaxGap)
}

// A client that was stopped in the middle measured nothing worth having: its
// watch must tell.
func TestWatch_stoppedProcess(t *testing.T) {
	const stop = 800 * time.Millisecond
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), watchedEnv+"=1")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stdout)
	line, err := lines.ReadString('\n')
	if err != nil || line != "ready\n" {
		t.Fatalf("%q %v", line, err)
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(stop)
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	stdin.Close()
	line, err = lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	gap, err := time.ParseDuration(strings.TrimSpace(line))
	if err != nil || gap < stop-2*watchPeriod {
		t.Errorf("stopped for %v, and the watch saw %v (%v)", stop, gap, err)
	}
}
