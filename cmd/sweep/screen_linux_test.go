package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/tools/txtar"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/ptytest"
	"sweep.dev/sweep/internal/slow"
)

// A stage is a folder in which commands print what a person sees: plans, runs, and an
// account with pods.
type stage struct {
	dir string
	env []string
}

// newStage makes one. The quick start is run if asked, with few requests.
func newStage(t *testing.T, quickstart bool) stage {
	t.Helper()
	s := stage{dir: t.TempDir()}
	account := filepath.Join(s.dir, "account")
	s.env = []string{
		asSweep + "=1", rentalEnv + "=" + account, "RENTAL_KEY=k",
		"SWEEP_STATE_DIR=" + filepath.Join(s.dir, "state"), "XDG_CACHE_HOME=" + filepath.Join(s.dir, "cache"),
	}
	if err := os.CopyFS(filepath.Join(s.dir, "run"), os.DirFS("testdata/method2")); err != nil {
		t.Fatal(err)
	}
	plan, err := os.ReadFile("../../plans/quickstart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(s.dir, "quickstart.yaml"), string(plan))
	if err := os.Mkdir(account, 0o755); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for i, id := range []string{"first", "second"} {
		name := backends.NewName(owner(), "1234567890", now.Add(time.Duration(i+1)*time.Hour+30*time.Second))
		p := rentalPod{Listed: backends.Listed{
			Ref:   backends.Ref{Kind: rentalKind, RunID: name.Run, Pod: id + "-l01", ID: id, Name: name.String()},
			Owner: owner(), Status: "RUNNING", GPU: "rtx-2000-ada",
			Since: now.Add(time.Duration(i-2) * time.Hour), Expires: name.Expires, USDPerHour: 0.5 + float64(i),
		}}
		if err := p.save(account); err != nil {
			t.Fatal(err)
		}
	}
	if !quickstart {
		return s
	}
	args := slices.Concat([]string{"run", "-o", "quickstart"}, rehearsal, []string{"--set", "load.requests_per_worker=2", "quickstart.yaml"})
	// On a busy machine a cell of so few requests may have no plateau: not twice in a row.
	var r ran
	for range 3 {
		if r = sweep(t, s.dir, s.env, args...); r.code == exitOK || r.code == exitSLO {
			return s
		}
		if err := os.RemoveAll(filepath.Join(s.dir, "quickstart")); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatalf("exit %d\n%s%s", r.code, r.stderr, r.stdout)
	return s
}

// on returns what a command prints on a terminal of some columns, stderr with it.
func (s stage) on(t *testing.T, columns uint16, env []string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), executable(t), args...)
	cmd.Dir, cmd.Env = s.dir, slices.Concat(os.Environ(), s.env, env)
	return ptytest.Start(t, cmd, columns, 50).Ended()
}

// podName is the name of a pod, which is new in each test.
var podName = regexp.MustCompile(`sw-[0-9a-z-]+`)

// TestScreen holds each testdata/screen/*.txtar: what a command prints on terminals of 80
// and 120 columns without colour, and in a pipe. Lines are compared by their shape, as
// those of the docs are; -update writes them anew.
func TestScreen(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/screen/*.txtar")
	if err != nil || len(paths) < 10 {
		t.Fatalf("%d archives: %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(path)
			if err != nil || len(archive.Files) < 2 {
				t.Fatalf("%d files: %v", len(archive.Files), err)
			}
			s := newStage(t, strings.Contains(path, "quickstart"))
			args := strings.Fields(string(archive.Files[0].Data))
			for i, f := range archive.Files[1:] {
				got, width := "", map[string]int{"80.txt": 80, "120.txt": 120}[f.Name]
				if width > 0 {
					got = s.on(t, uint16(width), []string{"NO_COLOR=1", "TERM=dumb"}, args...)
				} else {
					r := sweep(t, s.dir, s.env, args...)
					got = r.stdout + r.stderr
				}
				if strings.Contains(got, "\x1b") {
					t.Errorf("%s: an escape sequence:\n%q", f.Name, got)
				}
				got = podName.ReplaceAllString(strings.TrimSuffix(got, "\n"), "sw-POD")
				// The shortened quick start has cells that are undecided, the whole one none.
				got = strings.ReplaceAll(got, "sweep resume --retry undecided quickstart", "sweep report quickstart")
				for l := range strings.SplitSeq(got, "\n") {
					if n := utf8.RuneCountInString(l); width > 0 && n > width && !strings.Contains(l, "next: ") {
						t.Errorf("%s: a line of %d columns: %s", f.Name, n, l)
					}
				}
				shown := strings.Split(strings.TrimSuffix(string(f.Data), "\n"), "\n")
				if now, ok := match(shown, strings.Split(got, "\n")); *updateDocs {
					archive.Files[1+i].Data = []byte(strings.Join(now, "\n") + "\n")
				} else if !ok {
					t.Errorf("%s: got\n%s\nwant the shape of\n%s", f.Name, got, f.Data)
				}
			}
			if *updateDocs {
				if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// Each command that has colour has some on a terminal, and none with NO_COLOR, on a dumb
// terminal and in a pipe.
func TestScreen_noColor(t *testing.T) {
	t.Parallel()
	s := newStage(t, false)
	const esc = "\x1b["
	for _, c := range []struct {
		colour bool
		args   []string
	}{
		{true, []string{"cells", "run"}},
		{true, []string{"cells", "-v", "run"}},
		{true, []string{"cells", "run", "c=2"}},
		{false, []string{"runs", "run"}},
		{false, []string{"plan", "quickstart.yaml"}},
		{false, []string{"validate", "quickstart.yaml"}},
		{false, []string{"compare", "run", "run"}},
		{false, []string{"runs", "."}},
		{false, []string{"pods"}},
		{false, []string{"list", "engines"}},
		{false, []string{"list", "columns"}},
		{false, []string{"list", "gpus"}},
		{false, []string{"logs", "run"}},
		{false, []string{"--help"}},
		{false, []string{"doctor"}},
	} {
		if got := s.on(t, 100, []string{"NO_COLOR=", "TERM=xterm"}, c.args...); strings.Contains(got, esc) != c.colour {
			t.Errorf("sweep %q on a terminal: colour is %v, want %v\n%q", c.args, !c.colour, c.colour, got)
		}
		for _, env := range []string{"NO_COLOR=1", "TERM=dumb"} {
			if !c.colour && !slow.Tests {
				continue
			}
			if got := s.on(t, 100, []string{"TERM=xterm", env}, c.args...); strings.Contains(got, "\x1b") || got == "" {
				t.Errorf("sweep %q with %s:\n%q", c.args, env, got)
			}
		}
		if r := sweep(t, s.dir, s.env, c.args...); strings.Contains(r.stdout+r.stderr, "\x1b") || r.stdout+r.stderr == "" {
			t.Errorf("sweep %q in a pipe:\n%q%q", c.args, r.stderr, r.stdout)
		}
	}
}
