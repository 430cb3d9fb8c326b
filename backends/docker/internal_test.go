package docker

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"maps"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/bootstrap"
	"sweep.dev/sweep/internal/ending"
	"sweep.dev/sweep/internal/secret"
)

var update = flag.Bool("update", false, "write the golden files")

// TestRequest_golden: a change of what is asked of the daemon is a change of
// these files. What is the bootstrap's own is cut short.
func TestRequest_golden(t *testing.T) {
	expires := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	base := containerPlan{
		spec: backends.Spec{
			Owner: "acme", RunID: "7f3a9c", Pod: "d1-l01", GPU: "h100", GPUs: 2, Digest: "d1gest",
			Grace: 30 * time.Second, Expires: expires,
			Roles: []backends.Role{{Name: "server"}},
		},
		role: backends.Role{
			Name: "server", Replicas: 1, Image: "vllm/vllm-openai:v0.29.0", Entrypoint: []string{"vllm", "serve"},
			Env: map[string]string{"VLLM_NO_USAGE_STATS": "1"}, CPUs: []int{0, 2},
			Argv: func(a backends.Address) ([]string, error) {
				return []string{"vllm", "serve", "m", "--host", a.Host, "--port", "8000"}, nil
			},
		},
		name:  backends.Name{Owner: backends.OwnerTag("acme"), Run: "7f3a9c", Serial: "abcdefgh", Expires: expires},
		image: "sha256:1111", token: secret.New("token", "0123456789abcdefTOKEN"), lifetime: time.Hour,
	}
	for _, test := range []struct {
		name   string
		change func(*Config, *containerPlan)
	}{
		{"plain", func(c *Config, p *containerPlan) { c.DeadMan = false }},
		{"gpus", func(c *Config, p *containerPlan) {
			c.Memory, c.ShmSize, c.User, c.Network = "64GiB", "16g", "1000:1000", "bench"
			c.Mounts = []string{"hf-cache:/root/.cache/huggingface", "/data:/data:ro"}
			c.Env = map[string]secret.String{"HF_TOKEN": secret.New("${HF_TOKEN}", "canary")}
			p.gpus = []string{"GPU-fef8089b", "1"}
		}},
		{"nvidia", func(c *Config, p *containerPlan) {
			p.role.Entrypoint, p.entrypoint = nil, []string{nvidiaWrapper}
			p.role.Name, p.replica = "decode", 1
		}},
		{"files", func(c *Config, p *containerPlan) {
			p.role.Extra = func(a backends.Address) (backends.Extra, error) {
				return backends.Extra{
					Env:   map[string]string{"CONFIG": a.Dir + "/args.yaml", "VLLM_NO_USAGE_STATS": "not the role's"},
					Files: map[string][]byte{"args.yaml": []byte("a: \"$b\"\n"), "empty": nil},
				}, nil
			}
			p.role.Argv = func(a backends.Address) ([]string, error) {
				return []string{"engine", "--config", a.Dir + "/args.yaml"}, nil
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, p := DefaultConfig(), base
			test.change(&c, &p)
			l, err := c.check()
			if err != nil {
				t.Fatal(err)
			}
			request, err := c.request(l, p)
			if err != nil {
				t.Fatal(err)
			}
			shorten(request.Config)
			got, err := json.MarshalIndent(map[string]any{
				"Name": request.Name, "Config": request.Config,
				"HostConfig": meaning(t, request.HostConfig),
			}, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			path := "testdata/" + test.name + ".json"
			if *update {
				if err := os.WriteFile(path, append(got, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.TrimSpace(string(want)), string(got)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// Files are refused where nothing in the container could write them, and where
// they are too much; a variable alone needs nobody.
func TestCheck_extra(t *testing.T) {
	of := func(e backends.Extra) func(*backends.Role) {
		return func(r *backends.Role) { r.Extra = func(backends.Address) (backends.Extra, error) { return e, nil } }
	}
	file := backends.Extra{Files: map[string][]byte{"args.yaml": []byte("a: 1\n")}}
	for _, test := range []struct {
		name   string
		config func(*Config)
		role   func(*backends.Role)
		want   string // in the error; "" is none
	}{
		{"a file", nil, of(file), ""},
		{"a file inside", func(c *Config) { c.Inside, c.DeadMan = &Inside{Image: "x"}, false }, of(file), ""},
		{"nobody writes it", func(c *Config) { c.DeadMan = false }, of(file), "configured by files"},
		{"a variable alone", func(c *Config) { c.DeadMan = false }, of(backends.Extra{Env: map[string]string{"A": "1"}}), ""},
		{"too much", nil, of(backends.Extra{Files: map[string][]byte{"f": []byte(strings.Repeat("x", 1<<17))}}), "131073 bytes"},
		{"elsewhere", nil, of(backends.Extra{Files: map[string][]byte{"../f": nil}}), "not the name of a file"},
	} {
		c := DefaultConfig()
		if test.config != nil {
			test.config(&c)
		}
		role := backends.Role{Name: "server", Replicas: 1, Image: "x", Argv: func(backends.Address) ([]string, error) { return []string{"x"}, nil }}
		test.role(&role)
		err := (&Backend{config: c}).Check(backends.Spec{Roles: []backends.Role{role}})
		if (err == nil) != (test.want == "") || err != nil && (!errors.Is(err, backends.ErrSpec) || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: got %v", test.name, err)
		}
	}
}

// shorten replaces what belongs to package bootstrap.
func shorten(c *container.Config) {
	whole, env := bootstrap.Command(bootstrap.Options{Argv: []string{"x"}, AgentPort: 1})
	for _, list := range [][]string{c.Entrypoint, c.Cmd} {
		for i, s := range list {
			if s == whole[2] {
				list[i] = "(the bootstrap)"
			}
		}
	}
	for i, e := range c.Env {
		if k, v, _ := strings.Cut(e, "="); k == "SWEEP_AGENT_PY" && v == env[k] {
			c.Env[i] = k + "=(the agent)"
		}
	}
}

// meaning leaves out what is zero, of which the API has a hundred.
func meaning(t *testing.T, v any) map[string]any {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(m, func(_ string, v any) bool {
		switch v := v.(type) {
		case nil:
			return true
		case string:
			return v == ""
		case float64:
			return v == 0
		case bool:
			return !v
		case []any:
			return len(v) == 0 || slices.Equal(v, []any{0.0, 0.0})
		}
		return false
	})
	return m
}

func TestExit(t *testing.T) {
	for _, test := range []struct {
		state container.State
		want  backends.Exit
	}{
		{container.State{ExitCode: 0}, backends.Exit{}},
		{container.State{ExitCode: 1}, backends.Exit{Code: 1}},
		{container.State{ExitCode: 137}, backends.Exit{Code: -1, Signal: "killed"}},
		{container.State{ExitCode: 139}, backends.Exit{Code: -1, Signal: "segmentation fault"}},
		{container.State{ExitCode: 137, OOMKilled: true}, backends.Exit{Code: -1, Signal: "killed", OOMKilled: true}},
		{container.State{ExitCode: 1, OOMKilled: true}, backends.Exit{Code: 1, OOMKilled: true}},
		{container.State{ExitCode: 128}, backends.Exit{Code: 128}},
		{container.State{ExitCode: 255}, backends.Exit{Code: 255}},
	} {
		test.want.Role, test.want.Replica = "decode", 2
		if got := exit("decode", 2, test.state); *got != test.want {
			t.Errorf("%+v: got %+v", test.state, *got)
		}
	}
}

func TestDigest(t *testing.T) {
	a, b := "sha256:"+strings.Repeat("a", 64), "sha256:"+strings.Repeat("b", 64)
	for _, test := range []struct {
		ref   string
		known []string
		want  string
	}{
		{"vllm/vllm-openai:v0.29.0", []string{"ghcr.io/x/vllm-openai@" + b, "vllm/vllm-openai@" + a}, a},
		{"docker.io/vllm/vllm-openai", []string{"vllm/vllm-openai@" + a}, a},
		{"vllm/vllm-openai@" + b, []string{"vllm/vllm-openai@" + a}, b},
		{"local:1", nil, "the id"},
		{"local:1", []string{"other@" + a}, "the id"},
		{"sha256:" + strings.Repeat("1", 64), nil, "the id"},
	} {
		if got := digest(test.ref, "the id", test.known); got != test.want {
			t.Errorf("%s: got %s, want %s", test.ref, got, test.want)
		}
	}
}

func TestInside_choose(t *testing.T) {
	running := []container.Summary{
		{ID: "1", Image: "vllm/vllm-openai:v0.29.0", Names: []string{"/happy_hopper"}, Labels: map[string]string{"app": "engine", "team": "a"}},
		{ID: "2", Image: "lmsysorg/sglang:v0.5.16", Names: []string{"/sad_turing"}, Labels: map[string]string{"app": "engine"}},
	}
	for _, test := range []struct {
		inside Inside
		want   string // id, or in the error
	}{
		{Inside{Image: "vllm/*"}, "1"},
		{Inside{Image: "*sglang*"}, "2"},
		{Inside{Image: "vllm"}, "no running container has image vllm"},
		{Inside{Label: "team"}, "1"},
		{Inside{Label: "team=b"}, "no running container"},
		{Inside{Name: "sad_*"}, "2"},
		{Inside{Label: "app=engine", Image: "lmsysorg/sglang:v0.5.1."}, "no running container"}, // a dot is a dot
		{Inside{Label: "app=engine"}, "2 running containers have label app=engine (happy_hopper, sad_turing)"},
		{Inside{Label: "app=engine", Name: "happy*"}, "1"},
	} {
		c, err := test.inside.choose(running)
		if err == nil && c.ID != test.want || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: got %s, %v", test.inside, c.ID, err)
		}
	}
}

const looked = `@tcp
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 111 1 0
   1: 0100007F:1F41 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 112 1 0
@tcp
   0: 00000000000000000000000000000000:1FBB 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 113 1 0
@stat
1 (sh) S 0 1 1 0 -1 4194560 1 1 1 1 1 1 1 1 20 0 1 0 100 1 1
40 (sweep boot) S 0 40 40 0 -1 4194560 1 1 1 1 1 1 1 1 20 0 1 0 200 1 1
41 (python3 (x) S) S 40 41 41 0 -1 4194560 1 1 1 1 1 1 1 1 20 0 1 0 201 1 1
42 (stray) S 1 42 41 0 -1 4194560 1 1 1 1 1 1 1 1 20 0 1 0 202 1 1
43 (dead) Z 40 43 43 0 -1 4194560 1 1 1 1 1 1 1 1 20 0 1 0 203 1 1
50 (reader) S 0 50 50 0 -1 4194560 1 1 1 1 1 1 1 1 20 0 1 0 300 1 1
51 (tail) S 50 50 50 0 -1 4194560 1 1 1 1 1 1 1 1 20 0 1 0 301 1 1
60 (other) S 0 60 60 0 -1 4194560 1 1 1 1 1 1 1 1 20 0 1 0 400 1 1
@environ 40
PATH=/bin
SWEEP_NAME=sw-me.server.0
SWEEP_DOCKER_POD=sw-me
SWEEP_POD=d1 l01
@environ 41
SWEEP_DOCKER_POD=sw-me

@environ 50
SWEEP_DOCKER_POD=sw-me
SWEEP_DOCKER_FOLLOW=1
@environ 60
SWEEP_DOCKER_POD=sw-other
@fd 41
lrwx------ 1 root root 64 Nov 21 12:00 3 -> socket:[111]
lrwx------ 1 root root 64 Nov 21 12:00 4 -> /dev/null
@cmdline 41
python3 -m server
@fd 42
lrwx------ 1 root root 64 Nov 21 12:00 3 -> socket:[113]
@environ 99
SWEEP_DOCKER_POD=sw-me
`

func TestParseSurvey(t *testing.T) {
	s, err := parseSurvey([]byte(looked))
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, p := range s.of("sw-me") {
		pids = append(pids, p.pid)
	}
	// 42 has another parent by now and is in the session of 41; 60 is another pod's.
	if want := []int{40, 41, 42, 50, 51}; !slices.Equal(pids, want) {
		t.Errorf("got %v, want %v", pids, want)
	}
	if p := s.processes[40]; p.environ["SWEEP_POD"] != "d1 l01" || p.token() != "40:200" || p.follows {
		t.Errorf("got %+v", p)
	}
	if s.bootstrap("sw-me", "sw-me.server.0") != 40 || s.bootstrap("sw-me", "sw-me.server.1") != 0 || s.bootstrap("sw-other", "sw-me.server.0") != 0 {
		t.Error("the bootstrap is not found by its name")
	}
	if !s.processes[50].follows || !s.processes[51].follows || s.processes[41].follows {
		t.Error("who reads the log is not told apart")
	}
	if got := s.ports(s.of("sw-me")); !slices.Equal(got, []int{8000, 8123}) {
		t.Errorf("ports %v", got)
	}
	if got := s.holder(8000); got != "process 41 (python3 -m server)" {
		t.Errorf("holder: %s", got)
	}
	if got := s.taken([]int{8001, 8123}); got != 8123 {
		t.Errorf("taken: %d", got)
	}
	for _, nothing := range []string{"", "sh: not found\n", "@stat\n", "@stat\n1 (x\n"} {
		if _, err := parseSurvey([]byte(nothing)); err == nil {
			t.Errorf("%q: no error", nothing)
		}
	}
}

func TestReach(t *testing.T) {
	here := []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("172.17.0.1")}
	c := func(gateway string) container.InspectResponse {
		return container.InspectResponse{
			HostConfig: &container.HostConfig{NetworkMode: "bridge"},
			NetworkSettings: &container.NetworkSettings{
				Networks: map[string]*network.EndpointSettings{"bridge": {
					IPAddress: netip.MustParseAddr("172.17.0.2"), Gateway: netip.MustParseAddr(gateway),
				}},
				Ports: network.PortMap{
					network.MustParsePort("8000/tcp"): {{HostIP: netip.MustParseAddr("127.0.0.1"), HostPort: "49153"}},
					network.MustParsePort("8000/udp"): {{HostIP: netip.MustParseAddr("127.0.0.1"), HostPort: "49154"}},
				},
			},
		}
	}
	direct := reachFrom(here, c("172.17.0.1"))
	published := reachFrom(here, c("172.18.0.1")) // somebody else's bridge: a virtual machine's
	ownNet := reachFrom(here, container.InspectResponse{HostConfig: &container.HostConfig{NetworkMode: "host"}})
	for _, test := range []struct {
		r          reach
		addr, want string
	}{
		{direct, "127.0.0.1:8000", "172.17.0.2:8000"},
		{direct, "localhost:9090", "172.17.0.2:9090"},
		{direct, "172.17.0.2:8000", "172.17.0.2:8000"},
		{published, "127.0.0.1:8000", "127.0.0.1:49153"},
		{published, "127.0.0.1:49153", "127.0.0.1:49153"},
		{published, "0.0.0.0:8000", "127.0.0.1:49153"},
		{published, "127.0.0.1:9090", ""},
		{ownNet, "127.0.0.1:8000", "127.0.0.1:8000"},
		{direct, "no port", ""},
	} {
		got, err := test.r.seenFromHere(test.addr)
		if got != test.want || (err != nil) != (test.want == "") {
			t.Errorf("%s: got %q, %v; want %q", test.addr, got, err, test.want)
		}
	}
	if got := published.port(9090); got != "" {
		t.Errorf("a port that is not published: %s", got)
	}
}

// Where a container's own address cannot be reached, the ports that it publishes
// are all that there are: the wanted ones come first, and no heartbeat has one.
func TestInsideReplicas_published(t *testing.T) {
	at := netip.MustParseAddrPort
	network := reach{published: map[uint16]netip.AddrPort{8000: at("127.0.0.1:1"), 8081: at("127.0.0.1:2"), 8082: at("127.0.0.1:3"), 9000: at("127.0.0.1:4")}}
	role := func(name string) backends.Role {
		return backends.Role{Name: name, Replicas: 1, Argv: func(backends.Address) ([]string, error) { return []string{"x"}, nil }}
	}
	spec := backends.Spec{Roles: []backends.Role{role("worker"), role("other"), role("frontend")}, Entry: "frontend", Expires: time.Now().Add(time.Hour)}
	c := DefaultConfig()
	c.Inside = &Inside{Name: "x", Ports: map[string]int{"other": 8082}}
	b := &Backend{config: c}
	for _, test := range []struct {
		listening []int
		want      string // ports, or in the error
	}{
		{nil, "8081 8082 8000"},
		{[]int{8081}, "9000 8082 8000"},
		{[]int{8081, 9000}, "worker: specification is not possible: container box has no free port left"},
		{[]int{8082}, "other: specification is not possible: port 8082 of container box is taken"},
	} {
		place := &insidePlace{name: "box", network: network, seen: survey{listening: map[int][]string{}}}
		for _, port := range test.listening {
			place.seen.listening[port] = []string{"1"}
		}
		replicas, err := b.insideReplicas(spec, "NAME", place)
		var ports []string
		for _, r := range replicas {
			ports = append(ports, strconv.Itoa(r.address.Port))
			if r.agent != nil || r.options.Heartbeat != 0 {
				t.Errorf("%s has a heartbeat", r.label())
			}
		}
		if got := strings.Join(ports, " "); err == nil && got != test.want || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: got %s, %v", test.listening, got, err)
		}
	}
	if _, err := b.insideReplicas(spec, "NAME", &insidePlace{name: "box", network: reach{}}); err == nil || !strings.Contains(err.Error(), "port 8082 of container box cannot be reached: it is not published") {
		t.Errorf("a container that publishes nothing: %v", err)
	}
}

func TestSkipping(t *testing.T) {
	var b strings.Builder
	s := &skipping{w: &b, left: 5}
	for _, text := range []string{"abc", "defg", "h"} {
		if n, err := s.Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("%s: %d, %v", text, n, err)
		}
	}
	if b.String() != "fgh" || s.passed != 3 {
		t.Errorf("got %q, %d", b.String(), s.passed)
	}
}

func TestLineWatch(t *testing.T) {
	w := &lineWatch{pattern: regexp.MustCompile("^ready$"), found: make(chan struct{})}
	for i, part := range []string{"not ready\nre", "ad", "y", "\n"} {
		if _, err := w.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
		select {
		case <-w.found:
			if i < 3 {
				t.Errorf("found after %q", part)
			}
			return
		default:
		}
	}
	t.Error("not found")
}

// Stop and Keep wait for another one at work until their own context ends.
func TestStop_waitsWithContext(t *testing.T) {
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(enough)
	busy := ending.New()
	ours, inside := &deployment{Ending: busy}, &insideDeployment{Ending: busy}
	err := busy.KeepWith(t.Context(), func() error {
		for name, err := range map[string]error{"Keep": ours.Keep(ctx, time.Now()), "Stop": ours.Stop(ctx), "Stop inside": inside.Stop(ctx)} {
			if !errors.Is(err, enough) {
				t.Errorf("%s: %v", name, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
