package bootstrap

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sweep.dev/sweep/internal/procfs"
	"sweep.dev/sweep/internal/slow"
)

func TestEngine_exits(t *testing.T) {
	t.Parallel()
	for name, shell := range shells() {
		for _, c := range []struct {
			line, says string
			status     int
		}{
			{"exit 7", "engine exited with status 7\n", 7},
			{"exit 0", "engine exited with status 0\n", 0},
			{"kill -9 $$", "engine exited with status 137 (signal KILL)\n", 137},
			{"sleep 1000 & exit 3", "engine exited with status 3\n", 3},
		} {
			t.Run(name+"/"+c.line, func(t *testing.T) {
				t.Parallel()
				p := rent(t, rental{shell: shell, Options: Options{Argv: sh(c.line)}})
				p.ends(c.status)
				p.says("sweep-bootstrap: " + c.says)
			})
		}
	}
}

func TestEngine_exitsAndIsHeld(t *testing.T) {
	t.Parallel()
	a := provider(t, ok)
	p := rent(t, rental{Options: Options{Argv: sh("echo said; exit 7"), Lifetime: 6 * time.Second, Hold: true, GiveBack: giveBack(a.URL)}})
	p.says("engine exited with status 7")
	p.says("the pod stays")
	if got := a.got(); len(got) != 0 {
		t.Errorf("the provider got %+v", got)
	}
	p.ends(124)
	if got := a.got(); len(got) != 1 {
		t.Errorf("the provider got %+v", got)
	}
	if n := strings.Count(p.out.String(), "said\n"); n != 1 {
		t.Errorf("the engine ran %d times", n)
	}
}

func TestEngine_notThere(t *testing.T) {
	t.Parallel()
	p := rent(t, rental{Options: Options{Argv: []string{"/no/such/engine"}}})
	p.ends(127)
	p.says("engine exited with status 127")
}

// Arguments arrive as they are, whatever is in them.
func TestEngine_argv(t *testing.T) {
	t.Parallel()
	args := []string{"it's", `a "model"`, "$HOME `id` $(id)", "two\nlines", "", "*", "-n", "ünï"}
	for name, shell := range shells() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := rent(t, rental{shell: shell, Options: Options{Argv: append([]string{"printf", "[%s]"}, args...)}})
			p.ends(0)
			p.says("[" + strings.Join(args, "][") + "]")
		})
	}
}

// An engine that ignores SIGTERM gets the grace and no more. Neither its group nor a
// process that has left the group survives, also if the image's grep reads no further
// than a NUL, as a small one may.
func TestEngine_ignoresTERM(t *testing.T) {
	t.Parallel()
	for name, shell := range shells() {
		for _, tools := range [][]string{{"setsid"}, {"setsid", "python3"}} {
			t.Run(name+"/"+strings.Join(tools, "+"), func(t *testing.T) {
				t.Parallel()
				box := toolbox(t, tools...)
				if len(tools) == 1 {
					writeTool(t, box, "grep", "exit 1\n")
				}
				p := rent(t, rental{shell: shell, path: box, Options: Options{
					Argv:     sh(`trap '' TERM; sleep 1000 & setsid sh -c 'sleep 1000 & sleep 1000' & echo engine up; while :; do sleep 1; done`),
					Lifetime: 2 * time.Second, Grace: 2 * time.Second,
				}})
				p.ends(124)
				p.says("engine up")
				p.says("did not end within 2 s of SIGTERM: SIGKILL")
			})
		}
	}
}

// SIGTERM is what stops a container from outside: the engine gets it too, and no
// provider is asked to delete anything.
func TestEngine_stoppedFromOutside(t *testing.T) {
	t.Parallel()
	for name, shell := range shells() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := provider(t, ok)
			p := rent(t, rental{shell: shell, Options: Options{
				Argv: sh(`trap 'echo engine ends; exit 0' TERM; echo engine up; while :; do sleep 0.1; done`), Grace: time.Minute, GiveBack: giveBack(a.URL),
			}})
			p.says("engine up")
			if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			p.ends(143)
			p.says("engine ends")
			p.says("SIGTERM: the engine ends")
			if got := a.got(); len(got) != 0 {
				t.Errorf("the provider got %+v", got)
			}
		})
	}
}

