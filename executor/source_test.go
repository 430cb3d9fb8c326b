package executor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sweep.dev/sweep/executor/event"
	"sweep.dev/sweep/result"
)

// No prompt is sent twice in a run, over cells, trials and their warm-ups, so
// that no prefix cache helps by accident. The same plan sends the same prompts.
func TestPrompts_neverRepeat(t *testing.T) {
	t.Parallel()
	send := func() (texts []string) {
		w := newWorld(t, nil, `repeats: 3`, `matrix: {engine: sim, gpu: [a, b], concurrency: [1, 2]}`)
		w.must()
		first := map[string]string{}
		for _, q := range w.prompts() {
			texts = append(texts, q.prompt)
			if id, ok := first[q.prompt]; ok {
				t.Errorf("%s and %s ask the same", id, q.id)
			}
			first[q.prompt] = q.id
		}
		want(t, "prompts", len(texts), 2*3*((1+1+2)+(1+2+2))) // of one worker and of two: warm-up, the first of each, requests
		slices.Sort(texts)
		return texts
	}
	if !slices.Equal(send(), send()) {
		t.Error("the same plan and seed send other prompts")
	}
}

// Given prompts are divided over the trials, in the plan's order; a resumed run
// gives each trial the same ones.
func TestPrompts_givenAreDivided(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "prompts.jsonl")
	var lines []string
	for i := range 18 {
		lines = append(lines, fmt.Sprintf(`{"prompt": "number %02d"}`, i))
	}
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, load := range map[string]string{
		"inline": `load: {requests: 2, warmup: {requests: 1}, max_tokens: 4, prompts: {kind: inline, texts: [` + inline(18) + `]}}`,
		"jsonl":  `load: {requests: 2, warmup: {requests: 1}, max_tokens: 4, prompts: {kind: jsonl, file: ` + file + `}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil, load, `repeats: 2`)
			w.must()
			byTrial := map[string][]string{}
			for _, q := range w.prompts() {
				trial, _, _ := strings.Cut(q.id, "-s")
				byTrial[trial] = append(byTrial[trial], q.prompt)
			}
			cells := w.plan.Deployments()[0].Cells
			next := 0
			for i, trial := range []string{cells[0].ID + "-t01-a01", cells[1].ID + "-t01-a01", cells[0].ID + "-t02-a01", cells[1].ID + "-t02-a01"} {
				var wantTexts []string
				for range 4 + i%2 { // a warm-up, the first of each worker, two
					wantTexts = append(wantTexts, fmt.Sprintf("number %02d", next))
					next++
				}
				got := slices.Sorted(slices.Values(byTrial[trial]))
				if !slices.Equal(got, wantTexts) {
					t.Errorf("%s was asked %q, want %q", trial, got, wantTexts)
				}
			}
			// The last trial alone is left to do, and asks what it asked before.
			before := byTrial[cells[1].ID+"-t02-a01"]
			w.backend = &fakeBackend{}
			w.must(func(c *Config) {
				c.Retry = []string{"ok"}
				for key := range c.State.Committed {
					if key.Cell != cells[1].ID || key.Trial != 2 {
						commit := c.State.Committed[key]
						commit.Status = "kept"
						c.State.Committed[key] = commit
					}
				}
			})
			var again []string
			for _, q := range w.prompts() {
				again = append(again, q.prompt)
			}
			slices.Sort(again)
			slices.Sort(before)
			if !slices.Equal(again, before) {
				t.Errorf("a resumed trial asks %q, and asked %q", again, before)
			}
		})
	}
}

func inline(n int) string {
	var texts []string
	for i := range n {
		texts = append(texts, fmt.Sprintf("number %02d", i))
	}
	return strings.Join(texts, ", ")
}

// Too few prompts are seen before anything starts. (A plan counts them too, but
// a file may be another one by now.)
func TestPrompts_tooFew(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "prompts.jsonl")
	write := func(n int) {
		t.Helper()
		text := strings.Repeat(`{"prompt": "the same"}`+"\n", n)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	load := `load: {requests: 2, warmup: {requests: 1}, max_tokens: 4, prompts: {kind: jsonl, file: ` + file + `}}`
	write(18)
	w := newWorld(t, nil, load, `repeats: 2`)
	write(17)
	rep, err := w.run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "which has 17") {
		t.Errorf("%+v, %v", rep, err)
	}
	want(t, "launches", w.backend.count("launch"), 0)

	w = newWorld(t, nil, strings.Replace(load, "file:", "reuse: allowed, file:", 1), `repeats: 2`)
	w.must()
	want(t, "prompts with reuse", len(w.prompts()), 18)
}

// Failed requests of a trace are not sent again, and the row says so.
func TestTrace_skipped(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "t.csv")
	text := "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.0000000,20,4\n2023-11-16 18:15:46.0100000,20,0\n2023-11-16 18:15:46.0200000,20,4\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, nil, `matrix: {engine: sim}`, fmt.Sprintf(`load: {warmup: {requests: 1}, trace: {file: %q, format: azure}}`, file))
	w.must()
	o := w.outcomes()[0]
	want(t, "requests", o.Row["requests"], any(int64(2)))
	if i := slices.Index(codesOf(o), "trace_rows_skipped"); i < 0 {
		t.Errorf("findings %v", codesOf(o))
	}
}

// Clients in other processes are sent all prompts: a file that does not stay in memory is refused
// for them before anything is started.
func TestPrompts_severalClients(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "prompts.jsonl")
	line := `{"prompt": "a", "not sent": "` + strings.Repeat("x", 3<<20) + `"}` + "\n"
	if err := os.WriteFile(file, []byte(strings.Repeat(line, 12)), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, always(script{}), `matrix: {engine: sim, gpu: a, concurrency: 2}`, `load: {clients: 2, requests: 4, warmup: {requests: 1}, max_tokens: 4, prompts: {kind: jsonl, file: `+file+`}}`)
	if _, err := w.run(t.Context()); err == nil || !strings.Contains(err.Error(), file+" has more than the 32 MiB of prompts that are sent to clients") {
		t.Error(err)
	}
	want(t, "trials", len(w.outcomes()), 0)
	want(t, "launches", len(w.seen(event.DeploymentStarted)), 0)
}

// Prompts that are too many for the memory are read from their file while they are sent. A
// trial whose file was changed since is no measurement, and its error names the file.
func TestPrompts_changedFile(t *testing.T) {
	t.Parallel()
	for _, change := range []bool{false, true} {
		file := filepath.Join(t.TempDir(), "prompts.jsonl")
		var lines strings.Builder
		for i := range 24 {
			fmt.Fprintf(&lines, `{"prompt": "number %02d", "not sent": "%s"}`+"\n", i, strings.Repeat("x", 3<<20))
		}
		if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		w := newWorld(t, always(script{slow: func(context.Context) error {
			if !change {
				return nil
			}
			return os.Truncate(file, 3<<20)
		}}), `matrix: {engine: sim, gpu: a, concurrency: 1}`, `load: {requests: 18, warmup: {requests: 1}, max_tokens: 4, prompts: {kind: jsonl, file: `+file+`}}`)
		_, err := w.run(t.Context())
		if !change {
			want(t, "error", err, error(nil))
			want(t, "prompts", len(w.prompts()), 20) // and the first of the worker
		}
		for _, o := range w.outcomes() {
			errText, _ := o.Row["error"].(string)
			if failed := o.Row["status"] == result.StatusFailed; failed != change || strings.Contains(errText, file+": it was changed") != change {
				t.Errorf("changed %v: %v, %v, %v", change, o.Row["status"], errText, err)
			}
		}
		want(t, "trials", len(w.outcomes()), 1)
	}
}
