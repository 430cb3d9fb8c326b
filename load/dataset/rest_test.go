package dataset

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"sweep.dev/sweep/internal/input"
	"sweep.dev/sweep/load/source"
)

// testRest tests that entries which stay in their file are the same as those in memory,
// in any order.
func testRest(t *testing.T, path, kind string, want []source.Entry) {
	t.Helper()
	entries, rest, err := readPrompts(path, kind, 0)
	if err != nil || len(entries) != 1 || (rest == nil) != (len(want) == 1) {
		t.Fatalf("%d entries in memory, the others %v, %v", len(entries), rest, err)
	}
	if diff := gocmp.Diff(want[:1], entries); diff != "" {
		t.Errorf("the first (-want +got):\n%s", diff)
	}
	for i := len(want) - 1; i > 0; i-- {
		got, err := rest.Read(i - 1)
		if diff := gocmp.Diff(want[i], got); diff != "" || err != nil {
			t.Errorf("entry %d: %v (-want +got):\n%s", i, err, diff)
		}
		if n := int(rest.Questions[i-1]); n != len(want[i].Questions()) {
			t.Errorf("entry %d: %d questions, want %d", i, n, len(want[i].Questions()))
		}
	}
}

// The same plan and seed give the same load, wherever the prompts are.
func TestRest_sameLoad(t *testing.T) {
	var b strings.Builder
	b.WriteString("[")
	for i := range 7 {
		fmt.Fprintf(&b, `{"conversations":[{"from":"human","value":"q%d"}%s]},`, i, strings.Repeat(`,{"from":"gpt","value":"a"},{"from":"human","value":"b"}`, i%3))
	}
	path := write(t, strings.TrimSuffix(b.String(), ",")+"]")
	loads := func(most int) (texts []string) {
		entries, rest, err := readPrompts(path, "sharegpt", most)
		if err != nil {
			t.Fatal(err)
		}
		for _, turns := range []int{1, 2} {
			src, err := source.New(source.Config{
				Seed: 1, Cell: "c", Trial: 1, Concurrency: 3, Requests: 20, MaxTokens: 4, Conversation: source.Conversation{Turns: turns},
				Prompts: source.Prompts{Entries: entries, Rest: rest, First: 5, Reuse: true},
			})
			if err != nil {
				t.Fatal(err)
			}
			for more, slot := true, 0; more; slot = (slot + 1) % 3 {
				job, ok := src.Next(slot, nil)
				texts = append(texts, fmt.Sprint(job.N, job.Turn, job.Prompt.Turns))
				more = ok
			}
		}
		return texts
	}
	want := loads(1 << 20)
	for _, most := range []int{0, 400, 1200} {
		if diff := gocmp.Diff(want, loads(most)); diff != "" {
			t.Errorf("with %d bytes in memory (-want +got):\n%s", most, diff)
		}
	}
}

// A file that is written while it is in use ends the load, and the error says so.
func TestRest_changed(t *testing.T) {
	path := write(t, strings.Repeat(`{"prompt": "first"}`+"\n", 3))
	entries, rest, err := readPrompts(path, "jsonl", 0)
	if err != nil {
		t.Fatal(err)
	}
	prompts := source.Prompts{Entries: entries, Rest: rest}
	src, err := source.New(source.Config{Concurrency: 1, Requests: 3, MaxTokens: 4, Prompts: prompts})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := src.Next(0, nil); !ok || prompts.Err() != nil {
		t.Fatal("no job", prompts.Err())
	}
	if err := os.WriteFile(path, []byte(`{"prompt": "other"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if job, ok := src.Next(0, nil); ok {
		t.Errorf("got %+v", job)
	}
	if err := prompts.Err(); !errors.Is(err, input.ErrChanged) || !strings.Contains(err.Error(), path) {
		t.Error(err)
	}
}

// The memory of a data set does not grow with its texts: all of them would be 64 MB here.
func TestReadPrompts_memory(t *testing.T) {
	path := write(t, "")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	line := `{"prompt": "` + strings.Repeat("x", 1<<20) + "\"}\n"
	for range 64 {
		if _, err := f.WriteString(line); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	before := live()
	entries, rest, err := ReadPrompts(path, "jsonl")
	if err != nil || rest == nil || len(entries)+len(rest.Questions) != 64 {
		t.Fatal(len(entries), rest, err)
	}
	for i := range rest.Questions {
		if e, err := rest.Read(i); err != nil || len(e.Prompt.Turns[0]) != 1<<20 {
			t.Fatal(err)
		}
	}
	if grown := live() - before; grown > MaxHeld+4<<20 {
		t.Errorf("%d MB are in use", grown>>20)
	}
	runtime.KeepAlive(entries)
	runtime.KeepAlive(rest)
}

// live returns how many bytes of the heap are in use.
func live() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what pools hold
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