// The engine has the environment of the pod without what is none of its
// business, and no command line of the pod ever shows a secret.
func TestSecrets(t *testing.T) {
	t.Parallel()
	for name, shell := range shells() {
		for _, fetcher := range fetchers() {
			tools := []string{"setsid", "env", "python3", fetcher}
			switch {
			case fetcher == "python3":
				tools = tools[:3]
			case fetcher == "wget" && name == "busybox":
				continue // it has one of its own, which knows no DELETE
			case fetcher != "curl" && name != "sh" && !slow.Tests:
				continue // each shell with two of them, each of them with one shell
			case fetcher == "wget":
				tools = []string{"setsid", "env", fetcher} // python3 would be taken before it
			}
			t.Run(name+"/"+fetcher, func(t *testing.T) {
				t.Parallel()
				lines := make(chan []string, 1)
				mark := make(chan map[string]string, 1)
				a := provider(t, func(int, call) int {
					m := <-mark
					lines <- commandLines(m)
					return 200
				})
				p := rent(t, rental{shell: shell, path: toolbox(t, tools...), env: []string{"HF_TOKEN=hf-of-the-engine"}, Options: withAgent(t, Options{
					Argv: sh("env; exec sleep 1000"), Lifetime: 10 * time.Second, GiveBack: giveBack(a.URL), Heartbeat: time.Hour,
				})})
				mark <- p.mark
				p.says("HF_TOKEN=hf-of-the-engine")
				if slices.Contains(tools, "python3") {
					p.up()
				}
				engine := 0
				if b, err := os.ReadFile(filepath.Join(p.disk, ".sweep-"+p.name, "engine")); err == nil {
					engine, _ = strconv.Atoi(strings.TrimSpace(string(b))) // 0 has no environment
				}
				env := string(procfs.ReadEnviron(engine))
				if env == "" || !strings.Contains(env, "HF_TOKEN=hf-of-the-engine") {
					t.Errorf("the engine's environment is %q", env)
				}
				for _, what := range []string{testToken, testKey, "SWEEP_AGENT", "SWEEP_NAME", "SWEEP_END"} {
					if strings.Contains(env, what) {
						t.Errorf("the engine has %s", what)
					}
				}
				all := commandLines(p.mark)
				p.ends(124)
				all = append(all, <-lines...)
				if !slices.ContainsFunc(all, func(line string) bool { return strings.Contains(line, fetcher) }) {
					t.Errorf("%s was not seen in %q", fetcher, all)
				}
				for _, line := range all {
					if strings.Contains(line, testToken) || strings.Contains(line, testKey) {
						t.Errorf("a secret is in %.300q", line)
					}
				}
				p.lacks(testToken)
				p.lacks(testKey)
				// wget's file of the key was there for wget alone.
				if left, err := filepath.Glob(filepath.Join(p.disk, ".sweep-*", "wgetrc")); err != nil || len(left) != 0 {
					t.Errorf("left %q, %v", left, err)
				}
			})
		}
	}
}

func commandLines(mark map[string]string) []string {
	var all []string
	for _, process := range procfs.With(mark) {
		b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(process.PID), "cmdline"))
		if err == nil {
			all = append(all, string(b))
		}
	}
	return all
}

// A stdout that is closed, or that is not read, neither ends the engine nor keeps
// the switch from it.
func TestEngine_stdout(t *testing.T) {
	t.Parallel()
	for name, shell := range shells() {
		for _, stuck := range []bool{false, true} {
			t.Run(name+"/stuck="+strconv.FormatBool(stuck), func(t *testing.T) {
				t.Parallel()
				log := filepath.Join(t.TempDir(), "log")
				release := make(chan struct{})
				p := rent(t, rental{shell: shell, out: reader{stuck, release}, Options: Options{
					Argv: sh("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i + 1)); done; echo all said"), Lifetime: 5 * time.Second, LogPath: log,
					Hold: true, // the shell itself has something to say while the pod lives
				}})
				eventually(t, "the lifetime ends in the log", func() bool {
					b, err := os.ReadFile(log)
					return err == nil && strings.Contains(string(b), "the lifetime is over") &&
						(stuck || strings.Contains(string(b), "all said\n") && strings.Contains(string(b), "the pod stays"))
				})
				eventually(t, "the engine is gone", func() bool {
					for _, process := range procfs.With(p.mark) {
						if procfs.ReadEnviron(process.PID).Has(map[string]string{"SWEEP_SWITCH": p.name + "." + strconv.Itoa(p.cmd.Process.Pid) + "."}) {
							return false
						}
					}
					return true
				})
				close(release)
				p.ends(124)
			})
		}
	}
}

// A reader of a pod's output that is stuck until it is released, or fails at
// once.
type reader struct {
	stuck   bool
	release <-chan struct{}
}

func (r reader) Write(p []byte) (int, error) {
	if !r.stuck {
		return 0, io.ErrClosedPipe
	}
	<-r.release
	return len(p), nil
}
