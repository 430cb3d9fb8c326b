package drill

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/runpod/runpodtest"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/internal/procfs"
	"sweep.dev/sweep/rundir"
	"sweep.dev/sweep/rundir/rundirtest"
)

// Exit codes that the drill judges by.
const (
	exitKilled     = -1
	exitOK         = 0
	exitUsage      = 2
	exitIncomplete = 3
	exitCleanup    = 4
	exitBudget     = 5
	exitInt        = 130
	exitTerm       = 143
)

// A world is one machine with one account, for one scenario.
type world struct {
	ctx   context.Context
	sweep string // the program
	dir   string // all files: plan, run directories, ledger, what was said
	run   string // the run directory
	state string // the ledger's folder

	*account
	s scenario

	mu       sync.Mutex // guards what follows
	child    *os.Process
	problems []string
	killed   int
	points   []string // at which something was killed
	log      strings.Builder
	before   map[rundir.Key]string
	lifted   bool // the account behaves again
	over     bool // the run has ended: what comes now gets no signal
}

// newWorld makes the world of a scenario in an empty folder. change, where it is
// not nil, has the last word on the emulator.
func newWorld(ctx context.Context, sweep, dir string, s scenario, seed uint64, change func(*runpodtest.Options)) (*world, error) {
	w := &world{ctx: ctx, sweep: sweep, dir: dir, run: filepath.Join(dir, "run"), state: filepath.Join(dir, "state"), s: s}
	o := runpodtest.Options{
		Key: fmt.Sprintf("rpa_CANARY%016x", seed), Seed: seed, Sweep: []string{sweep},
		Provision: 50 * time.Millisecond, Pull: 50 * time.Millisecond, RestartDelay: 50 * time.Millisecond,
		Faults: s.faults,
		Intent: runpodtest.DurableIntent(w.state, filepath.Join(dir, "run*")),
	}
	if change != nil {
		change(&o)
	}
	var err error
	w.account, err = newAccount(ctx, o, w.signal())
	if err != nil {
		return nil, err
	}
	w.given = append(w.given, w.hfToken())
	plan := s.plan(w.ProxyURL())
	return w, errors.Join(os.MkdirAll(w.home(), 0o755), os.WriteFile(filepath.Join(dir, "plan.yaml"), []byte(plan), 0o644))
}

func (w *world) home() string    { return filepath.Join(w.dir, "home") }
func (w *world) hfToken() string { return "hf_CANARY" + strings.TrimPrefix(w.Key(), "rpa_CANARY") }

// signal returns what sends the scenario's signal to the run.
func (w *world) signal() func(int) {
	name, count, ok := strings.Cut(w.s.signal, "@")
	if !ok {
		return nil
	}
	sig := map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP}[name]
	at, err := strconv.Atoi(count)
	if err != nil || sig == 0 {
		return nil
	}
	return func(n int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if n == at && w.child != nil && !w.over {
			_ = w.child.Signal(sig) // it may have ended in this moment
		}
	}
}

// fault notes something that must not be.
func (w *world) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	if !slices.Contains(w.problems, text) {
		w.problems = append(w.problems, text)
	}
}

// An ended child.
type ended struct {
	code           int
	stdout, stderr string
}

// rule returns a place to be killed at, POINT:PHASE[@N], as SWEEP_FAULT has it.
func rule(kill string) string {
	place, n, counted := strings.Cut(kill, "@")
	if counted {
		return place + ":kill@" + n
	}
	return place + ":kill"
}

// patience is how long one command may take: more than any teardown.
const patience = 8 * time.Minute

// A child is the program at work.
type child struct {
	w        *world
	cmd      *exec.Cmd
	kill     string
	out, err bytes.Buffer
	began    time.Time
	failed   error         // of its start or its end
	over     chan struct{} // closed when it has ended
}

// begin starts the program.
func (w *world) begin(kill string, args ...string) *child {
	c := &child{w: w, kill: kill, cmd: exec.CommandContext(w.ctx, w.sweep, args...), began: time.Now(), over: make(chan struct{})}
	c.cmd.Dir, c.cmd.Stdout, c.cmd.Stderr = w.dir, &c.out, &c.err
	c.cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + w.home(), "TMPDIR=" + w.home(),
		"RUNPOD_API_BASE_URL=" + w.url, "RUNPOD_API_KEY=" + w.Key(), "HF_TOKEN=" + w.hfToken(),
		"SWEEP_STATE_DIR=" + w.state, "SWEEP_CALIBRATE=never",
	}
	if kill != "" {
		c.cmd.Env = append(c.cmd.Env, "SWEEP_FAULT="+rule(kill))
	}
	w.mu.Lock()
	c.failed = c.cmd.Start()
	w.child = c.cmd.Process
	w.mu.Unlock()
	if c.failed != nil {
		close(c.over)
		return c
	}
	limit := time.AfterFunc(patience, func() {
		w.fault("sweep %s did not end within %v", args[0], patience)
		_ = c.cmd.Process.Kill() // it may have ended in this moment
	})
	go func() {
		defer close(c.over)
		c.failed = c.cmd.Wait()
		limit.Stop()
	}()
	return c
}

