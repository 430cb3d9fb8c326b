package rundir_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/effect/effecttest"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/internal/slow"
	"sweep.dev/sweep/rundir"
	"sweep.dev/sweep/rundir/rundirtest"
)

func noContext() context.Context { return context.Background() }

// elsewhere reports whether a point is of the families that other packages do.
func elsewhere(p effect.Point) bool {
	family, _, _ := strings.Cut(string(p), ".")
	return slices.Contains([]string{"spawn", "kill", "log", "history", "prune", "merge", "podledger", "runpod", "docker", "kube", "ssh", "command", "agent"}, family) ||
		family == "launch" && p != effect.LaunchMkdir && p != effect.LaunchJournal
}

// Points that only a recovery, or a full disk, comes to, and what brings them about.
func prepare(t *testing.T, p effect.Point, dir string) (acked []rundir.Key) {
	t.Helper()
	first := map[effect.Point]string{
		effect.AdoptJournal:    "commit.journal:kill@2",
		effect.RecoverRemove:   "attempt.sync:kill@7",
		effect.JournalTruncate: "commit.journal:kill@2",
	}[p]
	if first == "" {
		return nil
	}
	killed, acked := runScenario(t, first, dir)
	if !killed {
		t.Fatalf("%s did not kill", first)
	}
	if p == effect.JournalTruncate {
		appendTo(t, filepath.Join(dir, layout.Journal), `{"crc":"0000`)
	}
	return acked
}

// kill -9 before every named point, then a resume. After a point is before the next
// operation, of which TestKillAtEveryOperation has each.
func TestKillAtEveryPoint(t *testing.T) {
	phases := []effect.Phase{effect.Before}
	if slow.Tests {
		phases = append(phases, effect.After)
	}
	for _, p := range effect.Points() {
		if elsewhere(p) {
			continue
		}
		for _, phase := range phases {
			spec := fmt.Sprintf("%s:%s:kill", p, phase)
			t.Run(strings.ReplaceAll(spec, ":", "_"), func(t *testing.T) {
				t.Parallel()
				dir := filepath.Join(t.TempDir(), "run")
				before := prepare(t, p, dir)
				killed, acked := runScenario(t, spec, dir)
				if !killed {
					t.Errorf("nothing comes to %s", p)
				}
				resumed(t, dir, append(before, acked...))
			})
		}
	}
}

// A recording is one scenario, with what it did to the disk.
type recording struct {
	base string
	ops  []effect.Op
	acks []struct { // of each trial, and after how many operations
		at  int
		key rundir.Key
	}
}

func record(t *testing.T) (r recording) {
	t.Helper()
	r.base = t.TempDir()
	var log effect.Log
	fx := must[*effect.Effects](t)(effect.New("", effect.Record(&log)))
	err := scenario{fx, filepath.Join(r.base, "run"), func(k rundir.Key) {
		r.acks = append(r.acks, struct {
			at  int
			key rundir.Key
		}{len(log.Ops()), k})
	}}.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.ops = log.Ops()
	return r
}

// stop ends the scenario before each operation and at its end, with the given percentages
// of unsynced data on disk, and resumes it. What equals a disk that was resumed already,
// with the same trials acknowledged, is not resumed again.
func (r recording) stop(t *testing.T, keep ...int) {
	t.Helper()
	disk := effecttest.NewDisk(r.base)
	type state struct {
		tree  [32]byte
		acked int
	}
	seen := map[state]bool{}
	for n := range len(r.ops) + 1 {
		if n > 0 {
			if err := disk.Apply(r.ops[n-1]); err != nil {
				t.Fatal(err)
			}
		}
		var acked []rundir.Key
		for _, a := range r.acks {
			if a.at <= n {
				acked = append(acked, a.key)
			}
		}
		for _, percent := range keep {
			tree := disk.Lost(percent, uint64(n))
			if s := (state{tree.Sum(), len(acked)}); seen[s] {
				continue
			} else {
				seen[s] = true
			}
			dst := filepath.Join(r.base, fmt.Sprint(n, "-", percent))
			if err := tree.Write(dst); err != nil {
				t.Fatal(err)
			}
			resumed(t, filepath.Join(dst, "run"), acked)
			if t.Failed() {
				t.Fatalf("stopped after %d of %d operations, %d %% kept", n, len(r.ops), percent)
			}
			_ = os.RemoveAll(dst)
		}
	}
	if len(seen) < 40 {
		t.Errorf("only %d different disks", len(seen))
	}
}

// The process is killed before every operation there is, named or not: all that it did
// is on disk.
func TestKillAtEveryOperation(t *testing.T) {
	t.Parallel()
	record(t).stop(t, 100)
}

func countOperations(t *testing.T) int {
	t.Helper()
	fx := must[*effect.Effects](t)(effect.New(""))
	dir := filepath.Join(t.TempDir(), "run")
	if err := (scenario{fx, dir, ignore}).run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := rundirtest.Check(dir); err != nil {
		t.Fatal(err)
	}
	return int(fx.Ops())
}

