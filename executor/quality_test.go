package executor

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/executor/event"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/judge/quality"
	"sweep.dev/sweep/report/paired"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/rundir"
)

// questions are 20 items: sums, of which the last is too long for a small context, and
// one that is not scored.
func questions(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for n := range 18 {
		fmt.Fprintf(&b, `{"id": "sum-%d", "prompt": "%d+1", "expected": "%d"}`+"\n", n, n, n+1)
	}
	b.WriteString(`{"id": "long", "prompt": "long", "expected": "99"}` + "\n" + `{"id": "free", "prompt": "free"}` + "\n")
	name := filepath.Join(t.TempDir(), "set.jsonl")
	if err := os.WriteFile(name, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// right answers every question of the set.
func right(prompt string) (int, string) {
	var n int
	if _, err := fmt.Sscanf(prompt, "%d+1", &n); err == nil {
		return http.StatusOK, fmt.Sprintf("It is %d.", n+1)
	}
	return http.StatusOK, "99"
}

// worse has the first ten wrong, refuses the long one, and answers the free one in a
// new way each time.
func worse(s *fakeServer, prompt string) (int, string) {
	var n int
	switch {
	case prompt == "long":
		return http.StatusBadRequest, "the context is too short"
	case prompt == "free":
		return http.StatusOK, fmt.Sprint("99 ", s.look("free"))
	}
	if _, err := fmt.Sscanf(prompt, "%d+1", &n); err == nil && n < 10 {
		return http.StatusOK, "It is 0."
	}
	return right(prompt)
}

// A question obeys timeouts.request, whatever else a probe may take: what gets no answer is
// unknown and not wrong.
func TestRun_qualityDeadline(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(int, backends.Spec) script {
		return script{answer: func(s *fakeServer, prompt string) (int, string) {
			if prompt == "long" {
				<-s.hung()
			}
			return right(prompt)
		}}
	}, `matrix: {engine: sim, concurrency: 1}`, `timeouts: {request: 3s}`, `quality: {file: `+questions(t)+`}`)
	w.must()
	row := w.outcomes()[0].Row
	want(t, "score", row[col.QualityScore], any(1.0))
	want(t, "unknown", row[col.QualityUnknown], any(int64(1)))
	want(t, "refused", row[col.QualityRefused], any(int64(0)))
}

// Each deployment answers the prompts before its first trial and outside of it: its rows
// have the score, its requests are counted, and a run that goes on asks nothing again.
func TestRun_quality(t *testing.T) {
	t.Parallel()
	n := 0
	w := newWorld(t, func(int, backends.Spec) script {
		if n++; n == 2 {
			return script{answer: worse}
		}
		return script{answer: func(_ *fakeServer, prompt string) (int, string) { return right(prompt) }}
	}, `matrix: {engine: sim, gpu: [a, b], concurrency: [1, 2]}`, `repeats: 2`,
		`quality: {file: `+questions(t)+`, baseline: {gpu: a}}`, `slo: {right: quality_score > 0.9}`)
	w.must()
	outcomes := w.outcomes()
	if len(outcomes) != 8 {
		t.Fatalf("%d outcomes", len(outcomes))
	}
	for i, o := range outcomes {
		score, refused, repeat, verdict := 1.0, int64(0), 1.0, "pass"
		if i >= 4 {
			score, refused, repeat, verdict = 8./19, 1, 18./19, "fail"
		}
		want(t, "score", o.Row[col.QualityScore], any(score))
		want(t, "items", o.Row[col.QualityN], any(int64(19)))
		want(t, "refused", o.Row[col.QualityRefused], any(refused))
		want(t, "answered alike twice", o.Row[col.QualityRepeatRate], any(repeat))
		want(t, "objective", o.Row[col.OfSLO("right")], any(verdict))
		codes, _ := o.Row[col.Findings].(string)
		want(t, "finding of answers that differ", strings.Contains(codes, "quality_varies"), i >= 4)
	}
	asked, computed := int64(0), int64(0)
	for _, s := range w.backend.list() {
		want(t, "measured prompts that are quality's", strings.Contains(fmt.Sprint(s.prompts()), "+1"), false)
		asked, computed = asked+int64(s.looked("all")), computed+int64(len(s.prompts())+s.looked("probe")+s.looked("quality"))
	}
	want(t, "questions to a and b", fmt.Sprint(w.backend.list()[0].looked("quality"), w.backend.list()[1].looked("quality")), "40 39")
	for _, o := range outcomes {
		asked -= o.Row["requests"].(int64) + o.Row["extra_requests"].(int64)
		computed -= o.Row["requests"].(int64) + o.Row["extra_completions"].(int64)
	}
	want(t, "requests without a row", asked, 0)
	want(t, "completions without a row", computed, 0)
	if notice := w.seen(event.Notice)[0].Text; !strings.Contains(notice, "up to 52 requests beyond the load") { // ready 4, quality 40, resets 4, warm-up 4
		t.Errorf("announced: %s", notice)
	}

	p, err := paired.Read(w.dir)
	if err != nil || len(p.Sides) != 1 {
		t.Fatalf("%+v, %v", p, err)
	}
	side := p.Sides[0]
	if side.Server.Label != "sim b" || side.Losses != 11 || side.Gains != 0 || side.Pairs != 19 || side.Verdict != "worse" || side.Texts != 19 || side.Same != 8 {
		t.Errorf("%+v", side)
	}
	files, err := filepath.Glob(filepath.Join(w.dir, layout.AnyQuality))
	if err != nil || len(files) != 2 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil || strings.Contains(string(text), "5+1") {
			t.Errorf("%s has the text of a prompt, %v", f, err)
		}
		if info, err := os.Stat(f); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", f, info.Mode(), err)
		}
	}

	// Trials that are run again take the answers that there are.
	w.must(func(c *Config) { c.Retry = []string{"ok"} })
	for _, s := range w.backend.list()[2:] {
		want(t, "questions of the run that goes on", s.looked("quality"), 0)
	}
	for _, c := range w.state().Committed {
		o, err := rundir.Outcome(w.dir, c)
		if err != nil {
			t.Fatal(err)
		}
		want(t, "attempts", o.Attempt, 2)
		score := 1.0
		if o.Row[col.GPU] == "b" {
			score = 8. / 19
		}
		want(t, "score of the run that goes on", o.Row[col.QualityScore], any(score))
	}
}

