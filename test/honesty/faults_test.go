//go:build honesty

package honesty

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// where a fault is flagged.
const (
	reason = "invalid_reasons" // the trial is INVALID, the run exits with 3
	remark = "findings"        // the figures stand, and a finding says what to know of them
	class  = "error_class"     // nothing was completed: the row has failed
	column = "column"          // the figures are right in spite of it
)

// A fault is one way in which a measurement goes wrong, or seems to.
type fault struct {
	name   string
	sim    string   // faults of the simulated engine
	set    []string // of the plan
	server func(t *testing.T) string
	prefix []string
	during func(t *testing.T, s *invocation)
	asked  *bool // it is only run for who asks for it

	where, code string
	says        string             // is in its text
	not         string             // a code that would blame another
	holds       func(outcome) bool // of the row
}

var faults = []fault{
	{
		name: "the server stands still", sim: "stall-all=700ms:200ms", set: []string{"load.requests=8"},
		where: remark, code: "server_stalled", says: "while the client ran", not: "client_stalled",
		holds: func(o outcome) bool { return o.number("max_icl_ms") > 600 },
	},
	{name: "kernels are compiled, and its log says so", sim: "compile=700ms", set: []string{"load.requests=64", "matrix.concurrency=8"}, where: reason, code: "compiling", says: "JIT compilation during inference", not: "server_stalled"},
	{name: "kernels are compiled, and nothing says so", sim: "compile=700ms:quiet", set: []string{"load.requests=64", "matrix.concurrency=8"}, where: remark, code: "server_stalled", says: "it may have compiled a kernel", not: "compiling"},
	{
		// The times of the chunks are right, and their gaps are not those of tokens.
		name: "streams stand still, and what they missed comes at once", sim: "stall=4:300ms",
		where: remark, code: "coalesced", says: "wrote several at once", not: "client_stalled",
		holds: func(o outcome) bool { return !usable(o, "p50_itl_ms") && usable(o, "p50_ttft_ms") },
	},
	{
		name: "the client is stopped", set: []string{"load.requests=64"},
		during: func(t *testing.T, s *invocation) {
			s.measuring()
			stop(t, s.cmd.Process.Pid, 1500*time.Millisecond)
		},
		where: reason, code: "client_stalled", says: "its process was stopped",
	},
	{
		name: "the client reads late", prefix: []string{"taskset", "-c", "1", "chrt", "-i", "0"}, set: []string{"load.requests=64", "backend.cpus=[0]"},
		during: hog,
		// A lag is that of the last chunk in a read, and so never much above a gap:
		// what a late read does to gaps shorter than that shows in what it joins.
		where: reason, code: "coalesced", says: "give the client cores of its own",
		holds: func(o outcome) bool { return !usable(o, "p50_itl_ms") },
	},
	{
		name: "chunks are coalesced", sim: "coalesce=4", where: remark, code: "coalesced", says: "wrote several at once",
		holds: func(o outcome) bool { return !usable(o, "p50_itl_ms") && usable(o, "p50_tpot_ms") },
	},
	{name: "the server reads slowly", sim: "slow-read=8000", where: remark, code: "ttft_disagrees", says: "before the engine's clock starts"},
	{name: "the prefix cache is warm", sim: "warm-cache", where: reason, code: "cache_state"},
	{name: "answers stop early", sim: "early-stop=12", where: reason, code: "output_length", says: "12 of 24 tokens"},
	{name: "usage lies", sim: "wrong-usage=3", where: reason, code: "output_length", says: "27 of 24 tokens"},
	{
		name: "usage lies, and any length is right", sim: "wrong-usage=3", set: []string{"load.output=natural"},
		where: remark, code: "tokens_disagree",
	},
	{name: "usage is missing", sim: "no-usage", where: remark, code: "tokens_assumed", says: "20 of 20 completed requests"},
	{name: "usage is missing now and then", sim: "every=4,no-usage", where: remark, code: "tokens_assumed", says: "5 of 20 completed requests"},
	{name: "usage and [DONE] are missing", sim: "no-usage,no-done", where: class, code: "truncated", says: "without [DONE] and without the usage"},
	{
		name: "a chunk has several tokens", sim: "chunk-tokens=4", where: remark, code: "chunks_coalesced", says: "in 120 chunks",
		holds: func(o outcome) bool { return near(o.number("p50_itl_ms"), o.number("p50_icl_ms")/4, 0.3) },
	},
	{
		// The role comes at once, and a prefill of 3,000 tokens takes far longer.
		name: "the first chunk has the role alone", sim: "role-first", set: []string{"load.prompts.input_tokens=3000"},
		where: column, code: "ttft_disagrees",
		holds: func(o outcome) bool {
			return o.number("p50_ttft_ms") > 0.8*o.number("mean_server_ttft_ms") && o.number("min_ttft_ms") > 20
		},
	},
	{
		// TTFT is the first token of any kind, TTFO the first of the answer.
		name: "reasoning comes before the answer", sim: "reasoning=10", where: column, code: "ttft_disagrees",
		holds: func(o outcome) bool {
			return near(o.number("p50_ttfo_ms")-o.number("p50_ttft_ms"), 10*o.number("p50_tpot_ms"), 0.3)
		},
	},
	{name: "an error after status 200", sim: "every=4,error-after=3", where: reason, code: "error_rate", says: "25.0 %"},
	{name: "a reset in mid-stream", sim: "every=4,reset-after=3", where: reason, code: "error_rate", says: "25.0 %"},
	{name: "a response that ends in the middle", sim: "every=4,cut-after=3", where: reason, code: "error_rate", says: "25.0 %"},
	{name: "an event that is no JSON", sim: "every=4,malformed-after=3", where: reason, code: "error_rate", says: "25.0 %"},
	{name: "a line of 2 MiB", sim: "every=4,long-line-after=3", where: reason, code: "error_rate", says: "25.0 %"},
	{name: "a stream that falls silent", sim: "every=4,hang-after=3", set: []string{"timeouts.request=1s"}, where: reason, code: "error_rate", says: "25.0 %"},
	{
		name: "no [DONE]", sim: "no-done", where: column, code: "error_rate",
		holds: func(o outcome) bool { return o.number("completed") == 20 && o.number("failed") == 0 },
	},
	{
		name: "a byte a second", sim: "every=2,trickle=1s", set: []string{"timeouts.request=2s"},
		where: reason, code: "error_rate", says: "50.0 %",
	},
	{name: "the engine is restarted", sim: "restart=10", where: reason, code: "engine_restarted"},
	{name: "the GPU is throttled", sim: "throttle=100ms:1.5", where: reason, code: "gpu_throttled"},
	{name: "others are on the GPU", sim: "gpu-busy=1", set: []string{"validity.max_foreign_processes=0"}, where: reason, code: "gpu_foreign"},
	{
		name: "connections are closed between requests", server: closing(false),
		where: reason, code: "connections_reopened",
	},
	{
		name: "the machine's clock is set", set: []string{"load.requests=64"}, during: setClock, asked: clockFlag,
		where: reason, code: "clock_step", says: "was set 2 times",
	},
	{name: "each request needs a connection of its own", server: closing(true), where: remark, code: "cold_connections"},
}

