package runpod

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/backendtest"
	"sweep.dev/sweep/backends/runpodapi"
	"sweep.dev/sweep/internal/secret"
)

func TestForms(t *testing.T) {
	argv := []string{"/bin/sh", "-c", `echo "a b" 'c'`, "sweep-bootstrap", "vllm", "--x={\"a\": 1}", ""}
	var form struct{ Entrypoint, Cmd []string }
	if err := json.Unmarshal([]byte(execForm(argv)), &form); err != nil || strings.Join(append(form.Entrypoint, form.Cmd...), "\x00") != strings.Join(argv, "\x00") {
		t.Errorf("got %+v, %v", form, err)
	}
	if got, want := shellForm([]string{"org/model", "--x={\"a\": 1}", "it's", ""}), `org/model '--x={"a": 1}' 'it'\''s' ''`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestConfig(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"defaults", func(*Config) {}, ""},
		{"literal key", func(c *Config) { c.Key = secret.Plain("rpa_canary") }, "want a reference"},
		{"clear text", func(c *Config) { c.BaseURL = "http://api.runpod.io/v2" }, "want https"},
		{"loopback", func(c *Config) { c.BaseURL = "http://127.0.0.1:9999" }, ""},
		{"a name that looks like loopback", func(c *Config) { c.BaseURL = "http://127.0.0.1.evil.example/v2" }, "want https"},
		{"version 1", func(c *Config) { c.BaseURL = "https://rest.runpod.io/v1" }, "/v2"},
		{"credentials", func(c *Config) { c.BaseURL = "https://u:canary@api.runpod.io/v2" }, "without credentials"},
		{"spot", func(c *Config) { c.Candidates = []Candidate{{Spot: true}} }, "no spot"},
		{"moved", func(c *Config) { c.Candidates = []Candidate{{GPU: "l4"}} }, "move_gpu"},
		{"moved with leave", func(c *Config) { c.MoveGPU, c.Candidates = true, []Candidate{{GPU: "l4"}} }, ""},
		{"moved to nothing", func(c *Config) { c.MoveGPU, c.Candidates = true, []Candidate{{GPU: "l5"}} }, "no GPU"},
		{"moved to what RunPod lacks", func(c *Config) { c.MoveGPU, c.Candidates = true, []Candidate{{GPU: "t4"}} }, "RunPod has no t4"},
		{"data centre", func(c *Config) { c.Candidates = []Candidate{{DataCenters: []string{"eu-ro-1"}}} }, "EU-RO-1"},
		{"two volumes", func(c *Config) { c.Volume, c.NetworkVolume = &Volume{Size: 20}, &NetworkVolume{ID: "x"} }, "one of them"},
		{"two cudas", func(c *Config) { c.MinCUDA, c.AllowedCUDA = "12.8", []string{"12.8"} }, "only one"},
		{"our own variable", func(c *Config) { c.Env = map[string]secret.String{"SWEEP_OWNER": secret.Plain("x")} }, "SWEEP_OWNER"},
		{"proxy", func(c *Config) { c.ProxyURL = "https://proxy.example" }, "{pod}"},
		{"no time", func(c *Config) { c.Poll = 0 }, "poll"},
	} {
		config := DefaultConfig
		config.BaseURL = defaultBase
		c.change(&config)
		_, err := New(nil, config)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: the error shows a secret: %v", c.name, err)
		}
	}
}

func TestFactory_default(t *testing.T) {
	env := map[string]string{}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	if _, err := Factory(nil).Default(lookup); err == nil || !strings.Contains(err.Error(), "RUNPOD_API_KEY") {
		t.Errorf("got %v", err)
	}
	env["RUNPOD_API_KEY"], env["RUNPOD_API_BASE_URL"] = "key\n", "http://127.0.0.1:1/"
	b, err := Factory(nil).Default(lookup)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.(*Backend); got.Key.Reveal() != "key" || got.At()["base_url"] != "http://127.0.0.1:1/v2" {
		t.Errorf("got %q at %v", got.Key.Reveal(), got.At())
	}
}

