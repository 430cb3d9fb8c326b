package runpodtest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sweep.dev/sweep/internal/polltest"
)

func TestParseFault(t *testing.T) {
	for text, want := range map[string]Fault{
		"429=3":                        {Name: "429", Value: "3"},
		"create-500-but-creates":       {Name: "create-500-but-creates"},
		"create-hangs:2":               {Name: "create-hangs", Count: 2},
		"list-lag=5s:*:30%":            {Name: "list-lag", Value: "5s", Count: -1, Probability: 0.3},
		"runtime-null-forever=disk:1%": {Name: "runtime-null-forever", Value: "disk", Probability: 0.01},
	} {
		got, err := ParseFault(text)
		if err != nil || got != want {
			t.Errorf("%s: got %+v, %v", text, got, err)
		}
		if got.String() != text {
			t.Errorf("%s: printed as %s", text, got)
		}
	}
	for _, text := range []string{"", "no-such", "429=0", "429=x", "list-lag=5", "create-hangs=1", "create-hangs:0", "create-hangs:x", "429=1:200%", "429=1:0%", "price-rise=a", "runtime-null-forever=heat"} {
		if f, err := ParseFault(text); err == nil {
			t.Errorf("%q: got %+v, want an error", text, f)
		}
	}
}

// TestFaults_dice: a probability is thrown with the seed, and a count is a limit.
func TestFaults_dice(t *testing.T) {
	throw := func(seed uint64, fault string) (thrown []bool) {
		e := start(t, Options{Seed: seed, Faults: []string{fault}})
		for range 40 {
			got, err := send(t.Context(), e, e.Key(), "GET", "/v2/billing", nil)
			if err != nil {
				t.Fatal(err)
			}
			thrown = append(thrown, got.status == 429)
		}
		return thrown
	}
	count := func(b []bool) (n int) {
		for _, x := range b {
			if x {
				n++
			}
		}
		return n
	}
	a, b := throw(7, "429=1:*:30%"), throw(7, "429=1:*:30%")
	if !slices.Equal(a, b) {
		t.Error("the same seed throws differently")
	}
	if n := count(a); n < 2 || n > 30 {
		t.Errorf("30 %% of 40 are %d", n)
	}
	if n := count(throw(7, "429=3")); n != 3 {
		t.Errorf("3 of 40 are %d", n)
	}
}

