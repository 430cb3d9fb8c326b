package schedule_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/nightly/schedule"
)

func night() schedule.Night {
	return schedule.Night{
		Name: "chat", Plan: "/plans/it's 100% $HOME.yaml", Dir: "/a folder", Exe: "/usr/bin/sweep", Out: `/out "x" 5%`, History: "chat.jsonl",
		At: "02:30", MaxTime: time.Hour, MaxCost: 2.5, Keep: 30, Notify: "mail", Flags: []string{"--set", "a=$b"},
	}
}

func text(t *testing.T, target, name string) string {
	t.Helper()
	files, err := schedule.Files(target, night())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(files, func(f schedule.File) bool { return f.Name == name })
	if i < 0 {
		t.Fatalf("%s has no %s", target, name)
	}
	return files[i].Text
}

// Names are quoted as each reader wants it.
func TestFiles_quoting(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ target, name, want string }{
		{"systemd", "sweep-chat.service", `ExecStart=/bin/sh "/out \"x\" 5%%/sweep-chat.sh"`},
		{"systemd", "sweep-gc.service", `ExecStart=/bin/sh "/out \"x\" 5%%/sweep-gc.sh"`},
		{"systemd", "sweep-chat.sh", `--max-cost 2.5 --set 'a=$b' -o "$night" '/plans/it'\''s 100% $HOME.yaml'`},
		{"cron", "sweep-chat.crontab", `30 02 * * * /bin/sh '/out "x" 5\%/sweep-chat.sh'`},
		{"cron", "sweep-gc.sh", `exec /usr/bin/sweep gc --expired --yes`},
		{"github", "sweep-chat.yml", `cron: '30 02 * * *'`},
	} {
		if got := text(t, c.target, c.name); !strings.Contains(got, c.want+"\n") && !strings.Contains(got, c.want) {
			t.Errorf("%s has no %s:\n%s", c.name, c.want, got)
		}
	}
	for _, name := range []string{"sweep-chat.sh", "sweep-gc.sh"} {
		cmd := exec.Command("sh", "-n")
		cmd.Stdin = strings.NewReader(text(t, "cron", name))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// A night runs in its folder, also by a relative path, and not beside another one.
func TestFiles_night(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write("sweep", "#!/bin/sh\necho \"$1 in $PWD\"\n")
	n := night()
	n.Dir, n.Exe, n.Notify = filepath.Join(dir, "work"), filepath.Join(dir, "sweep"), ""
	if err := os.Mkdir(n.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	files, err := schedule.Files("cron", n)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		write(f.Name, f.Text)
	}
	cmd := exec.Command("sh", "sweep-chat.sh")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if want := "run in " + n.Dir + "\nruns in " + n.Dir + "\n"; err != nil || string(out) != want {
		t.Errorf("%v, %q, want %q", err, out, want)
	}
	lock := filepath.Join(n.Dir, ".sweep-chat.lock")
	cmd = exec.Command("flock", lock, "sh", filepath.Join(dir, "sweep-chat.sh"))
	if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 6 {
		t.Errorf("beside another night: %v, %q, want exit 6", err, out)
	}
}

func TestFiles_refused(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*schedule.Night){
		"no time of day": func(n *schedule.Night) { n.At = "24:00" },
		"a line break":   func(n *schedule.Night) { n.Plan = "a\nExecStart=/bin/x" },
	} {
		n := night()
		change(&n)
		for _, target := range schedule.Targets() {
			if target == schedule.Kubernetes && want != "no time of day" {
				continue // its texts are quoted
			}
			if _, err := schedule.Files(target, n); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", target, err, want)
			}
		}
	}
	if _, err := schedule.Files("windows", night()); err == nil {
		t.Error("windows is a target")
	}
}
