package rundir_test

import (
	"fmt"
	"os"
	"testing"

	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/rundir"
)

func benchDir(b *testing.B) *rundir.Dir {
	b.Helper()
	d, err := rundir.Create(nil, b.TempDir()+"/run", rundir.Manifest{}, nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = d.Close() })
	return d
}

// One event: one write, one fsync.
func BenchmarkAppend(b *testing.B) {
	d := benchDir(b)
	data := map[string]any{"deployment": "d1", "ms": 12}
	for b.Loop() {
		if err := d.Append(b.Context(), "server_ready", data); err != nil {
			b.Fatal(err)
		}
	}
}

// One small trial from Begin to the end of Commit: two files of 64 KiB and
// result.json.
func BenchmarkCommit(b *testing.B) {
	d := benchDir(b)
	data := make([]byte, 64<<10)
	n := 0
	for b.Loop() {
		n++
		a, err := d.Begin(b.Context(), rundir.Key{Cell: fmt.Sprintf("c%d", n), Trial: 1}, 1)
		if err != nil {
			b.Fatal(err)
		}
		for _, name := range []string{"requests.parquet", "samples.parquet"} {
			if err := write(a, name, data); err != nil {
				b.Fatal(err)
			}
		}
		if err := a.Commit(b.Context(), outcome(), "d"); err != nil {
			b.Fatal(err)
		}
	}
}

func write(a *rundir.Attempt, name string, data []byte) error {
	f, err := a.Create(name)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Close()
}

// A journal of 10,000 trials.
func BenchmarkRead(b *testing.B) {
	dir := b.TempDir() + "/run"
	data := longJournal(b)
	writeJournal(b, dir, data)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := rundir.Read(dir); err != nil {
			b.Fatal(err)
		}
	}
}

func longJournal(b *testing.B) []byte {
	b.Helper()
	data := rundir.EncodeLine(b, 1, "run_created", rundir.Manifest{})
	seq := uint64(1)
	add := func(typ string, v any) {
		seq++
		data = append(data, rundir.EncodeLine(b, seq, typ, v)...)
	}
	for n := range 10_000 {
		k := rundir.Key{Cell: fmt.Sprintf("%016x", n), Trial: 1}
		add("trial_begun", rundir.AttemptKey{Key: k, Attempt: 1})
		add("trial_committed", rundir.Commit{Key: k, Attempt: 1, Status: "ok", SHA256: fmt.Sprintf("%064x", n), Digest: "0123456789abcdef"})
	}
	return data
}

func writeJournal(b *testing.B, dir string, data []byte) {
	b.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(dir+"/"+layout.Journal, data, 0o600); err != nil {
		b.Fatal(err)
	}
}
