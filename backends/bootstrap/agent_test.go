package bootstrap

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/internal/procfs"
	"sweep.dev/sweep/internal/secret"
)

func TestEnd(t *testing.T) {
	t.Parallel()
	for name, shell := range shells() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := provider(t, func(n int, _ call) int { return []int{500, 200}[min(n, 1)] })
			p := rent(t, rental{shell: shell, Options: withAgent(t, Options{Argv: sh("exec sleep 1000"), Heartbeat: time.Hour, GiveBack: giveBack(a.URL)})})
			p.up()
			if err := p.agent.End(t.Context()); err != nil {
				t.Fatal(err)
			}
			p.says("trying again in 1 s") // the agent lives as long as the pod
			if err := p.agent.Beat(t.Context()); err != nil && !errors.Is(err, ErrOver) && !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, io.EOF) {
				t.Errorf("a beat after the end: %v", err)
			}
			p.ends(0)
			p.says("the pod was told to end: the pod ends")
			if got := a.got(); len(got) != 2 {
				t.Errorf("the provider got %+v", got)
			}
		})
	}
}

// A client with no token, or another one, learns nothing and changes nothing.
func TestAgent_wrongToken(t *testing.T) {
	t.Parallel()
	box := toolbox(t, "setsid", "python3")
	writeTool(t, box, "nvidia-smi", "echo ran >>"+filepath.Join(box, "ran")+"\n")
	p := rent(t, rental{path: box, Options: withAgent(t, Options{Argv: sh("exec sleep 1000"), Heartbeat: time.Hour})})
	before := p.up()
	base := "http://127.0.0.1:" + strconv.Itoa(p.port)
	// Neither the key itself nor a signature by another key is accepted.
	other := newSigner(secret.New("", strings.Repeat("x", 20)))
	other.session, other.ahead = p.agent.signer.session, p.agent.signer.ahead+p.agent.signer.began.Sub(other.began)
	foreign, _ := other.sign("POST", "/end", nil)
	for _, token := range []string{"", "Bearer " + testToken, "Bearer \xff", testToken, scheme, scheme + " " + testToken, foreign, foreign[:len(foreign)-64]} {
		for _, r := range []struct{ method, path, body string }{
			{"POST", "/beat", ""},
			{"POST", "/keep", `{"seconds": 600}`},
			{"POST", "/end", ""},
			{"POST", "/exec", `{"argv": ["nvidia-smi"]}`},
			{"GET", "/status", ""},
			{"GET", "/log", ""},
			{"GET", "/smi", ""},
			{"GET", "/other", ""},
		} {
			status, body := request(t, r.method, base+r.path, token, r.body)
			if status != http.StatusUnauthorized || body != "" {
				t.Errorf("%s %s with %q: HTTP %d %q", r.method, r.path, token, status, body)
			}
		}
	}
	if s := p.up(); s.Beats != before.Beats || s.Kept != 0 || s.Over != "" {
		t.Errorf("status is %+v", s)
	}
	if _, err := os.Stat(filepath.Join(box, "ran")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nvidia-smi was run: %v", err)
	}
	if err := NewAgent(nil, base, secret.New("", strings.Repeat("x", 20))).Beat(t.Context()); !errors.Is(err, ErrToken) {
		t.Errorf("got %v", err)
	}
	if err := p.agent.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.ends(0)
}