// A server that dies while it is asked has answered nothing: the next launch is asked.
func TestRun_qualityDeath(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(n int, _ backends.Spec) script {
		return script{answer: func(s *fakeServer, prompt string) (int, string) {
			if n == 1 && s.look("count") == 7 {
				s.die(killed())
			}
			return right(prompt)
		}}
	}, `quality: {file: `+questions(t)+`, concurrency: 1}`)
	w.must()
	for _, o := range w.outcomes() {
		want(t, "score", o.Row[col.QualityScore], any(1.0))
		want(t, "unknown", o.Row[col.QualityUnknown], any(int64(0)))
	}
	want(t, "questions to the second launch", w.backend.list()[1].looked("quality"), 40)
}

// The end of a run keeps no half of the answers.
func TestRun_qualityInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	w := newWorld(t, always(script{answer: func(s *fakeServer, prompt string) (int, string) {
		if s.look("count") == 7 {
			cancel()
		}
		return right(prompt)
	}}), `quality: {file: `+questions(t)+`, concurrency: 1}`)
	if _, err := w.run(ctx); err != nil {
		t.Fatal(err)
	}
	if files, err := filepath.Glob(filepath.Join(w.dir, layout.AnyQuality)); err != nil || files != nil {
		t.Errorf("%v, %v", files, err)
	}
	w.must()
	want(t, "score", w.outcomes()[0].Row[col.QualityScore], any(1.0))
}

