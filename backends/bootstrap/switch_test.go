package bootstrap

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/backends/ports"
	"sweep.dev/sweep/internal/procfs"
	"sweep.dev/sweep/internal/slow"
)

func ok(int, call) int { return http.StatusNoContent }

// The hard lifetime, with every shell and everything that can ask the provider.
func TestLifetime_deletesThePod(t *testing.T) {
	t.Parallel()
	for name, shell := range shells() {
		for _, fetcher := range fetchers() {
			if name == "busybox" && fetcher == "wget" {
				continue // it has one of its own, which knows no DELETE
			}
			t.Run(name+"/"+fetcher, func(t *testing.T) {
				t.Parallel()
				a := provider(t, ok)
				begun := time.Now()
				p := rent(t, rental{shell: shell, path: toolbox(t, "setsid", fetcher), Options: Options{
					Argv: sh("echo engine up; exec sleep 1000"), Lifetime: 3 * time.Second, Grace: 5 * time.Second, GiveBack: giveBack(a.URL + "/v2/"),
				}})
				p.ends(124)
				if took := time.Since(begun); took < 2*time.Second {
					t.Errorf("it lived %v", took)
				}
				for _, line := range []string{
					"sweep-bootstrap: the engine starts", "engine up\n", "sweep-bootstrap: the lifetime is over: the pod ends\n",
					"sweep-bootstrap: the pod is deleted (HTTP 204)\n",
				} {
					p.says(line)
				}
				want := []call{{"DELETE", "/v2/pods/pod123", "Bearer " + testKey, "sweep-bootstrap/1", ""}}
				if got := a.got(); !slices.Equal(got, want) {
					t.Errorf("the provider got %+v", got)
				}
				p.lacks(testKey)
			})
		}
	}
}

func TestLifetime_providerDown(t *testing.T) {
	t.Parallel()
	all := fetchers()
	if !slow.Tests { // what each of them does is in the other tests
		all = all[len(all)-1:]
	}
	for _, fetcher := range all {
		t.Run(fetcher, func(t *testing.T) {
			t.Parallel()
			a := provider(t, func(n int, _ call) int {
				return []int{http.StatusServiceUnavailable, http.StatusTooManyRequests, http.StatusOK}[min(n, 2)]
			})
			p := rent(t, rental{path: toolbox(t, "setsid", fetcher), Options: Options{
				Argv: sh("exec sleep 1000"), Lifetime: time.Second, GiveBack: giveBack(a.URL),
			}})
			p.ends(124)
			if got := a.got(); len(got) != 3 {
				t.Errorf("the provider got %+v", got)
			}
			p.says("the pod is not deleted yet (HTTP 503): trying again in 1 s")
			p.says("the pod is not deleted yet (HTTP 429): trying again in 2 s")
		})
	}
}

// The provider is unreachable at the deadline: the engine is still ended, and the pod
// asks for as long as it lives.
func TestLifetime_providerUnreachable(t *testing.T) {
	t.Parallel()
	port, err := ports.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	p := rent(t, rental{Options: Options{Argv: sh("exec sleep 1000"), Lifetime: time.Second, GiveBack: giveBack("http://" + address)}})
	p.says("(HTTP 000): trying again in 2 s")
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 1)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got <- r.Method })}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l) // closed below
	}()
	p.ends(124)
	if m := <-got; m != http.MethodDelete {
		t.Errorf("got %s", m)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	<-done
}

func TestLifetime_refused(t *testing.T) {
	t.Parallel()
	for _, fetcher := range fetchers() {
		for _, stoppable := range []bool{true, false} {
			if stoppable && !slow.Tests && fetcher != "python3" {
				continue // the same requests, of which the second is done
			}
			t.Run(fmt.Sprintf("%s/stoppable=%v", fetcher, stoppable), func(t *testing.T) {
				t.Parallel()
				a := provider(t, func(_ int, c call) int {
					if c.Method == http.MethodPost && stoppable {
						return http.StatusOK
					}
					return http.StatusForbidden
				})
				p := rent(t, rental{path: toolbox(t, "setsid", fetcher), Options: Options{
					Argv: sh("exec sleep 1000"), Lifetime: time.Second, GiveBack: giveBack(a.URL),
				}})
				p.ends(124)
				auth := "Bearer " + testKey
				want := []call{
					{"DELETE", "/pods/pod123", auth, "sweep-bootstrap/1", ""},
					{"POST", "/pods/pod123/action", auth, "sweep-bootstrap/1", `{"action":"stop"}`},
				}
				if !stoppable {
					want = slices.Concat(want, want, want)
					p.says("may neither delete nor stop itself")
				}
				if got := a.got(); !slices.Equal(got, want) {
					t.Errorf("the provider got %+v", got)
				}
			})
		}
	}
}

