package kubetest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A container is a process of this machine that plays one.
type container struct {
	cmd   *exec.Cmd
	begun time.Time
	ended chan struct{} // closed when it has ended and its log is complete

	mu    sync.Mutex
	lines []string // of its log, each with its time
	code  int      // after ended
}

// Run lets pods run from now on: the first container of each is a process of this
// machine. A pod has an address of its own of 127.0.0.0/8, which Linux gives to
// everybody, and what a process listens on everywhere, or on its loopback, or by its
// pod's name, is that address.
func (f *Server) Run() { f.with(func() { f.runs = true }) }

// Lose loses all nodes, or finds them again: their processes go on, and nobody starts or
// ends any.
func (f *Server) Lose(lost bool) { f.with(func() { f.lost = lost }) }

// Together lets no pod start before there are so many.
func (f *Server) Together(pods int) { f.with(func() { f.together = pods }) }

// Kill ends the process of a pod as an accident would.
func (f *Server) Kill(name string) {
	f.with(func() {
		for path, c := range f.containers {
			if filepath.Base(path) == name {
				_ = c.cmd.Process.Kill()
			}
		}
	})
}

// Pods returns the names of those that there are.
func (f *Server) Pods() (names []string) {
	f.with(func() {
		for path, o := range f.objects {
			if o.Text("kind") == "Pod" {
				names = append(names, filepath.Base(path))
			}
		}
	})
	return names
}

// address returns that of a pod by its names within its deployment.
func address(hostname, deployment string) string {
	sum := fnv.New32a()
	fmt.Fprint(sum, hostname, " ", deployment)
	n := sum.Sum32()
	return fmt.Sprintf("127.%d.%d.%d", 1+n>>16%250, n>>8%250, 1+n%250)
}

// nodes does what kubelets do. The lock is held.
func (f *Server) nodes() {
	if !f.runs || f.lost {
		return
	}
	pods := 0
	for _, o := range f.objects {
		if o.Text("kind") == "Pod" {
			pods++
		}
	}
	for path, o := range f.objects {
		if o.Text("kind") != "Pod" {
			continue
		}
		c := f.containers[path]
		switch {
		case c == nil && pods < f.together && o.Text("metadata", "deletionTimestamp") == "":
		case c == nil && o.Text("metadata", "deletionTimestamp") != "":
			delete(f.objects, path)
		case c == nil && o.Text("status", "phase") == "":
			f.start(path, o)
		case c != nil:
			f.update(path, o, c)
		}
	}
	for path, c := range f.containers {
		if f.objects[path] == nil { // it was forgotten
			_ = c.cmd.Process.Kill()
			delete(f.containers, path)
		}
	}
}

func (f *Server) update(path string, o Object, c *container) {
	select {
	case <-c.ended:
	default:
		if o.Text("metadata", "deletionTimestamp") != "" && o.Text("metadata", "annotations", "asked") == "" {
			o.Set("yes", "metadata", "annotations", "asked")
			_ = c.cmd.Process.Signal(syscall.SIGTERM)
		}
		return
	}
	if o.Text("metadata", "deletionTimestamp") != "" {
		delete(f.objects, path)
		delete(f.containers, path)
		return
	}
	if o.Text("status", "phase") == "Running" {
		o.Set("Failed", "status", "phase")
		o.status(map[string]any{"terminated": map[string]any{"reason": "Error", "exitCode": c.code}})
	}
}

func (o Object) status(state map[string]any) {
	o.Set([]any{map[string]any{"name": "server", "imageID": "sha256:" + strings.Repeat("a", 64), "state": state}}, "status", "containerStatuses")
}

// start starts the container of a pod.
func (f *Server) start(path string, o Object) {
	spec, _ := o.at("spec", "containers").([]any)
	first, _ := spec[0].(map[string]any)
	of := Object(first)
	namespace := filepath.Dir(filepath.Dir(path))
	ip := address(o.Text("spec", "hostname"), o.Text("metadata", "labels", "app.kubernetes.io/instance"))
	env := map[string]string{}
	for _, v := range of.list("env") {
		value := strings.ReplaceAll(v.Text("value"), "$$", "$")
		if key := v.Text("valueFrom", "secretKeyRef", "key"); key != "" {
			secret := f.objects[namespace+"/secrets/"+v.Text("valueFrom", "secretKeyRef", "name")]
			if secret == nil {
				o.Set("Pending", "status", "phase")
				o.status(map[string]any{"waiting": map[string]any{"reason": "CreateContainerConfigError", "message": "secret not found"}})
				return
			}
			value = secret.Text("stringData", key)
		}
		env[v.Text("name")] = here(value, ip)
	}
	var argv []string
	for _, key := range []string{"command", "args"} {
		list, _ := of.at(key).([]any)
		for _, arg := range list {
			argv = append(argv, here(expanded(fmt.Sprint(arg), env), ip))
		}
	}
	f.mount(o, of, namespace)
	o.Set(ip, "status", "podIP")
	c, err := run(argv, env)
	if err != nil {
		o.Set("Failed", "status", "phase")
		o.status(map[string]any{"terminated": map[string]any{"reason": "StartError", "exitCode": 128, "message": fmt.Sprintf("unable to start container process: exec: %q: %v", argv[0], errors.Unwrap(err))}})
		return
	}
	f.containers[path] = c
	o.Set("Running", "status", "phase")
	o.status(map[string]any{"running": map[string]any{}})
}