// TestFaults runs each fault with each client, and the same plan without it:
// the one is flagged for what it is, the other is not flagged for that. The clients
// take their turns side by side, but for faults that are made of this machine.
func TestFaults(t *testing.T) {
	clients := []string{"fast", "std"}
	runs, passed := make([][]int, len(clients)), make([][]int, len(clients)) // by client and fault
	for i := range clients {
		runs[i], passed[i] = make([]int, len(faults)), make([]int, len(faults))
	}
	for group, alone := range map[string]bool{"of the machine": true, "of the server": false} {
		t.Run(group, func(t *testing.T) {
			for i, client := range clients {
				t.Run(client, func(t *testing.T) {
					if !alone {
						t.Parallel()
					}
					seen := controls{}
					for n, f := range faults {
						if f.asked != nil && !*f.asked || alone != (f.during != nil) {
							continue
						}
						t.Run(f.name, func(t *testing.T) {
							runs[i][n]++ // those that -run leaves out are not counted
							if f.run(t, client, seen); !t.Failed() {
								passed[i][n]++
							}
						})
					}
				})
			}
		})
	}
	ran, flagged := 0, 0
	for n := range faults {
		all, good := 0, 0
		for i := range clients {
			all, good = all+runs[i][n], good+passed[i][n]
		}
		if all > 0 {
			ran++
			if good == all {
				flagged++
			}
		}
	}
	fmt.Printf("honesty: %d faults, %d flagged\n", ran, flagged)
}

// run measures until the machine was ours, or the fault is flagged all the same.
func (f fault) run(t *testing.T, client string, seen controls) {
	var wrong []string
	for range *roundsFlag {
		code, o, others := f.measure(t, client, true)
		t.Logf("exit %d, others had %.1f %% of the machine, %s", code, 100*others, o)
		if wrong = f.wrong(code, o); len(wrong) == 0 || others <= disturbed {
			break
		}
	}
	for _, w := range wrong {
		t.Error(w)
	}
	if f.where == reason || f.where == remark {
		f.absent(t, client, seen)
	}
}

