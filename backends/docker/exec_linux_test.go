package docker_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/moby/moby/api/types/container"
)

// box is the container of a fake with exec: this machine itself, with its network.
const box = "box"

// execs run commands of this machine in the place of a container's.
type execs struct {
	mute  bool           // what a reader of a log says is not passed on
	ended sync.WaitGroup // those who wait for the commands
	mu    sync.Mutex
	all   []*execution // by id
}

type execution struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// withExec gives the fake the container box. All that was started in it has to end
// with the test.
func (f *fake) withExec(t *testing.T) *execs {
	t.Helper()
	f.containers[box] = map[string]any{
		"Id": box, "Name": "/" + box, "Image": "sha256:1",
		"State":      map[string]any{"Status": "running", "Running": true},
		"HostConfig": map[string]any{"NetworkMode": "host"},
		"Config":     map[string]any{"Labels": map[string]any{}},
	}
	e := &execs{}
	f.mux.HandleFunc("POST /v1.41/containers/{id}/exec", e.create)
	f.mux.HandleFunc("POST /v1.41/exec/{id}/start", e.start)
	f.mux.HandleFunc("GET /v1.41/exec/{id}/json", e.inspect)
	t.Cleanup(func() {
		if t.Failed() { // what it may have left must not keep us
			for _, x := range e.all {
				if x.cmd.Process != nil {
					_ = syscall.Kill(-x.cmd.Process.Pid, syscall.SIGKILL)
				}
			}
		}
		e.ended.Wait()
	})
	return e
}

func (e *execs) create(w http.ResponseWriter, r *http.Request) {
	var body container.ExecCreateRequest
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	cmd := exec.Command(body.Cmd[0], body.Cmd[1:]...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()}, body.Env...)
	cmd.Dir = body.WorkingDir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, &execution{cmd: cmd, done: make(chan struct{})})
	w.WriteHeader(http.StatusCreated)
	reply(w, map[string]any{"Id": fmt.Sprint(len(e.all) - 1)})
}

func (e *execs) of(r *http.Request) *execution {
	var n int
	_, _ = fmt.Sscan(r.PathValue("id"), &n)
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.all[n]
}

func (e *execs) start(w http.ResponseWriter, r *http.Request) {
	x := e.of(r)
	var body container.ExecStartRequest
	_ = json.NewDecoder(r.Body).Decode(&body)
	if body.Detach {
		if err := x.cmd.Start(); err != nil {
			fail(w, http.StatusBadRequest, err.Error())
			return
		}
		e.ended.Go(func() {
			_ = x.cmd.Wait()
			close(x.done)
		})
		return
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		fail(w, http.StatusInternalServerError, err.Error())
		return
	}
	e.ended.Go(func() {
		defer conn.Close()
		defer close(x.done)
		_, _ = io.WriteString(conn, "HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
		var mu sync.Mutex
		x.cmd.Stdout, x.cmd.Stderr = &frames{&mu, conn, 1}, &frames{&mu, conn, 2}
		if e.mute && slices.Contains(x.cmd.Args, "sweep-follow") {
			x.cmd.Stdout = io.Discard
		}
		_ = x.cmd.Run()
	})
}

// inspect answers once the command has ended: no client asks earlier.
func (e *execs) inspect(w http.ResponseWriter, r *http.Request) {
	x := e.of(r)
	<-x.done
	code := 127 // it could not be started
	if s := x.cmd.ProcessState; s != nil {
		code = s.ExitCode()
		if status, ok := s.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			code = 128 + int(status.Signal())
		}
	}
	reply(w, map[string]any{"ID": r.PathValue("id"), "ExitCode": code})
}

// frames writes one of the streams that Docker multiplexes.
type frames struct {
	mu     *sync.Mutex
	w      io.Writer
	stream byte
}

func (f *frames) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	head := binary.BigEndian.AppendUint32([]byte{f.stream, 0, 0, 0}, uint32(len(p)))
	if _, err := f.w.Write(append(head, p...)); err != nil {
		return 0, err
	}
	return len(p), nil
}