func TestFaults_create(t *testing.T) {
	t.Parallel()
	// post creates "a" and says how it was answered; 0 is not at all.
	post := func(t *testing.T, e *Emulator) int {
		patience := time.Minute
		if strings.HasSuffix(t.Name(), "/create-hangs") {
			patience = 3 * time.Second
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		got, err := send(ctx, e, e.Key(), "POST", "/v2/pods", request("a", forever))
		if err != nil {
			return 0
		}
		checkAnswer(t, "POST", "/v2/pods", got)
		return got.status
	}
	for _, c := range []struct {
		fault  string
		status int
		pods   []string
		again  int // what the next create is answered
	}{
		{"create-500-but-creates", 500, []string{"a"}, 201},
		{"create-hangs", 0, []string{"a"}, 201},
		{"create-drops-connection", 0, []string{"a"}, 201},
		{"create-500=2", 500, []string{}, 500},
		{"double-create", 201, []string{"a", "a"}, 201},
		{"no-capacity", 400, []string{}, 201},
		{"stock-gone", 400, []string{}, 400},
		{"balance-gone", 402, []string{}, 402},
		{"html-502", 502, []string{}, 201},
	} {
		t.Run(c.fault, func(t *testing.T) {
			t.Parallel()
			e := start(t, Options{Faults: []string{c.fault}})
			if got := postHTML(t, e, c.fault, post); got != c.status {
				t.Errorf("answered %d, want %d", got, c.status)
			}
			if diff := cmp.Diff(c.pods, names(t, e)); diff != "" {
				t.Errorf("pods (-want +got): %s", diff)
			}
			if got := len(e.Audit().Pods); got != len(c.pods) {
				t.Errorf("the audit has %d pods, want %d", got, len(c.pods))
			}
			if got := post(t, e); got != c.again {
				t.Errorf("the next create is answered %d, want %d", got, c.again)
			}
			name, _, _ := strings.Cut(c.fault, "=")
			if e.Audit().Fired[name] == 0 {
				t.Errorf("fired: %v", e.Audit().Fired)
			}
		})
	}
}

// postHTML is post, but for the one fault whose answer is no problem document.
func postHTML(t *testing.T, e *Emulator, fault string, post func(*testing.T, *Emulator) int) int {
	if fault != "html-502" {
		return post(t, e)
	}
	got := askAs(t, e, e.Key(), 502, "POST", "/v2/pods", request("a", forever))
	if !strings.Contains(string(got.raw), "<html>") {
		t.Errorf("not a page: %v", got)
	}
	return got.status
}

func TestFaults_createLate(t *testing.T) {
	t.Parallel()
	inTime(t, func(lasts time.Duration) string {
		e := start(t, Options{Faults: []string{"create-late=" + lasts.String()}})
		ask(t, e, 500, "POST", "/v2/pods", request("a", forever))
		early := len(e.Audit().Pods) != 0
		polltest.Until(t, "the late pod shows up", func() bool { return len(names(t, e)) == 1 })
		if early {
			return "the pod is there at once"
		}
		return ""
	})
}

func TestFaults_seen(t *testing.T) {
	t.Parallel()
	inTime(t, func(lasts time.Duration) string {
		e := start(t, Options{Faults: []string{"list-lag=" + lasts.String(), "get-404-after-create=" + lasts.String()}})
		id := create(t, e, "a", forever)
		if look(t, e, id) != nil || len(names(t, e)) != 0 {
			return "a new pod is seen at once"
		}
		if got, err := send(t.Context(), e, e.Key(), "DELETE", "/v2/pods/"+id, nil); err != nil || got.status != 404 {
			return fmt.Sprintf("its deletion is answered %d, %v", got.status, err)
		}
		if len(e.Audit().Alive()) != 1 {
			t.Error("a pod that was not found is gone")
		}
		polltest.Until(t, "it is seen", func() bool { return look(t, e, id) != nil && len(names(t, e)) == 1 })
		return ""
	})
}

func TestFaults_pod(t *testing.T) {
	t.Parallel()
	made := func(t *testing.T, fault string) (*Emulator, string) {
		e := start(t, Options{Faults: []string{fault}})
		return e, create(t, e, "a", forever)
	}
	status := func(t *testing.T, e *Emulator, id, want string) map[string]any {
		var p map[string]any
		polltest.Until(t, "status "+want, func() bool { p = look(t, e, id); return p["status"] == want })
		return p
	}
	logged := func(t *testing.T, e *Emulator, id, want string) {
		t.Helper()
		polltest.Until(t, "the system's log has "+want, func() bool {
			return strings.Contains(strings.Join(lines(e, id, "system"), "\n"), want)
		})
	}
	t.Run("zero-gpu", func(t *testing.T) {
		e := start(t, Options{Faults: []string{"zero-gpu"}})
		id := askAs(t, e, e.Key(), 201, "POST", "/v2/pods", request("a", "nvidia-smi; exec tail -f /dev/null")).body["id"].(string)
		polltest.Until(t, "nvidia-smi finds nothing", func() bool {
			return strings.Contains(strings.Join(lines(e, id, "container"), "\n"), "No devices were found")
		})
		p := askAs(t, e, e.Key(), 200, "GET", "/v2/pods/"+id, nil).body // a count of 0 is not in the document
		if gpus := p["runtime"].(map[string]any)["gpus"].([]any); len(gpus) != 0 || p["gpu"].(map[string]any)["count"] != 0.0 {
			t.Errorf("GPUs: %v", p)
		}
	})
	t.Run("runtime-null-forever", func(t *testing.T) {
		for kind, line := range map[string]string{"cuda": "unsatisfied condition: cuda>=12.8", "disk": "no space left on device"} {
			e, id := made(t, "runtime-null-forever="+kind)
			status(t, e, id, "RUNNING")
			logged(t, e, id, line)
			if p := look(t, e, id); p["runtime"] != nil || len(lines(e, id, "container")) != 0 {
				t.Errorf("its container runs: %v", p)
			}
			ask(t, e, 204, "DELETE", "/v2/pods/"+id, nil)
		}
	})
	t.Run("exited-at-once", func(t *testing.T) {
		e, id := made(t, "exited-at-once")
		if p := status(t, e, id, "EXITED"); p["runtime"] != nil {
			t.Errorf("a runtime: %v", p)
		}
		logged(t, e, id, "manifest unknown")
	})
	t.Run("error-status", func(t *testing.T) {
		e, id := made(t, "error-status")
		status(t, e, id, "ERROR")
		if a := e.Audit(); len(a.Alive()) != 1 {
			t.Errorf("a pod in error is not alive: %v", a.Pods)
		}
	})
	t.Run("pod-dies", func(t *testing.T) {
		inTime(t, func(lasts time.Duration) string {
			e, id := made(t, "pod-dies="+lasts.String())
			ran := false
			polltest.Until(t, "it is EXITED", func() bool {
				p := look(t, e, id)
				ran = ran || p["runtime"] != nil
				return p["status"] == "EXITED"
			})
			if a := e.Audit(); len(a.Alive()) != 1 {
				t.Errorf("a dead pod has still to be given back: %v", a.Pods)
			}
			if !ran {
				return "it never ran"
			}
			return ""
		})
	})
	t.Run("pod-vanishes", func(t *testing.T) {
		e, id := made(t, "pod-vanishes=50ms")
		polltest.Until(t, "it is gone", func() bool { return look(t, e, id) == nil && len(names(t, e)) == 0 })
		if a := e.Audit(); len(a.Alive()) != 0 || a.Pods[0].Gone.IsZero() {
			t.Errorf("it is there: %v", a.Pods)
		}
	})
	t.Run("slow-provision", func(t *testing.T) {
		inTime(t, func(lasts time.Duration) string {
			e, id := made(t, "slow-provision="+lasts.String())
			p := look(t, e, id)
			running(t, e, id)
			if p["status"] != "PROVISIONING" {
				return fmt.Sprintf("it is %v", p["status"])
			}
			return ""
		})
	})
	t.Run("price-rise", func(t *testing.T) {
		e, id := made(t, "price-rise=2")
		if p := look(t, e, id); p["cost"] != 0.86 {
			t.Errorf("it costs %v", p["cost"])
		}
		row := ask(t, e, 200, "GET", "/v2/catalog/gpus/NVIDIA%20L4", nil).body
		if got := row["price"].(map[string]any)["secure"]; got != 0.43 {
			t.Errorf("the catalogue says %v", got)
		}
	})
	t.Run("host-without-network", func(t *testing.T) {
		for _, fault := range []string{"", "host-without-network"} {
			o := Options{}
			if fault != "" {
				o.Faults = []string{fault}
			}
			e := start(t, o)
			id := serve(t, e)
			p := running(t, e, id)
			address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port(t, p, 8000, "tcp")))
			dial := func() bool {
				conn, err := net.Dial("tcp", address)
				if err == nil {
					conn.Close()
				}
				return err == nil
			}
			if fault == "" {
				polltest.Until(t, "its port answers", dial)
				continue
			}
			polltest.Until(t, "its engine is up", func() bool {
				return strings.Contains(strings.Join(lines(e, id, "container"), "\n"), "startup complete")
			})
			if dial() {
				t.Error("its port answers")
			}
		}
	})
}

