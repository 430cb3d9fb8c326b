package rundir_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/rundir"
)

// Answers that were changed after the run are told from those that a launch wrote; so are
// those of a launch that the journal does not name.
func TestUntouched(t *testing.T) {
	t.Parallel()
	d := create(t, nil)
	for n, text := range []string{"one", "two"} {
		must[string](t)(d.LaunchDir("d", n+1))
		if err := d.WriteQuality("d", n+1, func(w io.Writer) error {
			_, err := io.WriteString(w, text)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	read := func() (all string) {
		t.Helper()
		if err := d.Quality("d", func(r io.Reader) error {
			text, err := io.ReadAll(r)
			all += string(text)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return all
	}
	if got := read(); got != "onetwo" {
		t.Errorf("read %q", got)
	}
	name := func(n int) string { return layout.LaunchDir("d", n) + "/" + layout.Quality }
	if err := os.WriteFile(filepath.Join(d.Path(), name(1)), []byte("won"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := read(); got != "two" {
		t.Errorf("read %q of a file that was changed", got)
	}
	st := must[*rundir.State](t)(rundir.Read(d.Path()))
	for _, c := range []struct {
		name, text string
		ok         bool
	}{
		{name(1), "one", true},
		{name(1), "won", false},
		{name(3), "three", false}, // never written by a launch
		{layout.LaunchDir("e", 1) + "/" + layout.Quality, "e1", true}, // of a version that named none
	} {
		if err := st.Untouched(c.name, []byte(c.text)); (err == nil) != c.ok {
			t.Errorf("%s %q: %v", c.name, c.text, err)
		}
	}
}

// A run that is made of parts has their answers, under the new numbers and only unchanged.
func TestAssemble_answers(t *testing.T) {
	t.Parallel()
	folder := twoRuns(t)
	for _, name := range []string{"a", "b"} {
		d, _, err := rundir.Open(must[*effect.Effects](t)(effect.New("")), filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		err = d.WriteQuality("d1", 1, func(w io.Writer) error {
			_, err := io.WriteString(w, name)
			return err
		})
		if err := errors.Join(err, d.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if err := assembled(must[*effect.Effects](t)(effect.New("")), folder); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(folder, "out")
	st := must[*rundir.State](t)(rundir.Read(out))
	for n, want := range map[int]string{1: "a", 2: "b"} {
		file := layout.LaunchDir("d1", n) + "/" + layout.Quality
		text, err := os.ReadFile(filepath.Join(out, file))
		if err != nil || string(text) != want || st.Untouched(file, text) != nil || st.Untouched(file, []byte("c")) == nil {
			t.Errorf("%s: %q, %v", file, text, err)
		}
	}
	if err := os.RemoveAll(out); err != nil {
		t.Fatal(err)
	}
	appendTo(t, filepath.Join(folder, "b", layout.LaunchDir("d1", 1), layout.Quality), "x")
	if err := assembled(must[*effect.Effects](t)(effect.New("")), folder); err == nil {
		t.Error("changed answers were taken over")
	}
}
