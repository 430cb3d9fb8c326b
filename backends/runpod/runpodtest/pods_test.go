package runpodtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/internal/procfs"
)

// TestCreate_refused: what the service refuses, and how.
func TestCreate_refused(t *testing.T) {
	e := start(t, Options{Stock: map[string]int{"NVIDIA L4": 2}})
	gpu := func(kv ...any) map[string]any {
		g := map[string]any{"id": "NVIDIA L4", "count": 1}
		for i := 0; i < len(kv); i += 2 {
			g[kv[i].(string)] = kv[i+1]
		}
		return g
	}
	many := func(n int, protocol string) (ports []string) {
		for i := range n {
			ports = append(ports, strconv.Itoa(8000+i)+"/"+protocol)
		}
		return ports
	}
	env := map[string]string{}
	for i := range 51 {
		env["V"+strconv.Itoa(i)] = "x"
	}
	volume := map[string]any{"size": 20, "path": "/w"}
	for _, c := range []struct {
		key    string
		value  any
		status int
		want   string
	}{
		{"bogus", 1, 422, `"errors":["$: additional properties 'bogus' not allowed"]`},
		{"cmd", []string{"x"}, 422, "'cmd' not allowed"},
		{"gpuTypeIds", []string{"x"}, 422, "'gpuTypeIds' not allowed"},
		{"name", "", 422, "$.name: minLength: got 0, want 1"},
		{"name", nil, 422, "$.name: got null, want string"},
		{"name", strings.Repeat("a", 192), 400, "at most 191"},
		{"disk", 0, 422, "$.disk: minimum: got 0, want 1"},
		{"disk", 1.5, 422, "$.disk: got number, want integer"},
		{"disk", "30", 422, "$.disk: got string, want integer"},
		{"cloud", "ALL", 422, "$.cloud: value must be one of 'SECURE', 'COMMUNITY'"},
		{"env", map[string]any{"A": 1}, 422, "$.env.A: got integer, want string"},
		{"env", env, 400, "at most 50"},
		{"ports", "8000/http", 422, "$.ports: got string, want array"},
		{"ports", []string{"8000"}, 400, "invalid port"},
		{"ports", many(11, "http"), 400, "at most 10 http ports"},
		{"mounts", map[string]any{"persistent": volume, "network": []any{map[string]any{"volumeId": "v", "path": "/w"}}}, 400, "mutually exclusive"},
		{"mounts", map[string]any{"persistent": map[string]any{"size": 9, "path": "/w"}}, 422, "$.mounts.persistent.size: minimum: got 9, want 10"},
		{"mounts", map[string]any{"network": []any{map[string]any{"path": "/w"}}}, 422, "$.mounts.network[0]: missing property 'volumeId'"},
		{"gpu", gpu("count", 0), 422, "$.gpu.count: minimum: got 0, want 1"},
		{"gpu", gpu("minVram", 1), 422, "$.gpu: additional properties 'minVram' not allowed"},
		{"gpu", gpu("allowedCudaVersions", []string{"12.8"}, "minCudaVersion", "12.8"), 400, "mutually exclusive"},
		{"gpu", gpu("minCudaVersion", "99.0"), 400, noCapacity},
		{"gpu", gpu("count", 3), 400, noCapacity},
		{"gpu", map[string]any{"id": "NVIDIA L4"}, 400, noCapacity},
		{"gpu", gpu("id", "l4"), 400, "invalid gpu id"},
		{"cpu", map[string]any{"id": "cpu3c", "vcpuCount": 2}, 400, "exactly one of gpu or cpu"},
		{"cloud", "COMMUNITY", 400, noCapacity},
		{"dataCenterIds", []string{"eu-ro-1"}, 400, noCapacity},
		{"image", "no image", 400, "invalid image"},
	} {
		req := request("a", forever)
		req[c.key] = c.value
		got := ask(t, e, c.status, "POST", "/v2/pods", req)
		if !strings.Contains(string(got.raw), c.want) {
			t.Errorf("%s = %v: got %v, want %s", c.key, c.value, got, c.want)
		}
	}
	req := request("a", forever)
	delete(req, "gpu")
	ask(t, e, 400, "POST", "/v2/pods", req)
	delete(req, "image")
	delete(req, "name")
	if got := ask(t, e, 422, "POST", "/v2/pods", req); !strings.Contains(string(got.raw), "$: missing properties 'name', 'image'") {
		t.Errorf("got %v", got)
	}
	ask(t, e, 400, "POST", "/v2/pods", "{")
	req = request("a", strings.Repeat("x", maxBody))
	askAs(t, e, e.Key(), 413, "POST", "/v2/pods", req)
	if a := e.Audit(); len(a.Pods) != 0 {
		t.Errorf("pods were made: %v", a.Pods)
	}
	// Unknown query parameters are ignored.
	ask(t, e, 200, "GET", "/v2/pods?desiredStatus=RUNNING&bogus=1", nil)
}

