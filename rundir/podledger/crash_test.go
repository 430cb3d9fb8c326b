package podledger_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/effect/effecttest"
	"sweep.dev/sweep/internal/slow"
	"sweep.dev/sweep/rundir"
	"sweep.dev/sweep/rundir/podledger"
	"sweep.dev/sweep/rundir/rundirtest"
)

const roleEnv = "PODLEDGER_TEST_ROLE"

var roles = map[string]func(base string) error{"scenario": playScenario, "taker": playTaker}

func TestMain(m *testing.M) {
	if role := roles[os.Getenv(roleEnv)]; role != nil {
		if err := role(os.Args[1]); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	rundirtest.InMemory()
	goleak.VerifyTestMain(m)
}

func child(role, spec, base string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], base)
	cmd.Env = append(os.Environ(), roleEnv+"="+role, "SWEEP_FAULT="+spec)
	return cmd
}

// A scenario rents one pod, gives it back, rents another, keeps it, and has a
// second run take it over and give it back. base holds the run directory, the
// ledger of the machine and the world: a folder in which a file of a pod's name is the pod.
type scenario struct {
	fx   *effect.Effects
	base string
	// ack hears of each change to the world, before and after it.
	ack func(name string, alive bool)
}

func (s scenario) run(ctx context.Context) (err error) {
	b, err := podledger.Open(s.fx, filepath.Join(s.base, "podledger"))
	if err != nil {
		return err
	}
	dir := filepath.Join(s.base, "run")
	d, err := rundir.Create(s.fx, dir, rundir.Manifest{RunID: alice.ID, Plan: "p"}, []byte("plan"), []byte("{}"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	l := b.Ledger(alice, "d", d.Ledger())
	if err := s.rent(ctx, l, "p1"); err != nil {
		return err
	}
	if err := s.end(ctx, l, b, "p1"); err != nil {
		return err
	}
	if err := s.rent(ctx, l, "p2"); err != nil {
		return err
	}
	if err := l.Record(ctx, kept("p2", time.Now().Add(time.Hour))); err != nil {
		return err
	}
	list, err := b.Entries()
	if err != nil || len(list) != 1 {
		return fmt.Errorf("%d entries, want 1: %w", len(list), err)
	}
	if _, err := b.Take(list[0], bob); err != nil {
		return err
	}
	return s.end(ctx, b.Ledger(bob, "d", &memory{}), b, "p2")
}

func (s scenario) rent(ctx context.Context, l backends.Ledger, pod string) error {
	transitions := born(alice, pod)
	for i, a := range transitions {
		if i == 2 {
			s.ack(transitions[0].Name, true)
		}
		if err := l.Record(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

func (s scenario) end(ctx context.Context, l backends.Ledger, b *podledger.Ledger, pod string) error {
	if err := l.Record(ctx, backends.Transition{Pod: pod, State: backends.DeleteSent}); err != nil {
		return err
	}
	list, err := b.Entries()
	if err != nil || len(list) != 1 {
		return fmt.Errorf("%d entries, want 1: %w", len(list), err)
	}
	s.ack(list[0].Name, false)
	return l.Record(ctx, backends.Transition{Pod: pod, State: backends.Gone})
}

func playScenario(base string) error {
	fx, err := effect.New(os.Getenv("SWEEP_FAULT"))
	if err != nil {
		return err
	}
	world := filepath.Join(base, "world")
	return scenario{fx, base, func(name string, alive bool) {
		if alive {
			err = os.WriteFile(filepath.Join(world, name), nil, 0o644)
		} else {
			err = os.Remove(filepath.Join(world, name))
		}
		if err != nil {
			panic(err)
		}
	}}.run(context.Background())
}

// holds fails if a pod is alive and the ledger does not owe it by its name.
func holds(t *testing.T, base, alive string) {
	t.Helper()
	dir := filepath.Join(base, "podledger")
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) && alive == "" {
		return
	}
	list := entries(t, open(t, dir, ""))
	if len(list) > 1 {
		t.Errorf("one pod has %d entries: %+v", len(list), list)
	}
	if alive != "" && (len(list) != 1 || list[0].Name != alive || list[0].Find().Name != alive) {
		t.Errorf("%s is alive, and the ledger has %+v", alive, list)
	}
}

func killed(t *testing.T, spec, base string) bool {
	t.Helper()
	if err := os.Mkdir(filepath.Join(base, "world"), 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := child("scenario", spec, base).Output()
	exit := (*exec.ExitError)(nil)
	if !errors.As(err, &exit) {
		return false
	}
	if exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("%s: the child ended by itself: %v\n%s", spec, err, out)
	}
	return true
}

func survivor(t *testing.T, base string) string {
	t.Helper()
	files, err := os.ReadDir(filepath.Join(base, "world"))
	if err != nil || len(files) > 1 {
		t.Fatalf("%v, %v", files, err)
	}
	if len(files) == 0 {
		return ""
	}
	return files[0].Name()
}

// kill -9 before and after every point of the ledger, where a run first comes to it: what
// lives is owed by its name, and one pod has one entry. If tests may be slow, wherever it
// comes to it; TestKillAtEveryOperation has each of these places.
func TestKillAtEveryPoint(t *testing.T) {
	t.Parallel()
	for _, p := range effect.Points() {
		if !strings.HasPrefix(string(p), "podledger.") {
			continue
		}
		for _, phase := range []effect.Phase{effect.Before, effect.After} {
			t.Run(string(p)+"_"+string(phase), func(t *testing.T) {
				t.Parallel()
				for n := 1; n == 1 || slow.Tests; n++ {
					base := t.TempDir()
					if !killed(t, fmt.Sprintf("%s:%s:kill@%d", p, phase, n), base) {
						if n == 1 {
							t.Error("nothing comes to it")
						}
						return
					}
					holds(t, base, survivor(t, base))
				}
			})
		}
	}
}

// The process is killed between any two operations of ledger and run directory: all that
// it did is on disk.
func TestKillAtEveryOperation(t *testing.T) {
	t.Parallel()
	stopped(t, 100)
}

// The power goes after every operation, with none and some halves of the unsynced data on
// disk: of two renames only the second survives in one of four. All of it is what a kill
// leaves.
func TestPowerLoss(t *testing.T) {
	t.Parallel()
	stopped(t, append(slices.Repeat([]int{50}, 16), 0)...)
}

// stopped plays the scenario and checks what it leaves after each operation, with the
// given percentages of unsynced data on disk. What equals a disk that was checked
// already, with the same pod alive, is not checked again.
func stopped(t *testing.T, keep ...int) {
	t.Helper()
	base := t.TempDir()
	var log effect.Log
	fx, err := effect.New("", effect.Record(&log))
	if err != nil {
		t.Fatal(err)
	}
	alive := map[int][]string{0: {""}} // what was alive between two operations, one after another
	err = scenario{fx, base, func(name string, up bool) {
		if !up {
			name = ""
		}
		alive[len(log.Ops())] = append(alive[len(log.Ops())], name)
	}}.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	type state struct {
		tree  [32]byte
		alive string
	}
	seen := map[state]bool{}
	disk := effecttest.NewDisk(base)
	last := ""
	for n := range len(log.Ops()) + 1 {
		if n > 0 {
			if err := disk.Apply(log.Ops()[n-1]); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range append([]string{last}, alive[n]...) {
			last = name
			for seed, percent := range keep {
				tree := disk.Lost(percent, uint64(seed))
				if s := (state{tree.Sum(), name}); seen[s] {
					continue
				} else {
					seen[s] = true
				}
				dst := t.TempDir()
				if err := tree.Write(dst); err != nil {
					t.Fatal(err)
				}
				holds(t, dst, name)
				if t.Failed() {
					t.Fatalf("stopped after %d of %d operations, %d %% kept", n, len(log.Ops()), percent)
				}
				_ = os.RemoveAll(dst)
			}
		}
	}
	if len(seen) < 20 {
		t.Errorf("only %d different disks", len(seen))
	}
}

// Of many processes that want one kept pod, one gets it.
func TestTake_race(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	b := open(t, filepath.Join(base, "podledger"), "")
	record(t, b.Ledger(alice, "d", &memory{}), append(born(alice, "p"), kept("p", time.Now().Add(time.Hour)))...)
	const takers = 12
	results := make(chan string, takers)
	var all sync.WaitGroup
	for range takers {
		all.Go(func() {
			out, err := child("taker", "", base).Output()
			results <- fmt.Sprint(string(out), err)
		})
	}
	all.Wait()
	close(results)
	took := 0
	for r := range results {
		switch {
		case strings.HasPrefix(r, "took"):
			took++
		case !strings.HasPrefix(r, "too late"):
			t.Errorf("a taker says %q", r)
		}
	}
	if took != 1 {
		t.Errorf("%d processes took one pod", took)
	}
	if list := entries(t, b); len(list) != 1 || list[0].RunID == alice.ID {
		t.Errorf("the ledger has %+v", list)
	}
}

func playTaker(base string) error {
	b, err := podledger.Open(nil, filepath.Join(base, "podledger"))
	if err != nil {
		return err
	}
	run := podledger.Run{ID: fmt.Sprintf("taker-%d", os.Getpid()), Owner: alice.Owner}
	_, ok, err := b.ForRun(run, "test", "").Adopt("d", time.Minute)
	if err == nil && ok {
		fmt.Print("took")
	} else if err == nil {
		fmt.Print("too late")
	}
	return err
}

// Writers and readers at once: no reader sees half an entry, or misses one of a pod
// that is owed throughout.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	record(t, open(t, dir, "").Ledger(alice, "d", &memory{}), born(alice, "always")...)
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			b := open(t, dir, "")
			l := b.Ledger(alice, "d", &memory{})
			pod := fmt.Sprintf("w%d", w)
			for range 10 {
				for _, a := range append(born(alice, pod), backends.Transition{Pod: pod, State: backends.Gone}) {
					if err := l.Record(t.Context(), a); err != nil {
						t.Error(err)
					}
				}
				if list, err := b.Entries(); err != nil || len(list) == 0 || list[0].Pod != "always" {
					t.Errorf("entries: %v, %v", list, err)
				}
			}
		})
	}
	all.Wait()
	if list := entries(t, open(t, dir, "")); len(list) != 1 {
		t.Errorf("left: %+v", list)
	}
}