func request(t *testing.T, method, url, authorization, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	if authorization != "" {
		req.Header["Authorization"] = []string{authorization}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestAgent_badRequests(t *testing.T) {
	t.Parallel()
	p := rent(t, rental{Options: withAgent(t, Options{Argv: sh("exec sleep 1000")})})
	p.up()
	base := "http://127.0.0.1:" + strconv.Itoa(p.port)
	for _, c := range []struct {
		method, path, body string
		want               int
	}{
		{"POST", "/keep", `{"seconds": -1}`, 400},
		{"POST", "/keep", `{"seconds": "1"}`, 400},
		{"POST", "/keep", `{"seconds": 1e400}`, 400},
		{"POST", "/keep", `{}`, 400},
		{"POST", "/keep", `[1]`, 400},
		{"POST", "/keep", `{"seconds": `, 400},
		{"POST", "/keep", "\xff\xfe", 400},
		{"POST", "/exec", `{"argv": "nvidia-smi"}`, 400},
		{"POST", "/exec", `{"argv": []}`, 400},
		{"POST", "/exec", `{"argv": ["nvidia-smi", 7]}`, 400},
		{"POST", "/beat", strings.Repeat(" ", 1<<17), 413},
		{"POST", "/status", "", 404},
		{"GET", "/end", "", 404},
		{"GET", "/log?offset=x", "", 400},
		{"GET", "/log?offset=99999999999999999999999", "", 200},
		{"GET", "/log?offset=-5", "", 200},
		{"GET", "/../../etc/passwd", "", 404},
		{"PUT", "/beat", "", 501},
	} {
		auth, _ := p.agent.signer.sign(c.method, c.path, []byte(c.body))
		if status, body := request(t, c.method, base+c.path, auth, c.body); status != c.want || strings.Contains(body, testToken) {
			t.Errorf("%s %s %.40q: HTTP %d %.200q, want %d", c.method, c.path, c.body, status, body, c.want)
		}
	}
	if s := p.up(); s.Over != "" || s.Kept != 0 {
		t.Errorf("status is %+v", s)
	}
}

func TestExec(t *testing.T) {
	t.Parallel()
	box := toolbox(t, "setsid", "python3", "env", "yes", "head")
	writeTool(t, box, "nvidia-smi", `case $1 in
--version) env ;;
-L) yes | head -c 5000000 ;;
-q) echo no devices were found; exit 6 ;;
--query-gpu=timestamp,*) i=0; while :; do i=$((i + 1)); echo "sample $i"; sleep 1; done ;;
*) printf '<%s>' "$@" ;;
esac
`)

	writeTool(t, box, "amd-smi", `printf '<%s>' "$@"`+"\n")

	p := rent(t, rental{path: box, Options: withAgent(t, Options{Argv: sh("exec sleep 1000"), Heartbeat: time.Hour, GiveBack: giveBack("http://127.0.0.1:1")})})

	p.up()

	ctx := t.Context()

	// The agent runs the amd-smi commands that the collector of GPUs uses, and no others.

	for _, command := range []string{"metric", "list", "process"} {
		if out, err := p.agent.Exec(ctx, "amd-smi", command, "--json"); err != nil || string(out) != "<"+command+"><--json>" {
			t.Errorf("amd-smi %s: %q, %v", command, out, err)
		}
	}
	out, err := p.agent.Exec(ctx, "nvidia-smi", "--query-gpu=index,utilization.gpu", "--format=csv,noheader,nounits")
	if err != nil || string(out) != "<--query-gpu=index,utilization.gpu><--format=csv,noheader,nounits>" {
		t.Errorf("got %q, %v", out, err)
	}
	if out, err := p.agent.Exec(ctx, "nvidia-smi", "-q"); err == nil || string(out) != "no devices were found\n" {
		t.Errorf("got %q, %v", out, err)
	}
	if out, err := p.agent.Exec(ctx, "nvidia-smi", "-L"); err == nil || len(out) != 0 {
		t.Errorf("got %d bytes, %v", len(out), err)
	}
	out, err = p.agent.Exec(ctx, "nvidia-smi", "--version")
	if err != nil || strings.Contains(string(out), testToken) || strings.Contains(string(out), testKey) {
		t.Errorf("got %q, %v", out, err)
	}
	for _, argv := range [][]string{
		{},
		{"sh", "-c", "id"},
		{"/usr/bin/nvidia-smi"},
		{"nvidia-smi", "-pl", "100"},
		{"nvidia-smi", "--gpu-reset"},
		{"nvidia-smi", "-r"},
		{"nvidia-smi", "-f", "/etc/passwd"},
		{"nvidia-smi", "--filename=/etc/passwd"},
		{"nvidia-smi", "-c", "1"},
		{"nvidia-smi", "--query-gpu=index\n"},
		{"nvidia-smi", "--format=csv;id"},
		{"nvidia-smi", "-lms", "1"},
		{"rocm-smi"},
		{"amd-smi"},
		{"amd-smi", "metric"},
		{"amd-smi", "metric", "--json", "--file=/etc/passwd"},
		{"amd-smi", "set", "--json"},
		{"amd-smi", "reset", "--gpureset"},
		{"amd-smi", "--json", "metric"},
	} {
		if out, err := p.agent.Exec(ctx, argv...); !errors.Is(err, host.ErrNotSupported) || len(out) != 0 {
			t.Errorf("%q: got %q, %v", argv, out, err)
		}
	}

	r, err := p.agent.Samples(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(io.LimitReader(r, 18)); err != nil || string(b) != "sample 1\nsample 2\n" {
		t.Errorf("got %q, %v", b, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	p.kill()
	<-p.ended
}

func TestExec_noTool(t *testing.T) {
	t.Parallel()
	p := rent(t, rental{path: toolbox(t, "setsid", "python3"), Options: withAgent(t, Options{Argv: sh("exec sleep 1000")})})
	p.up()
	if out, err := p.agent.Exec(t.Context(), "nvidia-smi"); !errors.Is(err, host.ErrNotSupported) {
		t.Errorf("got %q, %v", out, err)
	}
}

// The log can be followed from anywhere to its end, and is what the engine
// said.
func TestLog(t *testing.T) {
	t.Parallel()
	for name, shell := range shells() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := filepath.Join(t.TempDir(), "gate")
			p := rent(t, rental{shell: shell, Options: withAgent(t, Options{
				Argv: sh("echo one; echo two >&2; until [ -e " + gate + " ]; do sleep 0.1; done; i=0; while [ $i -lt 20000 ]; do echo line $i of many; i=$((i + 1)); done; echo last"), Hold: true,
			})})
			p.up()
			r, err := p.agent.Log(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			first := make([]byte, 8)
			for got := ""; !strings.Contains(got, "one\ntwo\n"); {
				n, err := r.Read(first)
				if err != nil {
					t.Fatal(err)
				}
				got += string(first[:n])
			}
			if err := os.WriteFile(gate, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			rest, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			text := string(rest)
			if !strings.HasPrefix(text, "line 0 of many\n") || !strings.Contains(text, "line 19999 of many\nlast\n") || !strings.Contains(text, "sweep-bootstrap: engine exited with status 0\n") {
				t.Errorf("got %d bytes, from %.40q to %q", len(text), text, text[max(0, len(text)-120):])
			}
			if s := p.up(); s.Exit == nil || *s.Exit != 0 || s.Engine != 0 {
				t.Errorf("status is %+v", s)
			}
			again, err := p.agent.Log(t.Context(), 1)
			if err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			all, err := io.ReadAll(again)
			if _, after, ok := strings.Cut(string(all), text); err != nil || !ok || strings.Contains(after, "line") { // the pod may have said more since
				t.Errorf("got %d bytes, %v", len(all), err)
			}
		})
	}
}

// A log that was emptied on the pod goes on at its offset.
func TestLog_emptied(t *testing.T) {
	t.Parallel()
	disk := t.TempDir()
	state := filepath.Join(disk, ".sweep-emptied")
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(state, "base"), []byte("1000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := rent(t, rental{disk: disk, Options: withAgent(t, Options{Name: "emptied", Argv: sh("echo said"), Hold: true})})
	p.up()
	p.says("engine exited")
	r, err := p.agent.Log(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil || !strings.Contains(string(b), "said\n") {
		t.Errorf("got %q, %v", b, err)
	}
	if f := r.(*follower); f.offset != 1000+int64(len(b)) {
		t.Errorf("offset %d after %d bytes", f.offset, len(b))
	}
}

func TestLog_path(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "engine.log")
	p := rent(t, rental{Options: Options{Argv: sh("echo said"), LogPath: log}})
	p.ends(0)
	b, err := os.ReadFile(log)
	if err != nil || !strings.Contains(string(b), "said\n") || string(b) != p.out.String() && len(b) != len(p.out.String()) {
		t.Errorf("the log is %q, stdout is %q, %v", b, p.out.String(), err)
	}
}

// An agent that dies is started again; the pod does not notice.
func TestAgent_dies(t *testing.T) {
	t.Parallel()
	for name, shell := range shells() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := rent(t, rental{shell: shell, Options: withAgent(t, Options{Argv: sh("exec sleep 1000"), Lifetime: 15 * time.Second})})
			p.up()
			killed := 0
			for _, process := range procfs.With(p.mark) {
				if process.Parent == p.cmd.Process.Pid && procfs.ReadEnviron(process.PID).Has(map[string]string{"SWEEP_AGENT_PORT": strconv.Itoa(p.port), "SWEEP_DIR": filepath.Join(p.disk, ".sweep-"+p.name)}) {
					if err := syscall.Kill(process.PID, syscall.SIGKILL); err == nil {
						killed++
					}
				}
			}
			if killed != 1 {
				t.Fatalf("%d agents were found", killed)
			}
			p.says("the agent ended with status 137: it is started again")
			if err := p.agent.Beat(t.Context()); err != nil {
				p.up()
			}
			p.ends(124)
			p.says("the lifetime is over")
		})
	}
}

// An agent that cannot even begin is given up, and with it the heartbeat, which cannot
// be sent; the lifetime stays.
func TestAgent_givenUp(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	o := withAgent(t, Options{Argv: sh("exec sleep 1000"), Heartbeat: time.Hour})
	o.AgentPort = l.Addr().(*net.TCPAddr).Port
	for o.Lifetime = 9 * time.Second; o.Lifetime < polltest.Patience; o.Lifetime *= 3 {
		p := rent(t, rental{Options: o})
		p.says("the agent cannot listen on 127.0.0.1")
		p.ends(124)
		p.says("the lifetime is over")
		if strings.Contains(p.out.String(), "the fifth time: no heartbeat any more") {
			return
		} // else the machine was too busy for five agents in that time
	}
	t.Error("it is not given up")
}

// The shell is killed, for want of memory perhaps: the agent ends the engine.
func TestAgent_isLeftAlone(t *testing.T) {
	t.Parallel()
	p := rent(t, rental{Options: withAgent(t, Options{Argv: sh("trap '' TERM; while :; do sleep 1; done"), Heartbeat: time.Hour, Grace: time.Second})})
	p.up()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.ends(-1)
}

func TestKeepalive(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var beats, lost int
	Keepalive(ctx, time.Millisecond, func(ctx context.Context) error {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("a beat without a bound")
		}
		if beats++; beats == 5 {
			cancel()
		}
		return errors.New("nobody there")
	}, func(error) { lost++ })
	if beats != 5 || lost != 4 {
		t.Errorf("%d beats, %d lost", beats, lost)
	}
}
