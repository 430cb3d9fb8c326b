package sim

import (
	"bytes"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/sim/live"
)

// TestResync: a process that was stopped does not make up for the steps that
// it missed.
func TestResync(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "--model", "tiny", "--port", "0", "--gpu", "t4", "--jitter", "0")
	cmd.Env = append(os.Environ(), "SIM_MAIN=1")
	log := &syncBuffer{}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	in := attach(t, log)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _, _ = in.try("POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"max_tokens":4000,"ignore_eos":true,"stream":true}`)
	}()
	polltest.Until(t, "a request runs", func() bool { return in.metric("vllm:num_requests_running{") != 0 })
	if n := in.metric("sim_clock_resyncs_total"); n != 0 {
		t.Logf("%v resyncs before the stop: a starved machine", n)
	}
	const pause = 4 * live.MaxLag
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(pause)
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	<-done
	if in.metric("sim_clock_resyncs_total") == 0 {
		t.Error("a pause of 400 ms went unnoticed")
	}
	// The pause is not in the engine's own time: it stood still. How long the
	// first step had to wait for a CPU is another matter.
	steps, busy := in.metric("sim_steps_total"), in.metric("sim_busy_seconds_total")
	if ran := in.metric("vllm:request_inference_time_seconds_sum{"); steps != 4000 || ran > busy*1.01 {
		t.Errorf("%v steps, %v s in them, %v s from the first to the last", steps, busy, ran)
	}
	if !bytes.Contains([]byte(log.String()), []byte("startup complete")) {
		t.Error("no log")
	}
}
