package metricslog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/sinks"
)

var start = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// A scrape is a body and when it came, in seconds.
type scrape struct {
	at   float64
	body string
	tail string // of the line above it
	more string // lines below it
}

// attempt makes the folder of an attempt with an archive for each server.
func attempt(t *testing.T, servers map[string][]scrape) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run [1]*") // a name, and no pattern
	if err := os.MkdirAll(filepath.Join(dir, "scrapes"), 0o755); err != nil {
		t.Fatal(err)
	}
	for server, scrapes := range servers {
		var b bytes.Buffer
		enc, err := zstd.NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range scrapes {
			wall := start.Add(time.Duration(s.at * float64(time.Second)))
			fmt.Fprintf(enc, "# sweep scrape seq=%d t_us=%.0f wall=%s status=200 bytes=%d%s\n%s\n%s", i, 1e6*s.at, wall.Format(time.RFC3339Nano), len(s.body), s.tail, s.body, s.more)
		}
		if err := enc.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "scrapes", server+".prom.zst"), b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func row(engine, cell string, trial int, after time.Duration) result.Row {
	return result.Row{"engine": engine, "cell_id": cell, "trial": int64(trial), "attempt": int64(1), "started_at": start.Add(after)}
}

// build returns the files that were completed; the first write beyond room
// bytes fails.
func build(ctx context.Context, table sinks.Table, room int) (map[string]string, error) {
	files := map[string]string{}
	err := Sink{}.Build(ctx, table, func(name string, write func(sinks.Writer) error) error {
		w := &limited{room: room}
		if err := write(w); err != nil {
			return err
		}
		files[name] = w.String()
		return nil
	})
	return files, err
}

var errFull = errors.New("no space left")

type limited struct {
	bytes.Buffer
	room int
}

func (l *limited) Write(p []byte) (int, error) {
	if l.room -= len(p); l.room < 0 {
		return 0, errFull
	}
	return l.Buffer.Write(p)
}

const plenty = 1 << 20

// TestBuild holds that the bodies of all servers of an engine stand in the
// order in which they came, whole, with what they are of.
func TestBuild(t *testing.T) {
	t.Parallel()
	table := sinks.Table{
		// The plan's order is not that in which the trials ran.
		Rows: slices.Values([]result.Row{row("dynamo", "late", 1, time.Minute), row("dynamo", "early", 2, 0), row("my engine/2", "other", 1, 0), row("dynamo", "none", 1, 0)}),
		Attempts: []string{
			attempt(t, map[string][]scrape{"frontend-0": {{at: 61, body: "up 3\n"}}}),
			attempt(t, map[string][]scrape{
				"frontend-0": {{at: 0, body: "# HELP a b\na 1\n"}, {at: 2, body: "a 2\n"}},
				"worker-0":   {{at: 0.5, body: "w 1"}, {at: 3, body: "", tail: ` error="bytes=99 wall=never"`}},
			}),
			attempt(t, map[string][]scrape{"server-0": {{at: 0, body: "x 1", more: "# iterations [{}]\n"}, {at: 1, body: "x 2\n"}}}),
			t.TempDir(), // its server told nothing
		},
	}
	got, err := build(t.Context(), table, plenty)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"metrics-dynamo.log": `# sweep scrape cell=early trial=2 attempt=1 server=frontend-0 seq=0 t_us=0 wall=2026-03-04T05:06:07Z status=200 bytes=15
# HELP a b
a 1

# sweep scrape cell=early trial=2 attempt=1 server=worker-0 seq=0 t_us=500000 wall=2026-03-04T05:06:07.5Z status=200 bytes=3
w 1

# sweep scrape cell=early trial=2 attempt=1 server=frontend-0 seq=1 t_us=2000000 wall=2026-03-04T05:06:09Z status=200 bytes=4
a 2

# sweep scrape cell=early trial=2 attempt=1 server=worker-0 seq=1 t_us=3000000 wall=2026-03-04T05:06:10Z status=200 bytes=0 error="bytes=99 wall=never"

# sweep scrape cell=late trial=1 attempt=1 server=frontend-0 seq=0 t_us=61000000 wall=2026-03-04T05:07:08Z status=200 bytes=5
up 3

`,
		"metrics-my-engine-2.log": "# sweep scrape cell=other trial=1 attempt=1 server=server-0 seq=0 t_us=0 wall=2026-03-04T05:06:07Z status=200 bytes=3\nx 1\n# iterations [{}]\n\n" +
			"# sweep scrape cell=other trial=1 attempt=1 server=server-0 seq=1 t_us=1000000 wall=2026-03-04T05:06:08Z status=200 bytes=4\nx 2\n\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestBuild_broken holds that half of a log, or one of half an archive, is an
// error and no log.
func TestBuild_broken(t *testing.T) {
	t.Parallel()
	whole := attempt(t, map[string][]scrape{"server-0": {{at: 0, body: strings.Repeat("x 1\n", 100)}, {at: 1, body: "x 2\n"}}})
	path := filepath.Join(whole, "scrapes", "server-0.prom.zst")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	table := sinks.Table{Rows: slices.Values([]result.Row{row("vllm", "c", 1, 0)}), Attempts: []string{whole}}
	if files, err := build(t.Context(), table, 100); !errors.Is(err, errFull) || len(files) != 0 {
		t.Errorf("a full disk: %v, %d files", err, len(files))
	}
	stopped, cancel := context.WithCancelCause(t.Context())
	cancel(errFull)
	if files, err := build(stopped, table, plenty); !errors.Is(err, errFull) || len(files) != 0 {
		t.Errorf("stopped: %v, %d files", err, len(files))
	}
	if err := os.WriteFile(path, good[:len(good)-3], 0o644); err != nil {
		t.Fatal(err)
	}
	if files, err := build(t.Context(), table, plenty); err == nil || len(files) != 0 {
		t.Errorf("half an archive: %v, %d files", err, len(files))
	}
	var b bytes.Buffer
	enc, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"something else\n", "# sweep scrape seq=1 wall=2026-03-04T05:06:07Z\n", "# sweep scrape bytes=-1\n", "# sweep scrape bytes=9999999999\n", "# sweep scrape bytes=5 wall=2026-03-04T05:06:07Z\nabc\n"} {
		b.Reset()
		enc.Reset(&b)
		fmt.Fprint(enc, text)
		if err := enc.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := build(t.Context(), table, plenty); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
