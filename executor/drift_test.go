package executor

import (
	"errors"
	"strings"
	"testing"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/plan"
)

// cellOnly chooses one cell.
func cellOnly(id string) func(plan.Cell) (bool, error) {
	return func(c plan.Cell) (bool, error) { return c.ID == id, nil }
}

// later returns a script of one server for the first n launches, and of another after them.
func later(n int, first, then script) func(int, backends.Spec) script {
	return func(i int, _ backends.Spec) script {
		if i <= n {
			return first
		}
		return then
	}
}

// A run that goes on with another engine or image than its committed trials had is
// ended before anything is measured with it.
func TestRun_drift(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		then script
		want []string // "" in all of the error: it goes on
	}{
		"the same":        {script{}, nil},
		"another version": {script{version: "1.3.0"}, []string{"engine version is 1.3.0", "has 1.2.3"}},
		"another image":   {script{image: "sha256:0b"}, []string{"image digest is sha256:0b", "has sha256:0a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, later(1, script{}, tt.then), `repeats: 2`)
			w.backend.usdPerHour = 0.001
			// The first run has measured one trial and is ended.
			cells := w.plan.Deployments()[0].Cells
			first, err := w.run(t.Context(), func(c *Config) { c.FailFast = true; c.Only = cellOnly(cells[0].ID) })
			want(t, "the first run", err, nil)
			want(t, "committed", first.Committed, 2)

			rep, err := w.run(t.Context())
			want(t, "launches", w.backend.count("launch"), 2)
			want(t, "owed pods", len(w.state().Owed), 0)
			if tt.want == nil {
				want(t, "committed", rep.Committed, 2)
				want(t, "the second run", err, nil)
				return
			}
			want(t, "committed", rep.Committed, 0)
			if !errors.Is(err, ErrDrift) {
				t.Fatalf("the second run: %v", err)
			}
			for _, text := range append(tt.want, "trial 1 of cell "+cells[0].ID, "start a new run") {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("the error does not say %q: %v", text, err)
				}
			}
			w.backend.mu.Lock()
			asked := len(w.backend.servers[1].asked)
			w.backend.mu.Unlock()
			want(t, "requests of the other server", asked, 0)
		})
	}
}

// A server that died and is launched again must be the same one.
func TestRun_driftBetweenLaunches(t *testing.T) {
	t.Parallel()
	first := dies(5) // in the second trial
	w := newWorld(t, later(1, first, script{version: "1.3.0"}))
	rep, err := w.run(t.Context())
	if !errors.Is(err, ErrDrift) {
		t.Errorf("%v", err)
	}
	want(t, "committed", rep.Committed, 1)
}

// A digest or version that a run cannot see is no difference.
func TestRun_driftUnknown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.backend.usdPerHour = 0.001
	cells := w.plan.Deployments()[0].Cells
	if _, err := w.run(t.Context(), func(c *Config) { c.Only = cellOnly(cells[0].ID) }); err != nil {
		t.Fatal(err)
	}
	w.backend.usdPerHour = 0 // nothing tells the image now
	w.must()
}

// The digests of a row follow what it was measured with.
func TestRun_digests(t *testing.T) {
	t.Parallel()
	digests := func(s script, change ...func(*Config)) (conditions, subject, spec any) {
		w := newWorld(t, always(s))
		w.must(change...)
		row := w.outcomes()[0].Row
		return row["conditions_digest"], row["subject_digest"], row["spec_digest"]
	}
	c1, s1, p1 := digests(script{})
	c2, s2, p2 := digests(script{version: "1.3.0"})
	if c1 == nil || s1 == nil || c1 != c2 || p1 != p2 || s1 == s2 {
		t.Errorf("another version: conditions %v and %v, subject %v and %v, spec %v and %v", c1, c2, s1, s2, p1, p2)
	}
	c3, s3, p3 := digests(script{}, func(c *Config) { c.Client = "std" })
	if c3 == c1 || s3 != s1 || p3 != p1 {
		t.Errorf("another client: conditions %v and %v, subject %v and %v, spec %v and %v", c1, c3, s1, s3, p1, p3)
	}
	w := newWorld(t, always(script{exit: killed()}))
	if _, err := w.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	row := w.outcomes()[0].Row
	if row["subject_digest"] != nil || row["conditions_digest"] != c1 {
		t.Errorf("of a server that never was ready: %v and %v", row["conditions_digest"], row["subject_digest"])
	}
}
