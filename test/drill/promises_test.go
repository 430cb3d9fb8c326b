//go:build drill

package drill

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/runpod/runpodtest"
	"sweep.dev/sweep/internal/polltest"
)

// enter makes a world of its own, whose plan has another shape, and fails the
// test with everything that was wrong with it.
func enter(t *testing.T, s scenario, x *shape, change func(*runpodtest.Options)) *world {
	t.Helper()
	t.Parallel()
	bin, err := program()
	if err != nil {
		t.Fatal(err)
	}
	w, err := newWorld(t.Context(), bin, t.TempDir(), s, 1+*seedFlag, change)
	if err != nil {
		t.Fatal(err)
	}
	stop := watch(w.credentials, func(text string) { w.fault("%s", text) })
	t.Cleanup(func() {
		stop()
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		for _, p := range w.problems {
			t.Error(p)
		}
		if t.Failed() {
			t.Log(w.log.String())
			for _, ev := range w.Events() {
				t.Logf("%s %v", ev.Received.UTC().Format("15:04:05.000"), ev)
			}
		}
	})
	if x != nil {
		if err := os.WriteFile(filepath.Join(w.dir, "plan.yaml"), []byte(s.shaped(w.ProxyURL(), *x)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// long returns a plan whose deployments are busy for minutes, each on the same GPU.
func long(pods int) *shape {
	x := &shape{gpus: []string{"rtx-2000-ada"}, load: "duration: 2m", poll: 100 * time.Millisecond, calls: 6000}
	for i := range pods {
		x.seqs = append(x.seqs, 8+i)
	}
	return x
}

// busy waits until a run measures on all its pods.
func (c *child) busy(t *testing.T, pods int) {
	t.Helper()
	if !polltest.Within(polltest.Patience, func() bool {
		b, err := os.ReadFile(filepath.Join(c.w.run, "journal.jsonl"))
		if err == nil && strings.Count(string(b), "trial_begun") >= pods {
			return true
		}
		select {
		case <-c.over:
			t.Fatalf("the run ends with %d", c.wait().code)
		default:
		}
		return false
	}) {
		c.signal(syscall.SIGKILL)
		c.wait()
		t.Fatal("no trial on each pod within a minute")
	}
}

// tried waits until a run has asked so many times for the end of a pod.
func (c *child) tried(t *testing.T, deletes int) {
	t.Helper()
	polltest.Until(t, fmt.Sprint(deletes, " deletes"), func() bool { return len(c.w.Audit().Deletes) >= deletes })
}

// TestPromiseP4: a create without a clear answer never makes a second pod, and
// none is lost, however late the account lists it.
func TestPromiseP4(t *testing.T) {
	for _, lag := range []string{"", "list-lag=1500ms", "get-404-after-create=1500ms"} {
		for _, form := range []string{"create-500-but-creates:3", "create-hangs:3", "create-drops-connection:3", "create-late=1s:3", "double-create:3"} {
			t.Run(form+" "+lag, func(t *testing.T) {
				s := scenario{class: "promise", faults: []string{form}, then: []step{stepResume}}
				if lag != "" {
					s.faults = append(s.faults, lag)
				}
				w := enter(t, s, nil, nil)
				w.play()
				pods := deployments
				if strings.HasPrefix(form, "double") {
					pods *= 2
				}
				if a := w.Audit(); a.Creates != deployments || len(a.Pods) != pods {
					t.Errorf("%d creates made %d pods, want %d and %d", a.Creates, len(a.Pods), deployments, pods)
				}
			})
		}
	}
}

// TestPromiseP6: where a DELETE keeps failing, sweep tries until its time is
// over, and then says what is left, what it costs, and how to end it, which
// works.
func TestPromiseP6(t *testing.T) {
	for _, fault := range []string{"delete-403", "delete-500:*", "delete-200-but-alive=1000000:*"} {
		t.Run(fault, func(t *testing.T) {
			w := enter(t, scenario{class: "promise", faults: []string{fault}}, long(2), nil)
			c := w.begin("", "run", "-o", w.run, "--parallel=2", "plan.yaml")
			c.busy(t, 2)
			c.signal(syscall.SIGINT)
			if !*fullFlag && fault != "delete-403" {
				c.tried(t, 4)            // each pod twice, in vain
				c.signal(syscall.SIGINT) // else it goes on for minutes
			}
			e := c.wait()
			if e.code != exitCleanup {
				t.Fatalf("exit %d", e.code)
			}
			for _, h := range w.Audit().Alive() {
				if !strings.Contains(e.stderr, h.ID) || !strings.Contains(e.stderr, h.Name) {
					t.Errorf("pod %s (%s) is alive and not named", h.ID, h.Name)
				}
			}
			if !strings.Contains(e.stderr, "$0.48/h") {
				t.Error("what is left costs $0.48/h, and that is not said")
			}
			if strings.HasPrefix(fault, "delete-200") {
				w.Close() // these pods never go
				return
			}
			_, line, ok := strings.Cut(e.stderr, "to end them: sweep ")
			line, _, _ = strings.Cut(line, "\n")
			if !ok || line == "" {
				t.Fatal("the command that ends what is left is not said")
			}
			if fault == "delete-403" { // else it goes on for minutes, too
				if e := w.command("", strings.Fields(line)...); e.code != exitCleanup {
					t.Errorf("gc in vain ends with %d", e.code)
				}
			}
			w.SetFaults()
			if e := w.command("", strings.Fields(line)...); e.code != exitOK {
				t.Errorf("gc ends with %d", e.code)
			}
			w.finish()
		})
	}
}

// TestPromiseP8: pods are found and ended though their run directory is deleted
// while the run is at work.
func TestPromiseP8(t *testing.T) {
	for _, how := range []string{"interrupted", "killed"} {
		t.Run(how, func(t *testing.T) {
			w := enter(t, scenario{class: "promise"}, long(2), nil)
			c := w.begin("op:before@1000000", "run", "-o", w.run, "--parallel=2", "plan.yaml")
			c.busy(t, 2)
			// The run writes into it meanwhile.
			polltest.Until(t, "the run directory is gone", func() bool { return os.RemoveAll(w.run) == nil })
			if how == "interrupted" {
				c.signal(syscall.SIGINT)
				if e := c.wait(); e.code == exitOK {
					t.Errorf("exit %d", e.code)
				}
			} else {
				c.signal(syscall.SIGKILL)
				c.wait()
				name, _ := backends.ParseName(w.Audit().Alive()[0].Name)
				if e := w.command("", "gc", "--backend=runpod", "--yes", "--run="+name.Run); e.code != exitOK {
					t.Errorf("gc ends with %d", e.code)
				}
			}
			w.finish()
		})
	}
}

// TestPromiseP12: a CI runner that cancels sends SIGINT, SIGTERM after 7.5 s and
// SIGKILL after 10 s. The account has every DELETE within 2 s, and nothing is
// left.
func TestPromiseP12(t *testing.T) {
	const pods = 8
	for _, fault := range []string{"", "delete-200-but-alive=2:8", "delete-500=4", "read-500=4"} {
		t.Run(fault, func(t *testing.T) {
			s := scenario{class: "promise"}
			w := enter(t, s, long(pods), nil)
			c := w.begin("op:before@1000000", "run", "-o", w.run, fmt.Sprintf("--parallel=%d", pods), "plan.yaml")
			c.busy(t, pods)
			if fault != "" {
				w.SetFaults(fault)
			}
			c.signal(syscall.SIGINT)
			at := time.Now()
			term := time.AfterFunc(7500*time.Millisecond, func() { c.signal(syscall.SIGTERM) })
			kill := time.AfterFunc(10*time.Second, func() { c.signal(syscall.SIGKILL) })
			e := c.wait()
			took := time.Since(at)
			term.Stop()
			kill.Stop()
			a := w.Audit()
			first := map[string]time.Duration{}
			for _, d := range a.Deletes {
				for _, name := range d.Pods {
					if _, seen := first[name]; !seen {
						first[name] = d.Received.Sub(at)
					}
				}
			}
			if len(first) != pods {
				t.Errorf("DELETEs of %d pods were received, want %d", len(first), pods)
			}
			var last time.Duration
			for name, d := range first {
				last = max(last, d)
				if d > 2*time.Second {
					t.Errorf("the DELETE of %s was received after %v", name, d)
				}
			}
			t.Logf("exit %d after %v, the last DELETE after %v", e.code, took.Round(time.Millisecond), last.Round(time.Millisecond))
			if e.code != exitInt && !(e.code == exitKilled && len(a.Alive()) == 0) {
				t.Errorf("exit %d", e.code)
			}
			w.finish()
		})
	}
}

// TestPromiseP28: eight deployments at once stay under the account's limit, and
// wait as long as a 429 says.
func TestPromiseP28(t *testing.T) {
	x := long(8)
	x.load, x.poll, x.calls = fmt.Sprintf("requests: %d", requests), time.Second, 120
	t.Run("limit", func(t *testing.T) {
		w := enter(t, scenario{class: "promise"}, x, func(o *runpodtest.Options) { o.PerMinute = 120 })
		if e := w.command("", "run", "-o", w.run, "--parallel=8", "plan.yaml"); e.code != exitOK {
			t.Errorf("exit %d", e.code)
		}
		over := slices.DeleteFunc(w.Events(), func(ev runpodtest.Event) bool { return ev.Status != 429 })
		if len(over) > 0 {
			t.Errorf("%d requests were over the limit", len(over))
		}
		w.finish()
	})
	t.Run("429", func(t *testing.T) {
		y := *x
		y.load, y.calls = "duration: 5s", 6000
		w := enter(t, scenario{class: "promise"}, &y, func(o *runpodtest.Options) { o.RetryAfter = 4 * time.Second })
		c := w.begin("", "run", "-o", w.run, "--parallel=8", "plan.yaml")
		c.busy(t, 8)
		w.SetFaults("429=3")
		if e := c.wait(); e.code != exitOK {
			t.Errorf("exit %d", e.code)
		}
		events := w.Events()
		refused := 0
		for _, no := range events {
			if no.Status != 429 {
				continue
			}
			refused++
			early := 0
			for _, ev := range events {
				// A call that was under way when the answer came is no fault. On a busy
				// machine it may take a while.
				if d := ev.Received.Sub(no.Received); ev.Who == "account" && d > 2*time.Second && d < 3900*time.Millisecond {
					early++
				}
			}
			if early > 0 {
				t.Errorf("%d requests came before the time that a 429 asked for", early)
			}
		}
		if refused != 3 {
			t.Errorf("%d requests were refused, want 3", refused)
		}
		w.finish()
	})
}