func TestServeHTTP_refused(t *testing.T) {
	e := start(t, Options{})
	askAs(t, e, "rpa_wrong", 401, "GET", "/v2/pods", nil)
	askAs(t, e, e.Key(), 404, "GET", "/v2/pods/x/actions", nil)
	askAs(t, e, e.Key(), 410, "GET", "/v1/pods", nil)
	if got := askAs(t, e, e.Key(), 405, "PUT", "/v2/pods/x", nil); got.header.Get("Allow") != "GET, PATCH, DELETE" {
		t.Errorf("Allow: %q", got.header.Get("Allow"))
	}
	r, err := http.NewRequest("GET", e.URL()+"/v2/pods", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+e.Key())
	r.Header["User-Agent"] = nil
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, _ := io.ReadAll(resp.Body); resp.StatusCode != 403 || string(b) != "error code: 1010" {
		t.Errorf("without a User-Agent: %d %s", resp.StatusCode, b)
	}
}

// TestEngine is the whole of a pod with a simulated engine: its life, ports,
// key, secrets, GPUs and end.
func TestEngine(t *testing.T) {
	t.Parallel()
	e := start(t, Options{Secrets: map[string]string{"hf": "hf_real"}, Provision: 30 * time.Millisecond, Pull: 3 * time.Second})
	made := ask(t, e, 201, "POST", "/v2/pods", engine("engine")).body
	id := made["id"].(string)
	if made["status"] != "PROVISIONING" {
		t.Errorf("made: %v", made["status"])
	}
	polltest.Until(t, "RUNNING without a runtime", func() bool {
		p := look(t, e, id)
		return p["status"] == "RUNNING" && p["runtime"] == nil && p["ssh"].(map[string]any)["direct"] == nil
	})
	p := running(t, e, id)
	if p["ssh"].(map[string]any)["direct"] == nil {
		t.Error("22/tcp is declared and there is no direct ssh")
	}
	base := fmt.Sprintf("http://127.0.0.1:%d", port(t, p, 8000, "tcp"))
	get := func(base, path, key string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), "GET", base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if key != "" {
			r.Header.Set("Authorization", "Bearer "+key)
		}
		resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b)
	}
	polltest.Until(t, "the engine is healthy", func() bool { status, _ := get(base, "/health", ""); return status == 200 })
	if status, _ := get(base, "/v1/models", ""); status != 401 {
		t.Errorf("without the pod's key: %d", status)
	}
	// 8000 was a port in one place and a length in another.
	if status, body := get(base, "/v1/models", "sk-test"); status != 200 || !strings.Contains(body, `"max_model_len":8000`) {
		t.Errorf("with the pod's key: %d %s", status, body)
	}
	proxied := strings.NewReplacer("{pod}", id, "{port}", "8000").Replace(e.ProxyURL())
	if status, body := get(proxied, "/v1/models", "sk-test"); status != 200 || !strings.Contains(body, "Qwen") {
		t.Errorf("through the proxy: %d %s", status, body)
	}
	if status, _ := get(strings.TrimSuffix(proxied, "8000")+"9000", "/v1/models", "sk-test"); status != 404 {
		t.Errorf("a port that is not declared: %d", status)
	}
	smi := filepath.Join(e.dir, id, "bin", "nvidia-smi")
	if out := run(t, smi, "--query-gpu=index,name,memory.used", "--format=csv,noheader,nounits"); !strings.HasPrefix(out, "0, NVIDIA L4, ") || strings.HasSuffix(out, ", 1\n") {
		t.Errorf("nvidia-smi: %q, want what the engine has taken", out)
	}

	// Its id is not enough: an emulator with the same seed may run beside us.
	var pids []int
	for _, q := range procfs.With(map[string]string{"HOME": filepath.Join(e.dir, id)}) {
		pids = append(pids, q.PID)
	}
	if len(pids) == 0 {
		t.Fatal("no process of the pod is found by its environment")
	}
	environ := environment(t, pids[0])
	if environ["HF_TOKEN"] != "hf_real" || environ["RUNPOD_API_KEY"] == "" || environ["RUNPOD_API_KEY"] == e.Key() ||
		environ["RUNPOD_TCP_PORT_8000"] != strconv.Itoa(port(t, p, 8000, "tcp")) || environ["RUNPOD_PUBLIC_IP"] != "127.0.0.1" {
		t.Errorf("environment: %v", environ)
	}
	if _, ok := environ["GOPATH"]; ok || environ["HOME"] == os.Getenv("HOME") {
		t.Errorf("our own environment is in the pod's: %v", environ)
	}
	for _, q := range pids {
		if b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", q)); strings.Contains(string(b), "sk-test") {
			t.Errorf("the key is on a command line: %q", b)
		}
	}
	ask(t, e, 204, "DELETE", "/v2/pods/"+id, nil)
	polltest.Until(t, "its processes are gone", func() bool {
		return len(procfs.With(map[string]string{"HOME": filepath.Join(e.dir, id)})) == 0
	})
	if a := e.Audit(); a.Err(0) != nil || a.USD <= 0 || a.MostPods != 1 {
		t.Errorf("audit: %+v", a)
	}
}