// signal sends a signal to the program.
func (c *child) signal(sig syscall.Signal) {
	if err := c.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		c.w.fault("%v: %v", sig, err)
	}
}

// wait returns how the program ended. What it said is kept.
func (c *child) wait() ended {
	w := c.w
	<-c.over
	e := ended{codeOf(c.cmd.ProcessState), c.out.String(), c.err.String()}
	what := c.cmd.Args[1]
	w.mu.Lock()
	w.child = nil
	fmt.Fprintf(&w.log, "%s $ SWEEP_FAULT=%s sweep %s\n%s%s-> %d after %v\n", c.began.UTC().Format("15:04:05.000"), c.kill,
		strings.Join(c.cmd.Args[1:], " "), e.stdout, e.stderr, e.code, time.Since(c.began).Round(time.Millisecond))
	if e.code == exitKilled && c.kill != "" {
		w.killed++
		w.points = append(w.points, c.kill)
	}
	w.mu.Unlock()
	if found := contains([]byte(e.stdout+e.stderr), w.credentials()); found != "" {
		w.fault("sweep %s says the credential %s", what, found)
	}
	if strings.Contains(e.stderr, "panic") {
		w.fault("sweep %s panics", what)
	}
	return e
}

// command runs the program to its end, which only a fault point may make
// SIGKILL.
func (w *world) command(kill string, args ...string) ended {
	c := w.begin(kill, args...)
	e := c.wait()
	if e.code == exitKilled && kill == "" {
		w.fault("sweep %s: %v", args[0], c.failed)
	}
	return e
}

// codeOf returns the exit code as a shell has it, and exitKilled for SIGKILL. A
// signal that comes before there is anything to clean up ends sweep as it ends
// any program.
func codeOf(p *os.ProcessState) int {
	if p == nil {
		return exitKilled
	}
	if status, ok := p.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() != syscall.SIGKILL {
		return 128 + int(status.Signal())
	}
	return p.ExitCode()
}

// honest holds a command's exit code against what is alive.
func (w *world) honest(what string, e ended, mayKeep bool) {
	alive := w.Audit().Alive()
	switch {
	case e.code == exitKilled:
	case e.code == exitCleanup && len(alive) == 0 && !w.s.hidesPods():
		w.fault("%s ends with 4, and nothing of ours is alive", what)
	case e.code != exitCleanup && len(alive) > 0 && !mayKeep:
		w.fault("%s ends with %d, and %s is alive", what, e.code, alive[0].Name)
	case e.code == exitCleanup && !strings.Contains(e.stderr, "sweep gc"):
		w.fault("%s ends with 4 and does not say how to end what is left", what)
	}
}

// intact holds the run directory against what was in it.
func (w *world) intact() {
	now, err := kept(w.run)
	if err != nil {
		w.fault("%v", err)
		return
	}
	if err := changed(w.before, now); err != nil {
		w.fault("%v", err)
	}
	w.before = now
}

// play runs the whole scenario and holds the end against the promises.
func (w *world) play() {
	stop := watch(w.credentials, func(text string) { w.fault("%s", text) })
	defer stop()
	w.first(w.s.kill)
	again := w.s.again
	for _, st := range w.s.then {
		w.settled()
		w.step(st, again)
		if !slices.Contains([]step{stepTear, stepRemove, stepBeat, stepLife}, st) {
			again = "" // these are no commands of ours
		}
	}
	w.finish()
}

func (w *world) parallel() string { return "--parallel=" + strconv.Itoa(cmp.Or(w.s.pods, deployments)) }

