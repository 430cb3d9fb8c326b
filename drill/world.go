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
}

// newWorld makes the world of a scenario in an empty folder.
func newWorld(ctx context.Context, sweep, dir string, s scenario, seed uint64) (*world, error) {
	w := &world{ctx: ctx, sweep: sweep, dir: dir, run: filepath.Join(dir, "run"), state: filepath.Join(dir, "state"), s: s}
	var err error
	w.account, err = newAccount(ctx, runpodtest.Options{
		Key: fmt.Sprintf("rpa_CANARY%016x", seed), Seed: seed, Sweep: []string{sweep}, SimArgs: []string{"--time-scale=20"},
		Provision: 50 * time.Millisecond, Pull: 50 * time.Millisecond, RestartDelay: 50 * time.Millisecond,
		Faults: s.faults,
		Intent: runpodtest.DurableIntent(w.state, filepath.Join(dir, "run*")),
	}, w.signal())
	if err != nil {
		return nil, err
	}
	w.given = append(w.given, w.hfToken())
	plan := s.plan(w.ProxyURL())
	return w, errors.Join(os.MkdirAll(w.home(), 0o755), os.WriteFile(filepath.Join(dir, "plan.yaml"), []byte(plan), 0o644))
}

func (w *world) home() string    { return filepath.Join(w.dir, "home") }
func (w *world) hfToken() string { return "hf_CANARY" + strings.TrimPrefix(w.Key(), "rpa_CANARY") }

// signal is what sends the scenario's signal to the run.
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
		if n == at && w.child != nil {
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

// rule is a place to be killed at, POINT:PHASE[@N], as SWEEP_FAULT has it.
func rule(kill string) string {
	place, n, counted := strings.Cut(kill, "@")
	if counted {
		return place + ":kill@" + n
	}
	return place + ":kill"
}

// patience is how long one command may take: more than any teardown.
const patience = 8 * time.Minute

// command runs the program and returns how it ended. What it said is kept.
func (w *world) command(kill string, args ...string) ended {
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.sweep, args...)
	var out, err bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = w.dir, &out, &err
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + w.home(), "TMPDIR=" + w.home(),
		"RUNPOD_API_BASE_URL=" + w.url, "RUNPOD_API_KEY=" + w.Key(), "HF_TOKEN=" + w.hfToken(),
		"SWEEP_STATE_DIR=" + w.state,
	}
	if kill != "" {
		cmd.Env = append(cmd.Env, "SWEEP_FAULT="+rule(kill))
	}
	began := time.Now()
	var e ended
	w.mu.Lock()
	fail := cmd.Start()
	w.child = cmd.Process
	w.mu.Unlock()
	if fail == nil {
		fail = cmd.Wait()
	}
	w.mu.Lock()
	w.child = nil
	w.mu.Unlock()
	e.code = codeOf(cmd.ProcessState)
	e.stdout, e.stderr = out.String(), err.String()
	w.mu.Lock()
	fmt.Fprintf(&w.log, "$ SWEEP_FAULT=%s sweep %s\n%s%s-> %d after %v\n", kill, strings.Join(args, " "), e.stdout, e.stderr, e.code, time.Since(began).Round(time.Millisecond))
	w.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		w.fault("sweep %s did not end within %v", args[0], patience)
	case e.code == exitKilled && kill == "":
		w.fault("sweep %s: %v", args[0], fail)
	case e.code == exitKilled:
		w.mu.Lock()
		w.killed++
		w.points = append(w.points, kill)
		w.mu.Unlock()
	}
	if found := contains([]byte(e.stdout+e.stderr), w.credentials()); found != "" {
		w.fault("sweep %s says the credential %s", args[0], found)
	}
	if strings.Contains(e.stderr, "panic") {
		w.fault("sweep %s panics", args[0])
	}
	return e
}

// codeOf is the exit code as a shell has it, and exitKilled for SIGKILL. A
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
	for i, st := range w.s.then {
		again := ""
		if i == 0 {
			again = w.s.again
		}
		w.step(st, again)
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
	w.honest("the run", e, w.s.keep && e.code == exitOK)
	w.intact()
	ok := w.s.mayEnd(e.code)
	switch {
	case e.code == exitKilled:
		ok = kill != ""
	case w.s.signal != "":
		want := exitTerm
		if strings.HasPrefix(w.s.signal, "INT") {
			want = exitInt
		}
		hup := strings.HasPrefix(w.s.signal, "HUP") && e.code == 128+int(syscall.SIGHUP)
		ok = ok || hup || e.code == want || e.code == exitCleanup && slices.Contains(w.s.faults, "delete-403")
	case w.s.cost > 0:
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
		path := filepath.Join(w.run, "journal.jsonl")
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
			w.first("") // it died before there was a run
			continue
		}
		w.honest("the resume", e, w.s.keep)
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
	e := w.command(again, "gc", "--backend=runpod", "--yes")
	if e.code == exitKilled && again != "" {
		e = w.command("", "gc", "--backend=runpod", "--yes")
	}
	if e.code != exitOK {
		w.fault("gc ends with %d", e.code)
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
	runs := map[string]bool{}
	for _, h := range alive {
		if n, ok := backends.ParseName(h.Name); ok {
			runs[n.Run] = true
		}
	}
	for run := range runs {
		e := w.command(again, "gc", "--backend=runpod", "--run="+run, "--yes")
		if e.code == exitKilled && again != "" {
			e = w.command("", "gc", "--backend=runpod", "--run="+run, "--yes")
		}
		again = ""
		if e.code != exitOK {
			w.fault("gc --run ends with %d", e.code)
		}
		w.honest("gc --run", e, false)
	}
}

// await waits until no pod of ours runs any more, by itself.
func (w *world) await(limit time.Duration) {
	for end := time.Now().Add(limit); ; time.Sleep(100 * time.Millisecond) {
		alive := slices.DeleteFunc(w.Audit().Alive(), func(h runpodtest.Held) bool {
			return h.Status == "EXITED" || h.Status == "TERMINATED" || h.Status == "ERROR"
		})
		if len(alive) == 0 {
			return
		}
		if time.Now().After(end) {
			w.fault("pod %s runs %v after its run has died: %s", alive[0].Name, limit, alive[0].Status)
			return
		}
	}
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
	budget := cmp.Or(w.s.cost, 1)
	if err := (oracle{slack: 20 * time.Second, cost: budget}).check(w.Audit()); err != nil {
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