func environment(t *testing.T, pid int) map[string]string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{}
	for kv := range strings.SplitSeq(string(b), "\x00") {
		name, value, _ := strings.Cut(kv, "=")
		env[name] = value
	}
	return env
}

// TestRestart: a container whose command ends is started again, and its uptime
// begins anew; the disk is kept, until the pod is stopped.
func TestRestart(t *testing.T) {
	t.Parallel()
	e := start(t, Options{})
	id := create(t, e, "a", `n=$(cat $HOME/n 2>/dev/null || echo 0); n=$((n+1)); echo $n > $HOME/n; echo "start $n"; [ $n -ge 3 ] && exec tail -f /dev/null; exit 7`)
	has := func(line string) func() bool {
		return func() bool { return slices.Contains(lines(e, id, "container"), line) }
	}
	polltest.Until(t, "the third start", has("start 3"))
	if diff := cmp.Diff([]string{"start 1", "start 2", "start 3"}, lines(e, id, "container")); diff != "" {
		t.Errorf("starts (-want +got): %s", diff)
	}
	if n := strings.Count(strings.Join(lines(e, id, "system"), "\n"), "container exited with code 7"); n != 2 {
		t.Errorf("%d ends in the log: %q", n, lines(e, id, "system"))
	}
	polltest.Until(t, "its restarts are counted", func() bool { return e.Audit().Pods[0].Restarts == 2 })

	ask(t, e, 409, "POST", "/v2/pods/"+id+"/action", `{"action":"start"}`)
	ask(t, e, 200, "POST", "/v2/pods/"+id+"/action", `{"action":"restart"}`)
	polltest.Until(t, "a restart that was asked for", has("start 4"))
	ask(t, e, 200, "PATCH", "/v2/pods/"+id, `{"locked":true,"name":"b"}`)
	ask(t, e, 409, "POST", "/v2/pods/"+id+"/action", `{"action":"stop"}`)
	ask(t, e, 200, "PATCH", "/v2/pods/"+id, `{"locked":false}`)
	ask(t, e, 422, "PATCH", "/v2/pods/"+id, `{"status":"EXITED"}`)
	ask(t, e, 200, "POST", "/v2/pods/"+id+"/action", `{"action":"stop"}`)
	ask(t, e, 409, "POST", "/v2/pods/"+id+"/action", `{"action":"restart"}`)
	polltest.Until(t, "nothing runs", func() bool { return len(procfs.With(map[string]string{"HOME": filepath.Join(e.dir, id)})) == 0 })
	before := len(lines(e, id, "container"))
	ask(t, e, 200, "POST", "/v2/pods/"+id+"/action", `{"action":"start"}`)
	polltest.Until(t, "a start with a new disk", func() bool {
		all := lines(e, id, "container")
		return len(all) > before && all[before] == "start 1"
	})
	ask(t, e, 204, "POST", "/v2/pods/"+id+"/action", `{"action":"terminate"}`)
	ask(t, e, 404, "GET", "/v2/pods/"+id, nil)
}

// TestImage_unknown: no registry has it.
func TestImage_unknown(t *testing.T) {
	e := start(t, Options{})
	req := request("a", forever)
	req["image"] = "nobody/knows:1"
	id := ask(t, e, 201, "POST", "/v2/pods", req).body["id"].(string)
	polltest.Until(t, "it is EXITED", func() bool { return look(t, e, id)["status"] == "EXITED" })
}