// first is the run itself.
func (w *world) first(kill string) {
	args := []string{"run", "-o", w.run, w.parallel()}
	if w.s.keep {
		args = append(args, "--keep-pod=20m")
	}
	e := w.command(kill, append(args, "plan.yaml")...)
	w.mu.Lock()
	signalled := w.s.signal != "" && !w.over
	w.over = true
	w.mu.Unlock()
	w.honest("the run", e, w.s.keep && e.code == exitOK)
	w.intact()
	ok := w.s.mayEnd(e.code)
	switch {
	case e.code == exitKilled:
		ok = kill != ""
	case signalled:
		want := exitTerm
		if strings.HasPrefix(w.s.signal, "INT") {
			want = exitInt
		}
		hup := strings.HasPrefix(w.s.signal, "HUP") && e.code == 128+int(syscall.SIGHUP)
		ok = ok || hup || e.code == want || e.code == exitCleanup && slices.Contains(w.s.faults, "delete-403")
	case w.s.cost > 0, w.s.life > 0: // so short a life has no room for a teardown
		ok = ok || e.code == exitBudget
	}
	if !ok {
		w.fault("the run ends with %d", e.code)
	}
	if e.code == exitOK && !w.s.keep {
		w.complete()
	}
	if slices.ContainsFunc(w.s.faults, func(f string) bool { m, _ := modeOf(f); return m.lasting }) {
		w.SetFaults()
		w.lifted = true
	}
}

func (w *world) step(st step, again string) {
	switch st {
	case stepResume:
		w.resume(again)
	case stepGC:
		w.gc(again)
	case stepLost:
		w.lost(again)
	case stepRemove:
		w.before = nil
		if err := os.RemoveAll(w.run); err != nil {
			w.fault("%v", err)
		}
	case stepTear:
		path := filepath.Join(w.run, layout.Journal)
		info, err := os.Stat(path)
		if err == nil {
			err = os.Truncate(path, info.Size()-5)
		}
		if err != nil {
			w.fault("tear: %v", err)
		}
	case stepBeat:
		w.await(w.s.beat + 30*time.Second)
	case stepLife:
		w.await(w.s.life + 30*time.Second)
	case stepAdopt:
		w.adopt(again)
	case stepTerminate, stepStop, stepStart:
		w.person(string(st), again)
	}
}

// resume goes on until the grid is complete.
func (w *world) resume(again string) {
	const most = 5
	args := []string{"resume", w.parallel(), w.run}
	for n := range most {
		e := w.command(again, args...)
		w.intact()
		if e.code == exitUsage && strings.Contains(e.stderr, "no run") && n == 0 {
			// It died before there was a run.
			if slices.Contains(w.s.then, stepAdopt) {
				w.adopt("")
			} else {
				w.first("")
			}
			continue
		}
		w.honest("the resume", e, w.s.keep && !slices.Contains(w.s.then, stepAdopt))
		killed := e.code == exitKilled && again != ""
		again = ""
		switch {
		case e.code == exitOK:
			w.complete()
			return
		case killed:
		case w.lifted && e.code == exitIncomplete: // what has failed meanwhile is on record
			args = []string{"resume", w.parallel(), "--retry=invalid,failed", w.run}
		case !w.lifted && w.s.mayEnd(e.code):
			args = []string{"resume", w.parallel(), "--retry=invalid,failed", w.run}
		default:
			w.fault("the resume ends with %d", e.code)
			return
		}
	}
	w.fault("the grid is not complete after %d resumes", most)
}

// gc cleans up on the same machine, where the ledger is.
func (w *world) gc(again string) {
	w.settle()
	for _, args := range w.cleanups() {
		w.clean(again, args)
		again = ""
	}
}

// cleanups returns the commands that a person gives: where the run directory is not
// here any more a run has to be named.
func (w *world) cleanups() [][]string {
	if _, err := os.Stat(w.run); err == nil {
		return [][]string{{"gc", "--backend=runpod", "--yes"}}
	}
	runs := map[string]bool{}
	for _, h := range w.Audit().Alive() {
		if n, ok := backends.ParseName(h.Name); ok {
			runs[n.Run] = true
		}
	}
	var list [][]string
	for run := range runs {
		list = append(list, []string{"gc", "--backend=runpod", "--yes", "--run=" + run})
	}
	return list
}

// clean gives one of them, once more where it is killed.
func (w *world) clean(again string, args []string) {
	e := w.command(again, args...)
	if e.code == exitKilled && again != "" {
		e = w.command("", args...)
	}
	if e.code != exitOK {
		w.fault("%s ends with %d", strings.Join(args, " "), e.code)
	}
	w.honest("gc", e, false)
}

// settle waits for what an account does late.
func (w *world) settle() {
	if slices.ContainsFunc(w.s.faults, func(f string) bool {
		return strings.HasPrefix(f, "create-late") || strings.HasPrefix(f, "list-lag") || strings.HasPrefix(f, "get-404")
	}) {
		time.Sleep(1500 * time.Millisecond)
	}
}