// The Nth operation fails, N = 1, 2, ... until a run is clean; what failed is
// reported, and with the fault gone a resume makes the same grid. Each operation meets a
// full disk, and every second one of the other faults in turn; all if tests may be slow.
func TestFailNthOperation(t *testing.T) {
	for i, fault := range []string{
		"op:err=ENOSPC@%d",    // something was deleted in the meantime
		"op:after:err=EIO@%d", // done, and reported as failed
		"op:err=ENOSPC@%d+",   // the disk stays full
		"op:err=EIO@%d",
		"op:err=EIO@%d+",
	} {
		first, step := 1, 1
		if i > 0 && !slow.Tests {
			first, step = 2*i, 8
		}
		t.Run(strings.ReplaceAll(fmt.Sprintf(fault, 0), ":", "_"), func(t *testing.T) {
			t.Parallel()
			failed := 0
			for n := first; ; n += step {
				dir := filepath.Join(t.TempDir(), "run")
				fx := must[*effect.Effects](t)(effect.New(fmt.Sprintf(fault, n)))
				var acked []rundir.Key
				err := scenario{fx, dir, func(k rundir.Key) { acked = append(acked, k) }}.run(t.Context())
				if err != nil {
					failed++
				}
				if fx.Ops() < uint64(n) {
					if err != nil {
						t.Errorf("no fault was met, and yet: %v", err)
					}
					break
				}
				resumed(t, dir, acked)
				if t.Failed() {
					t.Fatalf("with the fault at operation %d", n)
				}
				_ = os.RemoveAll(dir)
			}
			if failed < 50/step {
				t.Errorf("only %d faults were reported", failed)
			}
		})
	}
}

// The power goes before every operation, with none and half of the unsynced data on
// disk. All of it is what a kill leaves.
func TestPowerLoss(t *testing.T) {
	t.Parallel()
	record(t).stop(t, 0, 50)
}

// A process dies and leaves folders that it made and did not fsync; the next
// one uses them; then the power goes. What the next one acknowledged must be
// there, although it did not make the folders.
func TestPowerLoss_afterAKill(t *testing.T) {
	t.Parallel()
	n := countOperations(t)
	for i := 1; i <= n; i++ {
		base := t.TempDir()
		dir := filepath.Join(base, "run")
		var log effect.Log
		// Every operation from the ith on fails without being done: for the
		// disk that is a kill.
		dying := must[*effect.Effects](t)(effect.New(fmt.Sprintf("op:err=EIO@%d+", i), effect.Record(&log)))
		if err := (scenario{dying, dir, ignore}).run(t.Context()); err == nil && i < n-3 {
			t.Errorf("killed at %d of %d operations and clean", i, n)
		}
		if ops := log.Ops(); !slow.Tests && len(ops) > 0 && durable(ops[len(ops)-1].Kind) {
			continue // no entry of a folder is new since the operation before
		}
		next := must[*effect.Effects](t)(effect.New("", effect.Record(&log)))
		if err := (scenario{next, dir, ignore}).run(t.Context()); err != nil {
			t.Fatal(err)
		}
		dst := t.TempDir()
		if err := effecttest.PowerLoss(log.Ops(), base, dst, 0, 1); err != nil {
			t.Fatal(err)
		}
		resumed(t, filepath.Join(dst, "run"), planned)
		if t.Failed() {
			t.Fatalf("killed at operation %d of %d", i, n)
		}
		_ = os.RemoveAll(base)
		_ = os.RemoveAll(dst)
	}
}

// durable reports whether an operation adds nothing to what is lost without an fsync of
// its folder.
func durable(k effect.OpKind) bool {
	return k == effect.OpWrite || k == effect.OpTruncate || k == effect.OpSync || k == effect.OpSyncDir
}

// The journal of a finished run is cut at bytes of its last commit line (at every one if
// tests may be slow), and around every other line: trials whose line is gone are adopted as they
// are, or, where even their beginning is gone, left alone and made again.
func TestJournalCut_resumes(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	if err := (scenario{nil, dir, ignore}).run(t.Context()); err != nil {
		t.Fatal(err)
	}
	data := must[[]byte](t)(os.ReadFile(filepath.Join(dir, layout.Journal)))
	commit := bytes.LastIndex(data, []byte(`"trial_committed"`))
	first := bytes.LastIndexByte(data[:commit], '\n') + 1
	last := commit + bytes.IndexByte(data[commit:], '\n') + 1
	start := bytes.IndexByte(data, '\n') + 1 // the manifest stays
	step := 7
	if slow.Tests {
		step = 1
	}
	for cut := start; cut <= len(data); cut++ {
		edge := data[cut-1] == '\n' || cut < len(data) && data[cut] == '\n'
		if !edge && (cut < first || cut > last || (cut-first)%step != 0) {
			continue
		}
		copied := filepath.Join(t.TempDir(), "run")
		copyTree(t, dir, copied)
		if err := os.Truncate(filepath.Join(copied, layout.Journal), int64(cut)); err != nil {
			t.Fatal(err)
		}
		before, err := rundirtest.Trials(copied)
		if err != nil {
			t.Fatal(err)
		}
		if err := (scenario{nil, copied, ignore}).run(t.Context()); err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		after, err := rundirtest.Trials(copied)
		if err != nil {
			t.Fatal(err)
		}
		rundirtest.Unchanged(t, before, after)
		if len(after) != len(planned) {
			t.Errorf("cut at %d: %d trials", cut, len(after))
		}
		if cut >= first {
			// Only the last trial's line is gone: it is adopted, not made again.
			whole, err := rundirtest.Trials(dir)
			if err != nil {
				t.Fatal(err)
			}
			rundirtest.Unchanged(t, whole, after)
		}
		if t.Failed() {
			t.Fatalf("cut at %d", cut)
		}
	}
}

// A process that is stopped and continued has lost nothing.
func TestStopAndContinue(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	cmd := child("scenario", "commit.journal:stop@2", dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("status %v, %v", status, err)
	}
	st, err := rundir.Read(dir)
	if err != nil || len(st.Committed) != 1 || len(st.Pending) != 1 || st.Warning != "" {
		t.Errorf("while it is stopped: %+v, %v", st, err)
	}
	if h, err := rundir.LockHolder(dir); err != nil || h == nil || h.PID != cmd.Process.Pid {
		t.Errorf("holder %v, %v", h, err)
	}
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	resumed(t, dir, planned)
}