// TestStock: what is rented is not in stock, until it is given back.
func TestStock(t *testing.T) {
	e := start(t, Options{Stock: map[string]int{"NVIDIA H100 80GB HBM3": 20, "NVIDIA H100 80GB HBM3/COMMUNITY": 1}})
	stock := func(query string) any {
		return ask(t, e, 200, "GET", "/v2/catalog/gpus/NVIDIA%20H100%2080GB%20HBM3?include=AVAILABILITY&product=POD"+query, nil).body["availability"]
	}
	if s, c := stock(""), stock("&cloud=COMMUNITY"); s != "HIGH" || c != "LOW" {
		t.Errorf("stock: %v and %v", s, c)
	}
	req := request("a", forever)
	req["gpu"] = map[string]any{"id": "NVIDIA H100 80GB HBM3", "count": 1}
	req["cloud"] = "COMMUNITY"
	id := ask(t, e, 201, "POST", "/v2/pods", req).body["id"].(string)
	if c := stock("&cloud=COMMUNITY"); c != "NONE" {
		t.Errorf("stock: %v", c)
	}
	ask(t, e, 400, "POST", "/v2/pods", req)
	ask(t, e, 204, "DELETE", "/v2/pods/"+id, nil)
	if c := stock("&cloud=COMMUNITY"); c != "LOW" {
		t.Errorf("stock: %v", c)
	}
	if c := stock("&cloud=COMMUNITY&count=2"); c != "NONE" {
		t.Errorf("stock of two: %v", c)
	}
	ask(t, e, 200, "GET", "/v2/catalog/gpus", nil)
	ask(t, e, 200, "GET", "/v2/catalog/gpus?include=AVAILABILITY&product=POD&count=2&minCudaVersion=12.8", nil)
	ask(t, e, 200, "GET", "/v2/catalog/datacenters?include=GPU_AVAILABILITY,CPU_AVAILABILITY&regions=EUROPE", nil)
	ask(t, e, 400, "GET", "/v2/catalog/gpus?include=AVAILABILITY", nil)
	ask(t, e, 400, "GET", "/v2/catalog/gpus?cloud=SECURE", nil)
	askAs(t, e, e.Key(), 422, "GET", "/v2/catalog/gpus?include=AVAILABILITY&product=POD&cloud=ALL", nil)
	ask(t, e, 404, "GET", "/v2/catalog/gpus/l4", nil)
	if _, err := New(Options{Stock: map[string]int{"l4": 1}}); err == nil {
		t.Error("a stock of what there is not was taken")
	}
}

// TestPodKey: a pod's own key is good for the pod alone.
func TestPodKey(t *testing.T) {
	t.Parallel()
	e := start(t, Options{})
	a, b := create(t, e, "a", "echo $RUNPOD_API_KEY; "+forever), create(t, e, "b", forever)
	polltest.Until(t, "the key is printed", func() bool { return len(lines(e, a, "container")) > 0 })
	key := lines(e, a, "container")[0]
	askAs(t, e, key, 200, "GET", "/v2/pods/"+a, nil)
	askAs(t, e, key, 403, "GET", "/v2/pods/"+b, nil)
	askAs(t, e, key, 403, "GET", "/v2/pods", nil)
	askAs(t, e, key, 403, "POST", "/v2/pods", request("c", forever))
	askAs(t, e, key, 403, "DELETE", "/v2/pods/"+b, nil)
	e.SetFaults("pod-key-forbidden")
	askAs(t, e, key, 403, "DELETE", "/v2/pods/"+a, nil)
	ask(t, e, 204, "DELETE", "/v2/pods/"+b, nil) // the account's key may
	e.SetFaults()
	askAs(t, e, key, 204, "DELETE", "/v2/pods/"+a, nil)
	deletes := e.Audit().Deletes
	if last := deletes[len(deletes)-1]; last.Who != "pod "+a || last.Status != 204 || last.Pods[0] != "a" {
		t.Errorf("the last delete: %+v", last)
	}
}