// lost cleans up on another machine, which knows nothing but the key.
func (w *world) lost(again string) {
	w.settle()
	w.before = nil
	if err := os.Rename(w.run, filepath.Join(w.dir, "gone")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.fault("%v", err)
	}
	w.state = filepath.Join(w.dir, "elsewhere")
	alive := w.Audit().Alive()
	if e := w.command("", "gc", "--backend=runpod", "--yes"); e.code != exitOK {
		w.fault("gc that may end nothing ends with %d", e.code)
	}
	if now := w.Audit().Alive(); len(now) < len(alive) && w.s.beat == 0 && w.s.life == 0 {
		w.fault("gc on another machine has ended pods whose time is not over")
	}
	for _, args := range w.cleanups() {
		w.clean(again, args)
		again = ""
	}
}

// await waits until no pod of ours serves any more, by itself. A pod that may
// not delete itself is started again and again by its provider, without its
// engine.
func (w *world) await(limit time.Duration) {
	for end := time.Now().Add(limit); ; time.Sleep(200 * time.Millisecond) {
		left := slices.DeleteFunc(w.Audit().Alive(), func(h runpodtest.PodCost) bool {
			if slices.Contains(w.s.faults, "pod-key-forbidden") {
				return !serves(h)
			}
			return h.Status == "EXITED" || h.Status == "TERMINATED" || h.Status == "ERROR"
		})
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			w.fault("pod %s runs %v after its run has died: %s", left[0].Name, limit, left[0].Status)
			return
		}
	}
}

// serves reports whether a pod's engine runs, or whether the pod is still on its
// way there.
func serves(h runpodtest.PodCost) bool {
	name, _ := backends.ParseName(h.Name)
	processes := procfs.With(map[string]string{backends.MarkRun: name.Run})
	if h.Status == "PROVISIONING" || h.Restarts == 0 && len(processes) == 0 {
		return true
	}
	for _, p := range processes {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		if err == nil && strings.Contains(string(b), "\x00sim\x00--gpu\x00") {
			return true
		}
	}
	return false
}

// adopt runs the plan once more, on the pods that were kept.
func (w *world) adopt(again string) {
	keptPods := len(w.Audit().Alive())
	w.before, w.run = nil, filepath.Join(w.dir, "run-2")
	e := w.command(again, "run", "-o", w.run, w.parallel(), "plan.yaml")
	w.honest("the second run", e, false)
	switch {
	case e.code == exitKilled && again != "":
		return
	case e.code != exitOK:
		w.fault("the run that adopts ends with %d", e.code)
	default:
		w.complete()
	}
	if a := w.Audit(); keptPods == deployments && a.Creates > deployments {
		w.fault("%d pods were kept, and %d creates were made", keptPods, a.Creates)
	}
}

// person does something to every pod that is there.
func (w *world) person(act, again string) {
	var names []string
	for _, h := range w.Audit().Alive() {
		names = append(names, h.Name)
	}
	if len(names) == 0 {
		return
	}
	args := append([]string{"pods", act, "--yes"}, names...)
	e := w.command(again, args...)
	if e.code == exitKilled && again != "" {
		names = nil
		for _, h := range w.Audit().Alive() {
			names = append(names, h.Name)
		}
		if len(names) == 0 {
			return
		}
		e = w.command("", append([]string{"pods", act, "--yes"}, names...)...)
	}
	if e.code != exitOK {
		w.fault("pods %s ends with %d", act, e.code)
	}
}

// complete holds a run that says so to be complete.
func (w *world) complete() {
	if err := rundirtest.Check(w.run); err != nil {
		w.fault("%v", err)
	}
	if err := grid(w.run); err != nil {
		w.fault("%v", err)
	}
	st, err := rundir.Read(w.run)
	if err != nil {
		w.fault("%v", err)
	} else if len(st.Committed) != trials {
		w.fault("%d trials are committed, want %d", len(st.Committed), trials)
	}
}

// finish is what must hold in the end, whatever has happened.
func (w *world) finish() {
	o := oracle{slack: 20 * time.Second, cost: cmp.Or(w.s.cost, 1)}
	if slices.Contains(w.s.faults, "pod-key-forbidden") {
		o.slack = time.Hour // only a person can end these, and gc has
	}
	if err := o.check(w.Audit()); err != nil {
		w.fault("%v", err)
	}
	if err := w.untouched(w.ctx); err != nil {
		w.fault("%v", err)
	}
	if err := w.leaked(); err != nil {
		w.fault("%v", err)
	}
	dirs := []string{w.run, filepath.Join(w.dir, "run"), filepath.Join(w.dir, "gone"), w.home(), w.state, filepath.Join(w.dir, "state")}
	slices.Sort(dirs)
	if err := canaries(w.credentials(), slices.Compact(dirs)...); err != nil {
		w.fault("%v", err)
	}
}