// What lm-eval logged of a deployment is its answers: nothing is asked, what the files do
// not tell is null, and a deployment without a file has no score.
func TestRun_lmEval(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	logged := func(name string, wrong int) string {
		var b strings.Builder
		for n := range 40 {
			score, text := 1, fmt.Sprint(n)
			if n < wrong {
				score, text = 0, "[invalid]"
			}
			fmt.Fprintf(&b, `{"doc_id": %d, "filtered_resps": [%q], "filter": "none", "metrics": ["acc"], "doc_hash": "d%d", "prompt_hash": "p%d", "acc": %d}`+"\n", n, text, n, n, score)
		}
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	a, b := logged("a.jsonl", 2), logged("b.jsonl", 12)
	w := newWorld(t, always(script{}), `matrix: {engine: sim, gpu: [a, b, c], concurrency: 1}`,
		`quality: {lm_eval: {metric: acc, files: [{of: {gpu: b}, file: `+b+`}, {of: {gpu: a}, file: `+a+`}]}, baseline: {gpu: a}}`,
		`slo: {right: quality_score > 0.9}`)
	w.must()
	for i, o := range w.outcomes() {
		score, n, verdict := any(0.95), any(int64(40)), any("pass")
		switch i {
		case 1:
			score, verdict = 0.7, "fail"
		case 2:
			score, n, verdict = nil, nil, nil
		}
		want(t, "score", o.Row[col.QualityScore], score)
		want(t, "items", o.Row[col.QualityN], n)
		want(t, "interval", o.Row[col.QualityScoreLow] != nil && o.Row[col.QualityScoreHigh] != nil, i < 2)
		want(t, "objective", o.Row[col.OfSLO("right")], verdict)
		for _, name := range []string{col.QualityRefused, col.QualityUnknown, col.QualityCut, col.QualityRepeatRate} {
			want(t, name, o.Row[name], any(nil))
		}
	}
	for _, s := range w.backend.list() {
		want(t, "questions", s.looked("quality"), 0)
	}
	var told []string
	for _, e := range w.seen(event.Notice) {
		if strings.Contains(e.Text, "quality") {
			told = append(told, e.Text)
		}
	}
	want(t, "notices", fmt.Sprint(told), "[sim c: its quality is not known, as no file of quality.lm_eval is of it]")

	p, err := paired.Read(w.dir)
	if err != nil || len(p.Servers) != 2 || len(p.Sides) != 1 {
		t.Fatalf("%+v, %v", p, err)
	}
	answers, err := filepath.Glob(filepath.Join(w.dir, layout.AnyQuality))
	if err != nil || len(answers) != 2 {
		t.Fatalf("%v, %v", answers, err)
	}
	sets := map[string]bool{}
	for _, name := range answers {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		a, err := quality.ReadAnswers(f)
		f.Close() // read only
		if err != nil || a.Source != quality.FromLMEval || a.Asked() == "" {
			t.Errorf("%s: %+v, %v", name, a.Header, err)
			continue
		}
		sets[a.Asked()] = true
	}
	want(t, "digests of what was asked", len(sets), 1)
	side := p.Sides[0]
	if side.Server.Label != "sim b" || side.Losses != 10 || side.Gains != 0 || side.Pairs != 40 || side.Verdict != "worse" || side.Texts != 40 || side.Same != 30 {
		t.Errorf("%+v", side)
	}
	want(t, "row of the table", fmt.Sprint(p.Grid().Rows[1]), "[{sim b } {70.0 % } {53.5 % to 83.4 % } {40 } {- } {- }]")
	if notes := p.Notes(); len(notes) != 1 || !strings.Contains(notes[0], "lm-evaluation-harness") {
		t.Errorf("%q", notes)
	}

	logged("a.jsonl", 3)
	w = newWorld(t, always(script{}), `matrix: {engine: sim, gpu: a, concurrency: 1}`, `quality: {lm_eval: {metric: acc, files: [{of: {gpu: a}, file: `+a+`}]}}`)
	digest := w.plan.Quality.Digest()
	logged("a.jsonl", 4)
	if _, err := w.run(t.Context()); err == nil || !strings.Contains(err.Error(), "a.jsonl has changed since the plan was read") {
		t.Errorf("a file that changed: %v", err)
	}
	w = newWorld(t, always(script{}), `matrix: {engine: sim, gpu: a, concurrency: 1}`, `quality: {lm_eval: {metric: acc, files: [{of: {gpu: a}, file: `+a+`}]}}`)
	want(t, "the same digest of other answers", digest == w.plan.Quality.Digest(), false)
}