var peer = regexp.MustCompile(`([a-z0-9-]+)\.(sw-[a-z0-9-]+)\.[a-z0-9-]+\.svc`)

// here returns a text with the addresses that it has on this machine.
func here(text, ip string) string {
	text = peer.ReplaceAllStringFunc(text, func(name string) string {
		m := peer.FindStringSubmatch(name)
		return address(m[1], m[2])
	})
	return strings.NewReplacer("0.0.0.0", ip, "127.0.0.1:", ip+":").Replace(text)
}

var reference = regexp.MustCompile(`\$\$|\$\([A-Za-z0-9_]+\)`)

// expanded returns what the kubelet makes of an argument.
func expanded(arg string, env map[string]string) string {
	return reference.ReplaceAllStringFunc(arg, func(r string) string {
		if r == "$$" {
			return "$"
		}
		if v, ok := env[r[2:len(r)-1]]; ok {
			return v
		}
		return r
	})
}

func (o Object) list(key string) (all []Object) {
	items, _ := o.at(key).([]any)
	for _, item := range items {
		m, _ := item.(map[string]any)
		all = append(all, m)
	}
	return all
}

// mount writes the files of the volume of a Secret.
func (f *Server) mount(o, of Object, namespace string) {
	spec, _ := o.at("spec").(map[string]any)
	for _, volume := range Object(spec).list("volumes") {
		source, _ := volume.at("secret").(map[string]any)
		for _, item := range Object(source).list("items") {
			for _, m := range of.list("volumeMounts") {
				if m.Text("name") != volume.Text("name") {
					continue
				}
				secret := f.objects[namespace+"/secrets/"+Object(source).Text("secretName")]
				_ = os.MkdirAll(m.Text("mountPath"), 0o755)
				_ = os.WriteFile(filepath.Join(m.Text("mountPath"), item.Text("path")), []byte(secret.Text("stringData", item.Text("key"))), 0o600)
			}
		}
	}
}

func run(argv []string, env map[string]string) (*container, error) {
	c := &container{begun: time.Now(), ended: make(chan struct{})}
	cmd := exec.CommandContext(context.Background(), argv[0], argv[1:]...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0"}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		cmd.Env = append(cmd.Env, name+"="+env[name])
	}
	cmd.WaitDelay = time.Second
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c.cmd = cmd
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewReader(r); ; {
			line, err := lines.ReadString('\n')
			if line != "" {
				c.mu.Lock()
				c.lines = append(c.lines, time.Now().UTC().Format(time.RFC3339Nano)+" "+strings.TrimSuffix(line, "\n")+"\n")
				c.mu.Unlock()
			}
			if err != nil {
				return
			}
		}
	}()
	go func() {
		defer close(c.ended)
		_ = cmd.Wait()
		w.Close()
		<-read
		c.code = cmd.ProcessState.ExitCode()
		if s, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && s.Signaled() {
			c.code = 128 + int(s.Signal())
		}
	}()
	return c, nil
}

// log writes the log of a container.
func (f *Server) log(w http.ResponseWriter, r *http.Request, path string) {
	var c *container
	f.with(func() { c = f.containers[path] })
	if c == nil {
		fail(w, http.StatusBadRequest, "BadRequest", "container \"server\" in pod is waiting to start: ContainerCreating")
		return
	}
	since, _ := time.Parse(time.RFC3339, r.URL.Query().Get("sinceTime"))
	for n := 0; ; {
		over := false
		select {
		case <-c.ended:
			over = true
		default:
		}
		c.mu.Lock()
		lines := c.lines[n:]
		n = len(c.lines)
		c.mu.Unlock()
		for _, line := range lines {
			text, _, _ := strings.Cut(line, " ")
			if at, err := time.Parse(time.RFC3339Nano, text); err == nil && at.Before(since) {
				continue
			}
			_, _ = io.WriteString(w, line)
		}
		if over || r.URL.Query().Get("follow") == "" {
			return
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-f.end:
			return
		case <-time.After(tick):
		}
	}
}

// watch tells the changes of the one object of a field selector.
func (f *Server) watch(w http.ResponseWriter, r *http.Request, collection string) {
	name := strings.TrimPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
	var last []byte
	_ = http.NewResponseController(w).Flush()
	for {
		var now []byte
		f.with(func() {
			if o := f.objects[collection+"/"+name]; o != nil {
				now, _ = json.Marshal(o)
			}
		})
		switch {
		case now == nil && last != nil:
			fmt.Fprintf(w, `{"type":"DELETED","object":%s}`+"\n", last)
			return
		case now == nil:
			return
		case !bytes.Equal(now, last):
			fmt.Fprintf(w, `{"type":"MODIFIED","object":%s}`+"\n", now)
		}
		last = now
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-f.end:
			return
		case <-time.After(tick):
		}
	}
}

// stopAll ends what still runs, at the end of the test.
func (f *Server) stopAll() {
	var all []*container
	f.with(func() { all = slices.Collect(maps.Values(f.containers)) })
	for _, c := range all {
		_ = c.cmd.Process.Kill()
		<-c.ended
	}
}