// A story is what listings say of a pod, one after another.
func TestWatch(t *testing.T) {
	start := time.Unix(1e9, 0)
	up := func(uptime int) *runpodapi.Runtime {
		ip, port := "1.2.3.4", 40000
		return &runpodapi.Runtime{Uptime: &uptime, Ports: []runpodapi.PortMapping{{Private: 8000, Public: &port, Type: "tcp", IP: &ip}}}
	}
	pulled := func(uptime int) *runpodapi.Runtime { return &runpodapi.Runtime{Uptime: &uptime} }
	bare := 5
	running := func(r *runpodapi.Runtime) *runpodapi.Pod {
		return &runpodapi.Pod{Status: runpodapi.StatusRunning, Runtime: r, GPU: &runpodapi.PodGPU{Count: 1}}
	}
	type at struct {
		second int
		pod    *runpodapi.Pod // nil: not listed
	}
	for name, c := range map[string]struct {
		story []at
		ready bool
		want  string
	}{
		"ready":                    {[]at{{0, nil}, {5, running(nil)}, {10, running(&runpodapi.Runtime{})}, {15, running(up(1))}}, true, ""},
		"never listed":             {[]at{{0, nil}, {59, nil}, {61, nil}}, false, "never listed"},
		"vanished":                 {[]at{{0, running(up(1))}, {5, nil}, {10, nil}}, false, "not listed any more"},
		"missed once":              {[]at{{0, running(up(1))}, {5, nil}, {10, running(up(11))}, {15, nil}}, false, ""},
		"pull for ever":            {[]at{{0, running(nil)}, {1199, running(nil)}, {1201, running(nil)}}, false, "does not run"},
		"crash loop":               {[]at{{0, running(pulled(9))}, {5, running(pulled(5))}, {9, running(pulled(4))}, {12, running(pulled(3))}}, false, "started again"},
		"slow start":               {[]at{{0, running(pulled(9))}, {5, running(up(0))}, {9, running(up(4))}}, true, ""},
		"restarted":                {[]at{{0, running(up(9))}, {5, running(up(1))}}, false, "started again"},
		"no port":                  {[]at{{0, running(&runpodapi.Runtime{Uptime: &bare})}, {61, running(&runpodapi.Runtime{Uptime: &bare})}}, false, "no public TCP port"},
		"exited":                   {[]at{{0, &runpodapi.Pod{Status: runpodapi.StatusExited}}}, false, "exited"},
		"terminated":               {[]at{{0, &runpodapi.Pod{Status: runpodapi.StatusTerminated}}}, false, "terminated"},
		"no GPU":                   {[]at{{0, &runpodapi.Pod{Status: runpodapi.StatusRunning, GPU: &runpodapi.PodGPU{}}}}, false, "0 of 1 GPUs"},
		"no GPU, nothing said yet": {[]at{{0, &runpodapi.Pod{Status: "PROVISIONING"}}}, false, ""},
	} {
		w := watch{id: "p", gpus: 1, ports: []int{8000}, pull: 20 * time.Minute, lag: time.Minute, created: start}
		var ready bool
		var err error
		for _, a := range c.story {
			if err != nil {
				t.Fatalf("%s: ended at once: %v", name, err)
			}
			p := runpodapi.Pod{}
			if a.pod != nil {
				p = *a.pod
			}
			ready, err = w.look(p, a.pod != nil, start.Add(time.Duration(a.second)*time.Second))
		}
		if ready != c.ready || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: ready %t, %v; want %t, %q", name, ready, err, c.ready, c.want)
		}
	}
}

// requested returns what a launch asks RunPod for, which refuses it. That it asks for
// nothing is an error.
func requested(t *testing.T, c Config, s backends.Spec) (r runpodapi.CreateRequest, err error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodPost {
			if err := json.NewDecoder(req.Body).Decode(&r); err != nil {
				t.Error(err)
			}
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		fmt.Fprint(w, `{"gpus": [{"id": "NVIDIA RTX 2000 Ada Generation", "price": {"secure": 0.2}}]}`)
	}))
	defer server.Close()
	c.Key, c.BaseURL, c.Rate = secret.New("${K}", "key"), server.URL, 60_000
	b, err := New(nil, c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = b.Launch(t.Context(), s, &backendtest.Ledger{}); r.Name != "" {
		err = nil
	}
	return r, errors.Join(err, b.Check(s))
}

// The largest request that is made by default is far from RunPod's limits.
func TestRequest_limits(t *testing.T) {
	c := DefaultConfig
	c.Env = map[string]secret.String{"HF_TOKEN": secret.New("${HF_TOKEN}", "hf_canary")}
	s := spec(t)
	r, err := requested(t, c, s)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(r)
	if err != nil || len(text) > maxBody*3/4 || len(r.Env) > maxEnv/2 {
		t.Errorf("%d bytes, %d variables, %v", len(text), len(r.Env), err)
	}
	if token := r.Env["SWEEP_TOKEN"]; strings.Contains(r.Args, token) || token == "" || strings.Contains(r.Args, r.Env["ENGINE_KEY"]) || r.Env["ENGINE_KEY"] == "" {
		t.Error("a secret is in the arguments, or missing")
	}
	if strings.Join(r.Ports, " ") != "8000/tcp 8765/tcp" || r.GPU.Count != 1 || r.Env["HF_TOKEN"] != "hf_canary" || r.Env[backends.MarkOwner] != s.Owner {
		t.Errorf("got %+v", r)
	}
	c.Env = map[string]secret.String{"BIG": secret.Plain(strings.Repeat("x", maxBody))}
	if _, err := requested(t, c, s); !errors.Is(err, backends.ErrSpec) {
		t.Errorf("a request that is too large: %v", err)
	}
}