// serve makes a pod with a simulated engine.
func serve(t *testing.T, e *Emulator) string {
	t.Helper()
	return ask(t, e, http.StatusCreated, "POST", "/v2/pods", engine("engine")).body["id"].(string)
}

func engine(name string) map[string]any {
	return map[string]any{
		"name": name, "image": "vllm/vllm-openai:v0.29.0", "disk": 60,
		"args":  `{"entrypoint":["vllm","serve"],"cmd":["Qwen/Qwen2.5-1.5B-Instruct","--host","0.0.0.0","--port","8000","--max-model-len","8000"]}`,
		"gpu":   map[string]any{"id": "NVIDIA L4", "count": 1, "minCudaVersion": "12.8"},
		"ports": []string{"8000/http", "8000/tcp", "22/tcp"},
		"env":   map[string]string{"VLLM_API_KEY": "sk-test", "HF_TOKEN": "{{ RUNPOD_SECRET_hf }}"},
	}
}

func TestFaults_delete(t *testing.T) {
	t.Parallel()
	t.Run("delete-200-but-alive", func(t *testing.T) {
		e := start(t, Options{Faults: []string{"delete-200-but-alive=2"}})
		id := create(t, e, "a", forever)
		ask(t, e, 204, "DELETE", "/v2/pods/"+id, nil)
		for n, want := range []int{1, 1, 0, 0} {
			if look(t, e, id) == nil != (want == 0) {
				t.Errorf("look %d", n)
			}
			if got := len(names(t, e)); got != want {
				t.Errorf("list %d has %d pods, want %d", n, got, want)
			}
		}
		if len(e.Audit().Alive()) != 0 {
			t.Error("it is alive")
		}
	})
	t.Run("delete-500", func(t *testing.T) {
		e := start(t, Options{Faults: []string{"delete-500=2"}})
		id := create(t, e, "a", forever)
		ask(t, e, 500, "DELETE", "/v2/pods/"+id, nil)
		ask(t, e, 500, "POST", "/v2/pods/"+id+"/action", `{"action":"terminate"}`)
		if len(e.Audit().Alive()) != 1 {
			t.Error("it is gone")
		}
		ask(t, e, 204, "DELETE", "/v2/pods/"+id, nil)
		ask(t, e, 404, "DELETE", "/v2/pods/"+id, nil)
		if n := len(e.Audit().Deletes); n != 4 {
			t.Errorf("%d deletes in the audit", n)
		}
	})
	t.Run("delete-403", func(t *testing.T) {
		e := start(t, Options{Faults: []string{"delete-403"}})
		id := create(t, e, "a", forever)
		for range 3 {
			ask(t, e, 403, "DELETE", "/v2/pods/"+id, nil)
		}
		e.SetFaults()
		ask(t, e, 204, "DELETE", "/v2/pods/"+id, nil)
	})
	t.Run("terminated-later", func(t *testing.T) {
		inTime(t, func(lasts time.Duration) string {
			e := start(t, Options{Faults: []string{"terminated-later=" + lasts.String()}})
			id := create(t, e, "a", forever)
			running(t, e, id)
			ask(t, e, 204, "DELETE", "/v2/pods/"+id, nil)
			var seen []any
			listed := 0
			polltest.Until(t, "it is gone", func() bool {
				list := len(names(t, e))
				p := look(t, e, id)
				if p == nil {
					return true
				}
				if !slices.Contains(seen, p["status"]) {
					seen = append(seen, p["status"])
				}
				if p["status"] == "TERMINATED" {
					listed = max(listed, list)
				}
				return false
			})
			if slices.Equal(seen, []any{"RUNNING", "TERMINATED"}) && listed == 1 {
				return ""
			}
			return fmt.Sprintf("it was %v; %d pods were listed while it was TERMINATED", seen, listed)
		})
	})
	t.Run("read-500", func(t *testing.T) {
		e := start(t, Options{Faults: []string{"read-500=2"}})
		id := create(t, e, "a", forever)
		ask(t, e, 500, "GET", "/v2/pods", nil)
		ask(t, e, 500, "GET", "/v2/pods/"+id, nil)
		ask(t, e, 200, "GET", "/v2/pods/"+id, nil)
	})
}

// TestLimit: the account's requests of a minute are counted.
func TestLimit(t *testing.T) {
	e := start(t, Options{PerMinute: 3})
	for left := 2; left >= 0; left-- {
		got := ask(t, e, 200, "GET", "/v2/pods", nil)
		if h := got.header.Get("RateLimit"); !strings.HasPrefix(h, `"minute";r=`+strconv.Itoa(left)+";t=") || got.header.Get("Retry-After") != "" {
			t.Errorf("RateLimit: %s, Retry-After %q", h, got.header.Get("Retry-After"))
		}
	}
	got := ask(t, e, 429, "GET", "/v2/pods", nil)
	if n, err := strconv.Atoi(got.header.Get("Retry-After")); err != nil || n < 1 || n > 60 {
		t.Errorf("Retry-After: %q", got.header.Get("Retry-After"))
	}
}
