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
	"sweep.dev/sweep/rundir"
	"sweep.dev/sweep/rundir/rundirtest"
)

func noContext() context.Context { return context.Background() }

// elsewhere are the families of points that other packages do.
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

// kill -9 before and after every named point, then a resume.
func TestKillAtEveryPoint(t *testing.T) {
	for _, p := range effect.Points() {
		if elsewhere(p) {
			continue
		}
		for _, phase := range []effect.Phase{effect.Before, effect.After} {
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

// kill -9 before every operation there is, named or not, then a resume.
func TestKillAtEveryOperation(t *testing.T) {
	n := countOperations(t)
	for i := 1; i <= n; i++ {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "run")
			killed, acked := runScenario(t, fmt.Sprintf("op:kill@%d", i), dir)
			if !killed {
				t.Errorf("the run has fewer than %d operations", i)
			}
			resumed(t, dir, acked)
		})
	}
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
// reported, and with the fault gone a resume makes the same grid.
func TestFailNthOperation(t *testing.T) {
	for _, fault := range []string{
		"op:err=ENOSPC@%d",  // something was deleted in the meantime
		"op:err=ENOSPC@%d+", // the disk stays full
		"op:err=EIO@%d",
		"op:err=EIO@%d+",
		"op:after:err=EIO@%d", // done, and reported as failed
	} {
		t.Run(strings.ReplaceAll(fmt.Sprintf(fault, 0), ":", "_"), func(t *testing.T) {
			t.Parallel()
			failed := 0
			for n := 1; ; n++ {
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
			if failed < 50 {
				t.Errorf("only %d faults were reported", failed)
			}
		})
	}
}

// The power goes after every operation, with none, half and all of the
// unsynced data on disk.
func TestPowerLoss(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	dir := filepath.Join(base, "run")
	var log effect.Log
	fx := must[*effect.Effects](t)(effect.New("", effect.Record(&log)))
	type ack struct {
		at  int
		key rundir.Key
	}
	var acks []ack
	err := scenario{fx, dir, func(k rundir.Key) { acks = append(acks, ack{len(log.Ops()), k}) }}.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ops := log.Ops()
	for n := range len(ops) + 1 {
		var acked []rundir.Key
		for _, a := range acks {
			if a.at <= n {
				acked = append(acked, a.key)
			}
		}
		for _, keep := range []int{0, 50, 100} {
			dst := t.TempDir()
			if err := effecttest.PowerLoss(ops[:n], base, dst, keep, uint64(n)); err != nil {
				t.Fatal(err)
			}
			resumed(t, filepath.Join(dst, "run"), acked)
			if t.Failed() {
				t.Fatalf("power lost after %d of %d operations, %d %% kept", n, len(ops), keep)
			}
			_ = os.RemoveAll(dst)
		}
	}
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

// The journal of a finished run is cut at every byte of its last commit line,
// and around every other line: trials whose line is gone are adopted as they
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
	for cut := start; cut <= len(data); cut++ {
		edge := data[cut-1] == '\n' || cut < len(data) && data[cut] == '\n'
		if !edge && (cut < first || cut > last) {
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