// The request has the files and variables that a role gets beside its command line,
// if both are of the same folder.
func TestRequest_extra(t *testing.T) {
	c := DefaultConfig
	c.Env = map[string]secret.String{"A": secret.Plain("the plan's backend"), "B": secret.Plain("the plan's backend")}
	files := map[string][]byte{"sweep-args.yaml": []byte("it's: \"$a\"\n"), "z": []byte("ü")}
	s := spec(t)
	s.Roles[0].Env = map[string]string{"C": "the role's"}
	s.Roles[0].Argv = func(a backends.Address) ([]string, error) {
		return []string{"trtllm-serve", a.Dir + "/sweep-args.yaml"}, nil
	}
	s.Roles[0].Extra = func(a backends.Address) (backends.Extra, error) {
		return backends.Extra{Files: files, Env: map[string]string{"B": a.Dir, "C": a.Dir}}, nil
	}
	r, err := requested(t, c, s)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"SWEEP_FILE_0_NAME": "sweep-args.yaml", "SWEEP_FILE_0_TEXT": "it's: \"$a\"\n", "SWEEP_FILE_1_NAME": "z", "SWEEP_FILE_1_TEXT": "ü",
		"A": "the plan's backend", "B": r.Env["SWEEP_FILES"], "C": "the role's",
	} {
		if got, ok := r.Env[name]; !ok || got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if dir := r.Env["SWEEP_FILES"]; dir == "" || !strings.Contains(r.Args, `"trtllm-serve","`+dir+`/sweep-args.yaml"`) {
		t.Errorf("the files are in %q, the arguments are %.200q", dir, r.Args[len(r.Args)-200:])
	}

	refused := func(what, want string) {
		t.Helper()
		if _, err := requested(t, c, s); !errors.Is(err, backends.ErrSpec) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", what, err)
		}
	}
	files["z"] = []byte(strings.Repeat("x", 64<<10))
	refused("too much", "files of ")
	delete(files, "z")
	c.Bootstrap = false
	refused("nobody writes it", "configured by files")
	clear(files)
	if r, err := requested(t, c, s); err != nil || r.Env["SWEEP_FILES"] != "" {
		t.Errorf("a variable alone: %v", err)
	}
}

// Only what is provably sweep's is listed.
func TestList(t *testing.T) {
	name := backends.NewName("me", "run1", time.Now().Add(time.Hour)).String()
	for what, c := range map[string]struct {
		pod  runpodapi.Pod
		want bool
	}{
		"by name":            {runpodapi.Pod{Name: name}, true},
		"with marks":         {runpodapi.Pod{Name: name, Env: map[string]string{backends.MarkOwner: "me", backends.MarkRun: "run1", backends.MarkPod: "d1"}}, true},
		"another owner":      {runpodapi.Pod{Name: name, Env: map[string]string{backends.MarkOwner: "you"}}, false},
		"another run":        {runpodapi.Pod{Name: name, Env: map[string]string{backends.MarkOwner: "me", backends.MarkRun: "run2"}}, false},
		"marks alone":        {runpodapi.Pod{Name: "my pod", Env: map[string]string{backends.MarkOwner: "me"}}, false},
		"a name like sweeps": {runpodapi.Pod{Name: name + "-copy"}, false},
		"terminated":         {runpodapi.Pod{Name: name, Status: runpodapi.StatusTerminated}, false},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if err := json.NewEncoder(w).Encode(map[string]any{"pods": []runpodapi.Pod{c.pod}}); err != nil {
				t.Error(err)
			}
		}))
		defer server.Close()
		config := DefaultConfig
		config.Key, config.BaseURL, config.Rate = secret.New("${K}", "key"), server.URL, 60_000
		b, err := New(nil, config)
		if err != nil {
			t.Fatal(err)
		}
		mine, err := b.List(t.Context(), "me")
		yours, err2 := b.List(t.Context(), "you")
		all, err3 := b.List(t.Context(), "")
		if (len(mine) == 1) != c.want || (len(all) == 1) != c.want || len(yours) != 0 || errors.Join(err, err2, err3) != nil {
			t.Errorf("%s: %+v, %+v, %+v, %v", what, mine, yours, all, errors.Join(err, err2, err3))
		}
	}
}

// The wait for a duplicate follows from how late the pod itself was listed.
func TestDuplicatesListed(t *testing.T) {
	t.Parallel()
	b := &Backend{Config: DefaultConfig}
	made := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		listed time.Duration // after made; 0: never
		want   time.Duration
	}{
		{0, time.Minute},
		{100 * time.Millisecond, 10 * time.Second},
		{5 * time.Second, 10 * time.Second},
		{20 * time.Second, 40 * time.Second},
		{50 * time.Second, time.Minute},
	} {
		pod := termination{made: made}
		if c.listed > 0 {
			pod.listed = made.Add(c.listed)
		}
		if got := b.duplicatesListed(pod).Sub(made); got != c.want {
			t.Errorf("listed after %v: duplicates after %v, want %v", c.listed, got, c.want)
		}
	}
}