// TestAudit: what the audit finds.
func TestAudit(t *testing.T) {
	c := &clock{t: time.Now()}
	var mu sync.Mutex
	var events []string
	o := Options{Now: c.now, OnEvent: func(ev Event) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, ev.String())
	}}
	o.Intent = func(name string) error {
		if name == "unknown" {
			return errors.New("no intent for " + name)
		}
		return nil
	}
	e := start(t, o)
	foreign := e.Foreign(24)
	if len(names(t, e)) != 24 {
		t.Error("foreign pods are not listed")
	}
	if err := e.Audit().Err(0); err != nil {
		t.Errorf("foreign pods are no fault: %v", err)
	}
	name := backends.NewName("me", "run1", c.now().Add(time.Minute)).String()
	id := create(t, e, name, forever)
	req := request("marked", forever)
	req["env"] = map[string]string{backends.MarkExpires: strconv.FormatInt(c.now().Add(time.Hour).Unix(), 10)}
	marked := ask(t, e, 201, "POST", "/v2/pods", req).body["id"].(string)
	create(t, e, "unknown", forever)
	a := e.Audit()
	if len(a.Alive()) != 3 || a.Creates != 3 || len(a.Overdue(0)) != 0 || len(a.NoIntent) != 1 {
		t.Errorf("audit: %+v", a)
	}
	c.move(2 * time.Minute)
	ask(t, e, 204, "DELETE", "/v2/pods/"+id, nil)
	c.move(2 * time.Hour)
	a = e.Audit()
	if got := a.Overdue(0); len(got) != 2 || got[0].ID != id || got[1].ID != marked {
		t.Errorf("overdue: %+v", got)
	}
	if got := a.Overdue(5 * time.Minute); len(got) != 1 {
		t.Errorf("overdue by more than five minutes: %+v", got)
	}
	if len(a.Touched) != 0 {
		t.Errorf("touched: %v", a.Touched)
	}
	ask(t, e, 200, "GET", "/v2/pods/"+foreign[0], nil)
	ask(t, e, 204, "DELETE", "/v2/pods/"+foreign[0], nil)
	a = e.Audit()
	if len(a.Touched) != 1 || a.MostPods != 3 {
		t.Errorf("audit: %+v", a)
	}
	for _, want := range []string{"is still there", "too long", "a foreign pod was touched", "no intent for unknown"} {
		if err := a.Err(0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if want := "DELETE /v2/pods/" + id + " 204 (" + name + ")"; !slices.Contains(events, want) {
		t.Errorf("no %q in %q", want, events)
	}
}

// TestSeed: with the same seed the same happens.
func TestSeed(t *testing.T) {
	ids := func(seed uint64) (all []string) {
		e := start(t, Options{Seed: seed})
		all = append(all, e.Key())
		all = append(all, e.Foreign(3)...)
		return append(all, create(t, e, "a", forever))
	}
	a, b, c := ids(1), ids(1), ids(2)
	if !slices.Equal(a, b) || slices.Equal(a, c) {
		t.Errorf("%v, %v, %v", a, b, c)
	}
}

// events reads n events of a stream of lines.
func events(t *testing.T, e *Emulator, path, last string, n int) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", e.URL()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+e.Key())
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if h := resp.Header; h.Get("Content-Type") != "text/event-stream" || h.Get("Cache-Control") != "no-cache" || h.Get("X-Accel-Buffering") != "no" {
		t.Errorf("headers: %v", h)
	}
	var found []string
	in := bufio.NewScanner(resp.Body)
	for len(found) < n && in.Scan() {
		if text := in.Text(); strings.HasPrefix(text, "id: ") || strings.HasPrefix(text, "data: ") {
			found = append(found, text)
		}
	}
	if len(found) < n {
		t.Fatalf("the stream ended after %q: %v", found, in.Err())
	}
	return found
}