// The switch itself needs a shell and sleep.
func TestLifetime_bareImage(t *testing.T) {
	t.Parallel()
	for name, shell := range shells() {
		for _, c := range []struct {
			what, says string
			tools      []string
		}{
			{"nothing", "no curl, python3 or wget", nil},
			{"setsid", "no curl, python3 or wget", []string{"setsid"}},
			{"python", "the pod is deleted", []string{"python3"}},
		} {
			t.Run(name+"/"+c.what, func(t *testing.T) {
				t.Parallel()
				a := provider(t, ok)
				o := Options{
					Argv: sh("sleep 1000 & exec sleep 1000"), Lifetime: 3 * time.Second, GiveBack: giveBack(a.URL),
					Heartbeat: time.Hour,
				}
				box := toolbox
				if c.tools == nil {
					box = bare
				}
				p := rent(t, rental{shell: shell, path: box(t, c.tools...), Options: withAgent(t, o)})
				p.ends(124)
				p.says(c.says)
				if !slices.Contains(c.tools, "python3") {
					p.says("no python3: no agent and no heartbeat")
				}
			})
		}
	}
}

func TestLifetime_noPlaceForAPod(t *testing.T) {
	t.Parallel()
	a := provider(t, ok)
	p := rent(t, rental{env: []string{"POD_ID="}, Options: Options{Argv: sh("exec sleep 1000"), Lifetime: time.Second, GiveBack: giveBack(a.URL)}})
	p.ends(124)
	p.says("the pod cannot delete itself")
	if got := a.got(); len(got) != 0 {
		t.Errorf("the provider got %+v", got)
	}
}

// A clock that jumps while the engine runs changes nothing: it is not asked.
func TestLifetime_wallClockJumps(t *testing.T) {
	t.Parallel()
	for _, jump := range []int{-36000, 36000} {
		t.Run(strconv.Itoa(jump), func(t *testing.T) {
			t.Parallel()
			box := toolbox(t, "setsid", "python3")
			date, err := exec.LookPath("date")
			if err != nil {
				t.Fatal(err)
			}
			// True at its first call, and hours away from then on.
			writeTool(t, box, "date", fmt.Sprintf("now=$(%s +%%s); [ ! -e %[2]s/asked ] || now=$((now + %d)); echo x >>%[2]s/asked; echo $now\n", date, box, jump))
			p := rent(t, rental{path: box, Options: Options{
				Argv: sh("exec sleep 1000"), Lifetime: 5 * time.Second, Expires: time.Now().Add(time.Hour),
			}})
			if n := p.given(); n < 4 || n > 5 {
				t.Errorf("it was given %d s", n)
			}
			begun := time.Now()
			p.ends(124)
			if took := time.Since(begun); took < 3*time.Second {
				t.Errorf("it lived %v", took)
			}
			if asked, err := os.ReadFile(filepath.Join(box, "asked")); err != nil || string(asked) != "x\n" {
				t.Errorf("the wall clock was asked: %q, %v", asked, err)
			}
		})
	}
}

// A clock that is wrong at the start cannot lengthen the life.
func TestLifetime_wallClockBehind(t *testing.T) {
	t.Parallel()
	box := toolbox(t, "setsid", "python3")
	writeTool(t, box, "date", "echo 1000000000\n")
	p := rent(t, rental{path: box, Options: Options{
		Argv: sh("exec sleep 1000"), Lifetime: 2 * time.Second, Expires: time.Now().Add(time.Hour),
	}})
	p.ends(124)
	if n := p.given(); n > 2 { // the clock may turn between its reading and the line
		t.Errorf("it was given %d s", n)
	}
}

var latest = regexp.MustCompile(`this pod ends in (\d+) s at the latest`)

func (p *pod) given() int {
	p.t.Helper()
	p.says("at the latest")
	n, err := strconv.Atoi(latest.FindStringSubmatch(p.out.String())[1])
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

func TestRestart_sameDisk(t *testing.T) {
	t.Parallel()
	for name, shell := range shells() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := provider(t, ok)
			r := rental{shell: shell, disk: t.TempDir(), Options: Options{
				Name: "restarted-" + name, Argv: sh("echo engine up; exec sleep 1000"), Lifetime: 20 * time.Second, GiveBack: giveBack(a.URL),
			}}
			first := rent(t, r)
			if n := first.given(); n != 20 {
				t.Errorf("the first start got %d s", n)
			}
			first.kill()
			<-first.ended
			age(t, filepath.Join(r.disk, ".sweep-"+r.Name, "life"), 10)

			second := rent(t, r)
			if n := second.given(); n > 10 {
				t.Errorf("the second start got %d s", n)
			}
			second.says("engine up")
			second.ends(124)

			third := rent(t, r)
			third.ends(124)
			third.says("it was over before this start (the lifetime is over), the engine is not started")
			third.lacks("engine up")
			if got := a.got(); len(got) != 2 {
				t.Errorf("the provider got %+v", got)
			}
		})
	}
}