// wrong says what a measurement with the fault should have said.
func (f fault) wrong(code int, o outcome) (out []string) {
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	found := slices.Concat(o.Findings, o.Invalid) // a remark may be a reason on a busy machine
	switch f.where {
	case reason:
		found = o.Invalid
		if code != 3 || o.text("status") != "invalid" {
			add("exit %d, status %s; want 3, invalid", code, o.text("status"))
		}
	case class:
		found = []finding{{o.text("error_class"), o.text("error")}}
		if code != 3 || o.text("status") != "failed" {
			add("exit %d, status %s; want 3, failed", code, o.text("status"))
		}
	}
	flagged := false
	for _, x := range found {
		if f.not != "" && x.Code == f.not {
			add("%s is blamed: %s", x.Code, x.Text)
		}
		flagged = flagged || x.Code == f.code && strings.Contains(x.Text, f.says)
	}
	if flagged != (f.where != column) {
		add("flagged for %s (%q): %v", f.code, f.says, flagged)
	}
	if f.holds != nil && !f.holds(o) {
		add("the row is wrong: %v", o.Row)
	}
	return out
}

// absent fails if the same plan is flagged without the fault. Others on the
// machine are a fault too: what they cause is measured again.
func (f fault) absent(t *testing.T, client string, seen controls) {
	for range *roundsFlag {
		o, others := f.control(t, client, seen)
		if !o.has(f.code) {
			return
		}
		t.Logf("without the fault, others had %.1f %% of the machine: %s", 100*others, o)
	}
	t.Errorf("%s is there without the fault", f.code)
}

// control measures the plan of a fault without it. It is the same for many.
func (f fault) control(t *testing.T, client string, seen controls) (outcome, float64) {
	key := strings.Join(f.set, " ")
	if c, ok := seen[key]; ok && !c.outcome.has(f.code) {
		return c.outcome, c.others
	}
	_, o, others := f.measure(t, client, false)
	seen[key] = control{o, others}
	return o, others
}

// controls are what was measured without a fault with one client, by what the plan sets.
type controls map[string]control

type control struct {
	outcome outcome
	others  float64
}

const faultPlan = `version: 1
name: honesty
model: Qwen/Qwen2.5-7B-Instruct
matrix: {engine: under-test, gpu: a100-80gb, concurrency: 4}
backend: %s
engines:
  under-test: {profile: %s}
load:
  requests: 16
  max_tokens: 24
  warmup: {requests: 2}
  prompts: {input_tokens: 100, length: words}
calibrate: never
retries: 0
sinks: [csv: {columns: full}]
`

// measure runs the plan of a fault, with or without it.
func (f fault) measure(t *testing.T, client string, faulty bool) (int, outcome, float64) {
	t.Helper()
	dir := t.TempDir()
	backend, profile := "{kind: sim}", "vllm"
	if f.server != nil && faulty {
		backend, profile = "{kind: endpoint, url: "+f.server(t)+"}", "generic-openai"
	}
	plan := filepath.Join(dir, "honesty.yaml")
	if err := os.WriteFile(plan, fmt.Appendf(nil, faultPlan, backend, profile), 0o600); err != nil {
		t.Fatal(err)
	}
	run := filepath.Join(dir, "run")
	args := []string{"run", "-o", run, "--client", client}
	for _, s := range f.set {
		args = append(args, "--set", s)
	}
	var prefix []string
	if faulty {
		prefix = f.prefix
		if f.sim != "" {
			args = append(args, "--set", "backend.faults=["+f.sim+"]")
		}
	}
	s := start(t, prefix, append(args, plan)...)
	w := watch(t, s.cmd.Process.Pid)
	if faulty && f.during != nil {
		f.during(t, s)
	}
	code := s.wait()
	w.end()
	all := outcomes(t, run)
	if len(all) != 1 {
		t.Fatalf("exit %d, %d cells, want 1", code, len(all))
	}
	return code, all[0], w.others(all[0].Begin, all[0].End)
}

// stop stops a process for a while.
func stop(t *testing.T, pid int, d time.Duration) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(d)
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

// setClock sets the machine's clock ahead for a moment, and back.
func setClock(t *testing.T, s *invocation) {
	t.Helper()
	s.measuring()
	for _, by := range []unix.Timeval{{Usec: 30e6}, {Sec: -1, Usec: 970e6}} {
		// The kernel wants nanoseconds that are never less than none.
		if _, err := unix.Adjtimex(&unix.Timex{Modes: unix.ADJ_SETOFFSET | unix.ADJ_NANO, Time: by}); err != nil {
			t.Fatalf("set the clock: %v; it takes root, or CAP_SYS_TIME", err)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// hog takes CPU 1 for 90 of each 110 ms until a run ends, from all that is less
// than a normal process.
func hog(t *testing.T, s *invocation) {
	t.Helper()
	var done sync.WaitGroup
	done.Go(func() {
		runtime.LockOSThread() // and ends with it
		var one unix.CPUSet
		one.Set(1)
		if err := unix.SchedSetaffinity(0, &one); err != nil {
			t.Error(err)
			return
		}
		for {
			select {
			case <-s.done:
				return
			default:
			}
			for begin := time.Now(); time.Since(begin) < 90*time.Millisecond; {
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	done.Wait()
}

func near(got, want, within float64) bool {
	return got > (1-within)*want && got < (1+within)*want
}
