package history_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/effect/effecttest"
	"sweep.dev/sweep/nightly/history"
	"sweep.dev/sweep/rundir/crcline"
)

// aNight returns one of a run with some figures.
func aNight(run, cell string, day int, value float64) history.Night {
	return history.Night{
		Date: time.Date(2026, 1, day, 2, 0, 0, 0, time.UTC), Run: run, Plan: "p", Label: "concurrency 8",
		Key:    history.Key{Cell: cell, Conditions: "c", Machine: "sim - loopback", Method: 2},
		Trials: 1, Valid: 1,
		Figures: map[string]history.Figure{"throughput_tok_s": {Mean: &value, N: 1}},
	}
}

func add(t *testing.T, path string, nights ...history.Night) history.Added {
	t.Helper()
	a, err := history.Add(t.Context(), nil, path, nights, nil)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func read(t *testing.T, path string) *history.File {
	t.Helper()
	f, err := history.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestAdd(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history.jsonl")
	one, two := aNight("a", "x", 1, 100), aNight("a", "y", 1, 200)
	if got := add(t, path, one, two); got != (history.Added{New: 2}) {
		t.Errorf("%+v", got)
	}
	before, _ := os.ReadFile(path)
	if got := add(t, path, one, two); got != (history.Added{}) {
		t.Errorf("the same once more: %+v", got)
	}
	if after, _ := os.ReadFile(path); string(after) != string(before) {
		t.Error("the same run once more changed the file")
	}
	again := aNight("a", "y", 1, 210) // the run was resumed
	if got := add(t, path, one, again, aNight("b", "x", 2, 101)); got != (history.Added{New: 1, Replaced: 1}) {
		t.Errorf("%+v", got)
	}
	f := read(t, path)
	if len(f.Nights) != 3 || !reflect.DeepEqual(f.Nights[1], again) || f.Torn != 0 {
		t.Errorf("%+v", f)
	}
	if after, _ := os.ReadFile(path); !strings.HasPrefix(string(after), string(before)) {
		t.Error("lines that were there have changed")
	}
}

// Whatever a crash cuts off the end is cut away by the next writer, and nothing else.
func TestAdd_tornTail(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history.jsonl")
	first, second := aNight("a", "x", 1, 100), aNight("b", "x", 2, 101)
	add(t, path, first)
	short, _ := os.ReadFile(path)
	add(t, path, second)
	whole, _ := os.ReadFile(path)
	for n := range len(whole) {
		if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		f := read(t, path)
		if want := n >= len(short); (len(f.Nights) > 0) != want {
			t.Fatalf("%d of %d bytes: %d nights", n, len(whole), len(f.Nights))
		}
		add(t, path, first, second)
		if got, _ := os.ReadFile(path); string(got) != string(whole) {
			t.Fatalf("%d of %d bytes: repaired to\n%s", n, len(whole), got)
		}
	}
	// Sectors that were never written.
	if err := os.WriteFile(path, append(short, []byte(strings.Repeat("\x00", 512))...), 0o600); err != nil {
		t.Fatal(err)
	}
	if a := add(t, path, second); a.Torn != 512 {
		t.Errorf("%+v", a)
	}
	if got, _ := os.ReadFile(path); string(got) != string(whole) {
		t.Errorf("repaired to\n%s", got)
	}
}

// The power goes after any operation: what was acknowledged is there, and adding goes on.
func TestAdd_powerLoss(t *testing.T) {
	t.Parallel()
	var log effect.Log
	fx, err := effect.New("", effect.Record(&log))
	if err != nil {
		t.Fatal(err)
	}
	base := t.TempDir()
	path := filepath.Join(base, "history.jsonl")
	nights := []history.Night{aNight("a", "x", 1, 100), aNight("b", "x", 2, 101), aNight("c", "x", 3, 102)}
	var acknowledged []int // operations, by night
	for _, n := range nights {
		if _, err := history.Add(t.Context(), fx, path, []history.Night{n}, nil); err != nil {
			t.Fatal(err)
		}
		acknowledged = append(acknowledged, len(log.Ops()))
	}
	ops := log.Ops()
	for n := range len(ops) + 1 {
		for _, keep := range []int{0, 50, 100} {
			dst := t.TempDir()
			if err := effecttest.PowerLoss(ops[:n], base, dst, keep, uint64(n)); err != nil {
				t.Fatal(err)
			}
			left := filepath.Join(dst, "history.jsonl")
			f, err := history.Read(left)
			if errors.Is(err, os.ErrNotExist) {
				f = &history.File{}
			} else if err != nil {
				t.Fatalf("after %d operations, %d %% kept: %v", n, keep, err)
			}
			for i, at := range acknowledged {
				if at <= n && len(f.Nights) <= i {
					t.Errorf("after %d operations, %d %% kept: %d nights, %d were acknowledged", n, keep, len(f.Nights), i+1)
				}
			}
			add(t, left, nights...)
			if got := read(t, left); len(got.Nights) != len(nights) || got.Torn != 0 {
				t.Errorf("after %d operations, %d %% kept: %d nights when added again", n, keep, len(got.Nights))
			}
		}
	}
}

func TestAdd_fullDisk(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history.jsonl")
	add(t, path, aNight("a", "x", 1, 100))
	before, _ := os.ReadFile(path)
	fx, err := effect.New("history.write:err=ENOSPC")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := history.Add(t.Context(), fx, path, []history.Night{aNight("b", "x", 2, 1)}, nil); !effect.IsFull(err) {
		t.Errorf("%v", err)
	}
	if after, _ := os.ReadFile(path); string(after) != string(before) {
		t.Errorf("a full disk left\n%s", after)
	}
}

func TestAdd_concurrently(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history.jsonl")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			if _, err := history.Add(t.Context(), nil, path, []history.Night{aNight(fmt.Sprint("run", i), "x", 1, 1)}, nil); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if f := read(t, path); len(f.Nights) != 8 || f.Torn != 0 {
		t.Errorf("%d nights, %d torn", len(f.Nights), f.Torn)
	}
}

func TestRead_foreign(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good := filepath.Join(dir, "good")
	add(t, good, aNight("a", "x", 1, 100), aNight("b", "x", 2, 100))
	text, _ := os.ReadFile(good)
	lines := strings.SplitAfter(string(text), "\n")
	for name, c := range map[string]struct {
		text string
		want string
	}{
		"csv":          {"gpu,concurrency\nl4,8\n", "csv:1: not a history of sweep: there is no checksum in front"},
		"no line":      {"hello", "no line:1: not a history of sweep"},
		"journal":      {`{"crc":"00000000","seq":1}` + "\n", "journal:1: not a history of sweep: checksum does not match"},
		"middle":       {lines[0] + strings.Replace(lines[1], "100", "900", 1) + lines[2], "middle:2: not a history of sweep: checksum does not match"},
		"added":        {string(text) + "2026-01-01 by hand\n", "added:4: not a history of sweep: there is no checksum in front"},
		"edited":       {lines[0] + lines[1] + strings.Replace(lines[2], "100", "900", 1), "edited:3: not a history of sweep: checksum does not match"},
		"cut, edited":  {lines[0] + lines[1] + strings.TrimSuffix(strings.Replace(lines[2], "100", "900", 1), "\n"), "cut, edited:3: not a history of sweep: the line is not complete"},
		"half by hand": {string(text) + "2026-01-01", "half by hand:4: not a history of sweep: the line is not complete"},
		"no run":       {lines[0] + string(crcline.Encode([]byte(`{"night":{"date":"2026-01-01T02:00:00Z","cell_id":"x"}}`))), "no run:2: not a history of sweep: a night without date, run_id or cell_id"},
		"list":         {lines[0] + string(crcline.Encode([]byte(`{"night":[]}`))), "list:2: not a history of sweep: json: cannot unmarshal array"},
		"newer":        {`{"crc":"e34a751a","format":"sweep-history","version":2}` + "\n", "newer:1: not a history of sweep: its version is 2, this program reads version 1"},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := history.Read(path)
		if foreign := (*history.ForeignError)(nil); !errors.As(err, &foreign) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
		if _, err := history.Add(t.Context(), nil, path, []history.Night{aNight("a", "x", 1, 1)}, nil); err == nil {
			t.Errorf("%s: a foreign file was written", name)
		}
		if after, _ := os.ReadFile(path); string(after) != c.text {
			t.Errorf("%s: a foreign file was changed", name)
		}
	}
}

// A night that is older than those of its series is refused, whatever clock it had, and leaves
// the file as it was. Another series, a line anew and a second measurement are no such night.
func TestAdd_older(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history.jsonl")
	add(t, path, aNight("a", "x", 5, 100), aNight("b", "x", 6, 100))
	before, _ := os.ReadFile(path)
	_, err := history.Add(t.Context(), nil, path, []history.Night{aNight("c", "y", 2, 100), aNight("c", "x", 2, 100)}, nil)
	if order := (*history.OrderError)(nil); !errors.As(err, &order) || order.Newest.Run != "b" || !strings.Contains(err.Error(), "the night of 2026-01-02T02:00:00Z is older than that of 2026-01-06T02:00:00Z (run b)") {
		t.Errorf("%v", err)
	}
	if after, _ := os.ReadFile(path); string(after) != string(before) {
		t.Errorf("the file was changed:\n%s", after)
	}
	if a := add(t, path, aNight("d", "y", 2, 100)); a.New != 1 {
		t.Errorf("another series: %+v", a)
	}
	if a := add(t, path, aNight("a", "x", 5, 101)); a.Replaced != 1 {
		t.Errorf("a line anew: %+v", a)
	}
	again := aNight("e", "x", 7, 100)
	again.Again = "b"
	add(t, path, again)
	f := read(t, path)
	if n, ok := f.After("p", time.Date(2026, 1, 5, 3, 0, 0, 0, time.UTC)); !ok || n.Run != "e" {
		t.Errorf("%v %+v", ok, n)
	}
	if n, ok := f.After("other", time.Time{}); ok {
		t.Errorf("a night of another plan: %+v", n)
	}
}