// age has a life that is remembered on a disk have begun so many seconds earlier.
func age(t *testing.T, path string, seconds int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var boot string
	var start, deadline, left int
	if _, err := fmt.Sscan(string(b), &boot, &start, &deadline, &left); err != nil {
		t.Fatalf("%q: %v", b, err)
	}
	life := fmt.Sprintln(boot, start-seconds, deadline-seconds, left-seconds)
	if err := os.WriteFile(path, []byte(life), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The provider has wiped the disk: what is left is the date in the environment.
func TestRestart_wipedDisk(t *testing.T) {
	t.Parallel()
	a := provider(t, ok)
	o := Options{Argv: sh("echo engine up; exec sleep 1000"), Lifetime: time.Hour, GiveBack: giveBack(a.URL)}
	o.Expires = time.Now().Add(-time.Minute)
	p := rent(t, rental{Options: o})
	p.ends(124)
	p.says("the lifetime was over before this start, the engine is not started")
	p.lacks("engine up")
	if got := a.got(); len(got) != 1 {
		t.Errorf("the provider got %+v", got)
	}

	o.Expires = time.Now().Add(30 * time.Second)
	if n := rent(t, rental{Options: o}).given(); n > 30 {
		t.Errorf("it got %d s", n)
	}
}

// The machine was booted meanwhile: its uptime says nothing any more, what was
// left at last does.
func TestRestart_otherBoot(t *testing.T) {
	t.Parallel()
	for name, life := range map[string]string{
		"another boot":           "11111111-1111-1111-1111-111111111111 1 999999999 40\n",
		"another boot, no clock": "11111111-1111-1111-1111-111111111111 1 999999999 50\n",
		"uptime in the past":     procfs.BootID() + " 99999999999 99999999999 40\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk, id := t.TempDir(), "booted-"+strconv.Itoa(len(name))
			if err := os.Mkdir(filepath.Join(disk, ".sweep-"+id), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(disk, ".sweep-"+id, "life"), []byte(life), 0o600); err != nil {
				t.Fatal(err)
			}
			o := Options{Name: id, Argv: sh("exec sleep 1000"), Lifetime: time.Hour}
			want := 40
			if strings.Contains(name, "no clock") {
				o.Expires, want = time.Now().Add(30*time.Second), 30
			}
			if n := rent(t, rental{disk: disk, Options: o}).given(); n > want || n < want-25 {
				t.Errorf("it got %d s, want %d", n, want)
			}
		})
	}
}

// A memory that was cut off by a crash or a full disk is none.
func TestRestart_tornMemory(t *testing.T) {
	t.Parallel()
	disk := t.TempDir()
	if err := os.Mkdir(filepath.Join(disk, ".sweep-torn"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(disk, ".sweep-torn", "life"), []byte(procfs.BootID()+" 08 -5"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := rent(t, rental{disk: disk, Options: Options{Name: "torn", Argv: sh("exec sleep 1000"), Lifetime: 2 * time.Second}})
	if n := p.given(); n != 2 {
		t.Errorf("it got %d s", n)
	}
	p.ends(124)
}

func TestScript_refuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, env, says string }{
		{"no lifetime", "SWEEP_LIFETIME=", `"" is no number`},
		{"no number", "SWEEP_LIFETIME=12h", `"12h" is no number`},
		{"octal", "SWEEP_GRACE=08", `"08" is no number`},
		{"a path as a name", "SWEEP_NAME=../../etc", "SWEEP_NAME is not a name"},
	} {
		argv, env := Command(full())
		cmd := exec.Command(argv[0], append(argv[1:4], "echo", "engine up")...)
		cmd.Env = os.Environ()
		for k, v := range env {
			cmd.Env = append(cmd.Env, k+"="+v)
		}
		cmd.Env = append(cmd.Env, "TMPDIR="+t.TempDir(), "SWEEP_LOG=", c.env)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), c.says) || strings.Contains(string(out), "engine up") {
			t.Errorf("%s: %v: %s", c.name, err, out)
		}
	}
}
