package logs

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"sweep.dev/sweep/backends/kubernetes/kubelog"
	"sweep.dev/sweep/backends/kubernetes/stack/stacktest"
	"sweep.dev/sweep/internal/kubeapi"
)

// A fake is an API server with pods whose logs grow, and with faults.
type fake struct {
	mu      sync.Mutex
	changed chan struct{}
	pods    []*fakePod
	denied  bool
	// fault is asked for each log that is opened, with how many were before. It returns
	// what goes wrong.
	fault func(n int, container string) fault
	asked []string // the queries
}

type fakePod struct {
	name, uid, labels string
	containers        []*fakeContainer
}

type fakeContainer struct {
	name    string
	init    bool
	waiting string
	runs    []*fakeRun
}

type fakeRun struct {
	lines []string // with their times and ends
	ended bool
}

// A fault is how the answer to a log goes wrong.
type fault struct {
	code  int    // the status
	after int    // the connection breaks after so many bytes; 0 is never
	says  string // what the kubelet writes in the place of the log
	clean bool   // the answer ends as if it were whole, instead of breaking
}

func (f *fake) client(t *testing.T) *kubeapi.Client {
	t.Helper()
	f.changed = make(chan struct{})
	api, err := kubeapi.Connect(kubeapi.Config{Kubeconfig: stacktest.Listen(t, f)})
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// change changes what there is.
func (f *fake) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
	close(f.changed)
	f.changed = make(chan struct{})
}

// print adds lines to the newest run of a container.
func (f *fake) print(c *fakeContainer, lines ...string) {
	f.change(func() {
		r := c.runs[len(c.runs)-1]
		r.lines = append(r.lines, lines...)
	})
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case r.URL.Path == "/version":
		fmt.Fprint(w, `{"gitVersion":"v1.34.4"}`)
	case r.Method == http.MethodPost:
		fmt.Fprint(w, `{"status":{"allowed":true}}`)
	case path[len(path)-1] == "log":
		f.log(w, r, path[len(path)-2])
	case path[len(path)-1] == "pods":
		f.mu.Lock()
		defer f.mu.Unlock()
		_ = json.NewEncoder(w).Encode(map[string]any{"metadata": map[string]any{}, "items": f.items()})
	case path[0] == "api":
		fmt.Fprint(w, `{"metadata":{},"items":[]}`)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (f *fake) items() []any {
	items := []any{}
	for _, p := range f.pods {
		var plain, early []any
		for _, c := range p.containers {
			s := map[string]any{"name": c.name, "restartCount": max(0, len(c.runs)-1)}
			id := func(i int) string { return fmt.Sprintf("containerd://%s-%s-%d", p.uid, c.name, i) }
			last := len(c.runs) - 1
			switch {
			case c.waiting != "":
				s["state"] = map[string]any{"waiting": map[string]any{"reason": c.waiting}}
				last++
			case c.runs[last].ended:
				s["state"] = map[string]any{"terminated": map[string]any{"containerID": id(last), "exitCode": 3}}
			default:
				s["containerID"], s["state"] = id(last), map[string]any{"running": map[string]any{}}
			}
			if last > 0 {
				s["lastState"] = map[string]any{"terminated": map[string]any{"containerID": id(last - 1)}}
			}
			if c.init {
				early = append(early, s)
			} else {
				plain = append(plain, s)
			}
		}
		var labels map[string]string
		_ = json.Unmarshal([]byte(p.labels), &labels)
		items = append(items, map[string]any{
			"metadata": map[string]any{"name": p.name, "uid": p.uid, "labels": labels},
			"status":   map[string]any{"containerStatuses": plain, "initContainerStatuses": early},
		})
	}
	return items
}

func refuse(w http.ResponseWriter, code int, reason, message string) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "reason": reason, "message": message})
}

func (f *fake) log(w http.ResponseWriter, r *http.Request, pod string) {
	query := r.URL.Query()
	f.mu.Lock()
	n := len(f.asked)
	f.asked = append(f.asked, pod+"?"+r.URL.RawQuery)
	var c *fakeContainer
	for _, p := range f.pods {
		for _, one := range p.containers {
			if p.name == pod && one.name == query.Get("container") {
				c = one
			}
		}
	}
	var run *fakeRun
	if c != nil {
		i := len(c.runs) - 1
		if query.Get("previous") == "true" && c.waiting == "" {
			i--
		}
		if i >= 0 {
			run = c.runs[i]
		}
	}
	denied, wrong := f.denied, fault{}
	if f.fault != nil {
		wrong = f.fault(n, query.Get("container"))
	}
	f.mu.Unlock()
	switch {
	case denied:
		refuse(w, http.StatusForbidden, "Forbidden", fmt.Sprintf(`pods %q is forbidden: User "u" cannot get resource "pods/log" in API group "" in the namespace "ns"`, pod))
		return
	case wrong.code != 0:
		refuse(w, wrong.code, "InternalError", "Get \"https://10.0.0.1:10250/containerLogs\": dial tcp: connection refused")
		return
	case c == nil:
		refuse(w, http.StatusNotFound, "NotFound", "no such pod")
		return
	case run == nil:
		refuse(w, http.StatusBadRequest, "BadRequest", fmt.Sprintf("container %q in pod %q is waiting to start: %s", c.name, pod, c.waiting))
		return
	}
	since, _ := time.Parse(time.RFC3339, query.Get("sinceTime"))
	written := 0
	write := func(text string) {
		cut := false
		if wrong.after > 0 && written+len(text) > wrong.after {
			text, cut = text[:wrong.after-written], true
		}
		_, _ = io.WriteString(w, text)
		written += len(text)
		if w.(http.Flusher).Flush(); cut {
			if wrong.clean {
				panic(endOfAnswer{})
			}
			panic(http.ErrAbortHandler)
		}
	}
	defer func() {
		if p := recover(); p != nil {
			if _, clean := p.(endOfAnswer); !clean {
				panic(p)
			}
		}
	}()
	if wrong.says != "" {
		write(wrong.says)
		return
	}
	for next := 0; ; {
		f.mu.Lock()
		lines, over, changed := run.lines, run.ended || query.Get("follow") != "true", f.changed
		f.mu.Unlock()
		for ; next < len(lines); next++ {
			at, _ := kubelog.Timed([]byte(lines[next]))
			if !at.Before(since) {
				write(lines[next])
			}
		}
		if over {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-changed:
		}
	}
}

// An endOfAnswer ends an answer early, without breaking the connection.
type endOfAnswer struct{}