// TestLogs: backfill, both sources, resumption, and lines that come later.
func TestLogs(t *testing.T) {
	t.Parallel()
	e := start(t, Options{})
	id := create(t, e, "a", `for i in 1 2 3 4 5; do echo "line $i <>"; done; until [ -e $HOME/go ]; do sleep 0.02; done; printf 'more\nno end'; exec tail -f /dev/null`)
	polltest.Until(t, "five lines", func() bool { return len(lines(e, id, "container")) == 5 })
	path := "/v2/pods/" + id + "/logs"

	all := events(t, e, path+"?source=container", "", 10)
	if !strings.HasSuffix(all[1], `"source":"container","line":"line 1 <>"}`) {
		t.Errorf("the first line: %s", all[1])
	}
	tail := events(t, e, path+"?source=container&tail=2", "", 4)
	if diff := cmp.Diff(all[6:], tail); diff != "" {
		t.Errorf("tail (-want +got): %s", diff)
	}
	third := strings.TrimPrefix(all[4], "id: ")
	resumed := events(t, e, path+"?source=container&tail=0&since=2020-01-01T00:00:00Z", third, 4)
	if diff := cmp.Diff(all[6:], resumed); diff != "" {
		t.Errorf("after the third line (-want +got): %s", diff)
	}
	since := events(t, e, path+"?tail=0&since=2020-01-01T00:00:00Z", "", 2)
	if !strings.Contains(since[1], `"source":"system","line":"1 Pulling from test/sh"`) {
		t.Errorf("since the beginning, of both sources: %q", since)
	}
	if err := os.WriteFile(filepath.Join(e.dir, id, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	last := strings.TrimPrefix(all[8], "id: ")
	if more := events(t, e, path+"?source=container", last, 2); !strings.Contains(more[1], `"line":"more"`) {
		t.Errorf("what came later: %q", more)
	}
	ask(t, e, 422, "GET", path+"?source=both&tail=5001", nil)
	ask(t, e, 404, "GET", "/v2/pods/none/logs", nil)
}

// TestProxy: latency, buffering, drops, what listens not, and what says nothing.
func TestProxy(t *testing.T) {
	t.Parallel()
	e := start(t, Options{ProxyIdle: 2 * time.Second})
	id := serve(t, e)
	url := strings.NewReplacer("{pod}", id, "{port}", "8000").Replace(e.ProxyURL())
	do := func(method, path, body string) (int, string, error) {
		r, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer sk-test")
		r.Header.Set("Content-Type", "application/json")
		resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
		if err != nil {
			return 0, "", err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b), err
	}
	// It boots: nothing listens yet, and then something does.
	polltest.Until(t, "the engine answers", func() bool {
		status, _, err := do("GET", "/health", "")
		if status != 200 && status != 502 {
			t.Fatalf("%d %v", status, err)
		}
		return status == 200
	})
	// Slower than the idle bound before its first byte, as the whole of the answer is late.
	const chat = `{"messages":[{"role":"user","content":"Hi"}],"max_tokens":%d,"ignore_eos":true,"stream":%v}`
	if status, _, _ := do("POST", "/v1/chat/completions", fmt.Sprintf(chat, 2000, false)); status != 524 {
		t.Errorf("a silent answer: %d", status)
	}
	if status, body, err := do("POST", "/v1/chat/completions", fmt.Sprintf(chat, 20, true)); status != 200 || err != nil || !strings.Contains(body, "[DONE]") {
		t.Errorf("a stream: %d %v", status, err)
	}
	e.SetFaults("proxy-drops=1")
	if _, body, err := do("POST", "/v1/chat/completions", fmt.Sprintf(chat, 20, true)); err == nil || strings.Contains(body, "[DONE]") {
		t.Errorf("a dropped stream: %v %s", err, body)
	}
	e.SetFaults("proxy-buffers")
	if status, body, err := do("POST", "/v1/chat/completions", fmt.Sprintf(chat, 5, true)); status != 200 || err != nil || !strings.Contains(body, "[DONE]") {
		t.Errorf("a buffered stream: %d %v", status, err)
	}
	ask(t, e, 204, "DELETE", "/v2/pods/"+id, nil)
	if status, _, _ := do("GET", "/health", ""); status != 404 {
		t.Errorf("a pod that is gone: %d", status)
	}
}

// TestDurableIntent: a name counts only on a complete line, in the journal and
// in the state folder.
func TestDurableIntent(t *testing.T) {
	runs, state := t.TempDir(), t.TempDir()
	journal := filepath.Join(runs, "r1", "journal.jsonl")
	if err := os.Mkdir(filepath.Dir(journal), 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	hook := DurableIntent(state, filepath.Join(runs, "*"))
	if hook("sw-a") == nil {
		t.Error("nothing is written")
	}
	write(journal, "{}\n"+`{"name":"sw-a"}`)
	write(filepath.Join(state, "pod"), "sw-a\n")
	if err := hook("sw-a"); err == nil || !strings.Contains(err.Error(), "journal") {
		t.Errorf("the journal's line is torn: %v", err)
	}
	write(journal, "{}\n"+`{"name":"sw-a"}`+"\n{")
	if err := hook("sw-a"); err != nil {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(state, "pod")); err != nil {
		t.Fatal(err)
	}
	if err := hook("sw-a"); err == nil || !strings.Contains(err.Error(), "this machine") {
		t.Errorf("the machine's ledger does not have it: %v", err)
	}
	if err := DurableIntent("", filepath.Join(runs, "r1"))("sw-a"); err != nil {
		t.Error(err)
	}
}

// run runs a program and returns what it printed.
func run(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		t.Errorf("%v: %v\n%s", argv, err, out)
	}
	return string(out)
}
