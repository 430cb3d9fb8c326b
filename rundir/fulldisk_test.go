package rundir_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/rundir"
	"sweep.dev/sweep/rundir/rundirtest"
)

func TestFullDisk_byFault(t *testing.T) {
	for _, errno := range []string{"ENOSPC", "EDQUOT"} {
		t.Run(errno, func(t *testing.T) {
			// The first trial writes four times, the next finds no room; the journal
			// finds the disk full once, before the reserved space is removed; whoever opens
			// the directory next finds no room for its name and its reserved space.
			fx := must[*effect.Effects](t)(effect.New(strings.ReplaceAll(
				"attempt.write:err=FULL@5,journal.write:err=FULL@8,lock.write:err=FULL@2,reserved.write:err=FULL@2", "FULL", errno)))
			if err := fullDisk(t.TempDir(), fx, func() error { return nil }); err != nil {
				t.Error(err)
			}
		})
	}
}

// fullDisk runs on a disk that fill makes full, or the faults of fx.
func fullDisk(base string, fx *effect.Effects, fill func() error) error {
	ctx := noContext()
	dir := filepath.Join(base, "run")
	d, err := rundir.Create(fx, dir, rundir.Manifest{RunID: "r"}, []byte("plan"), []byte("{}"))
	if err != nil {
		return err
	}
	if err := d.Append(ctx, "run_started", nil); err != nil {
		return err
	}
	if err := d.Ledger().Record(ctx, backends.Transition{Pod: "pod", State: backends.Created, Ref: &backends.Ref{Kind: "sim", Pod: "pod"}}); err != nil {
		return err
	}
	s := scenario{fx, dir, ignore}
	if err := s.trial(ctx, d, planned[0], 1); err != nil {
		return err
	}
	before, err := rundirtest.Trials(dir)
	if err != nil || len(before) != 1 {
		return fmt.Errorf("before: %v, %w", before, err)
	}
	if err := fill(); err != nil {
		return err
	}

	a, err := d.Begin(ctx, planned[2], 1)
	if err == nil {
		err = func() error {
			f, err := a.Create("requests.parquet")
			if err != nil {
				return err
			}
			_, err = f.Write(make([]byte, 2<<20))
			return errors.Join(err, f.Close())
		}()
		if err := a.Discard(ctx, "the disk is full"); err != nil {
			return fmt.Errorf("discard on a full disk: %w", err)
		}
	}
	if !effect.IsFull(err) {
		return fmt.Errorf("a full disk was not noticed: %w", err)
	}
	// The lines that end a run fit into the reserved space.
	for i := range 500 {
		if err := d.Append(ctx, "deployment_stopped", map[string]any{"n": i, "why": "no space left on device"}); err != nil {
			return fmt.Errorf("line %d on a full disk: %w", i, err)
		}
	}
	if err := d.Ledger().Record(ctx, backends.Transition{Pod: "pod", State: backends.Gone}); err != nil {
		return err
	}
	if err := d.Close(); err != nil {
		return err
	}

	// A directory on a disk that is still full can be opened, to give pods back.
	if d, _, err = rundir.Open(fx, dir); err != nil {
		return fmt.Errorf("open on a full disk: %w", err)
	}
	if err := d.Close(); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(base, "filler")); err != nil && !os.IsNotExist(err) {
		return err
	}
	if err := (scenario{nil, dir, ignore}).run(ctx); err != nil {
		return fmt.Errorf("resume with space: %w", err)
	}
	after, err := rundirtest.Trials(dir)
	if err != nil {
		return err
	}
	for k, sum := range before {
		if after[k] != sum {
			return fmt.Errorf("%s has changed", k)
		}
	}
	if len(after) != len(planned) {
		return fmt.Errorf("%d trials", len(after))
	}
	return rundirtest.Check(dir)
}

// Derived files that do not fit leave the old ones as they were.
func TestDerive_keepsTheOldOne(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	d := must[*rundir.Dir](t)(rundir.Create(nil, dir, rundir.Manifest{}, nil, nil))
	defer d.Close()
	text := func(s string, err error) func(io.Writer) error {
		return func(w io.Writer) error {
			_, _ = io.WriteString(w, s)
			return err
		}
	}
	if err := d.Derive("cells.csv", text("old", nil)); err != nil {
		t.Fatal(err)
	}
	if err := d.Derive("cells.csv", text("new", syscall.ENOSPC)); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v", err)
	}
	if b, _ := os.ReadFile(filepath.Join(dir, "cells.csv")); string(b) != "old" {
		t.Errorf("cells.csv holds %q", b)
	}
}
