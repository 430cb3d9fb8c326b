package docker

import (
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"

	"sweep.dev/sweep/backends"
)

// Files are refused if nothing in the container could write them, or if they are
// too large; a variable needs no writer.
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
		b, err := New(nil, c, nil)
		if err != nil {
			t.Fatal(err)
		}
		err = b.Check(backends.Spec{Roles: []backends.Role{role}})
		if (err == nil) != (test.want == "") || err != nil && (!errors.Is(err, backends.ErrSpec) || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: got %v", test.name, err)
		}
	}
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
@fd
/proc/41/fd:
total 0
lrwx------ 1 root root 64 Nov 21 12:00 3 -> socket:[111]
lrwx------ 1 root root 64 Nov 21 12:00 4 -> /dev/null

/proc/42/fd:
total 0
lrwx------ 1 root root 64 Nov 21 12:00 3 -> socket:[113]

/proc/self/fd:
total 0
lrwx------ 1 root root 64 Nov 21 12:00 3 -> socket:[114]
@cmdline 41
python3 -m server
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
	if s.leader("sw-me") != 40 || s.leader("sw-gone") != 0 {
		t.Error("the first process is not found by the unit's name")
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
	if got := s.firstInUse([]int{8001, 8123}); got != 8123 {
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
func TestInsideUnits_published(t *testing.T) {
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
		{[]int{8082}, "other: specification is not possible: port 8082 of container box is in use"},
	} {
		place := &insidePlace{name: "box", network: network, seen: survey{listening: map[int][]string{}}}
		for _, port := range test.listening {
			place.seen.listening[port] = []string{"1"}
		}
		units, err := b.insideUnits(spec, backends.NewName("o", "r", spec.Expires), place)
		var ports []string
		for _, u := range units {
			r := u.Replicas[0]
			ports = append(ports, strconv.Itoa(r.Place.Port))
			if r.Place.Agent != 0 {
				t.Errorf("%s has a heartbeat", r.Name())
			}
		}
		if got := strings.Join(ports, " "); err == nil && got != test.want || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: got %s, %v", test.listening, got, err)
		}
	}
	if _, err := b.insideUnits(spec, backends.NewName("o", "r", spec.Expires), &insidePlace{name: "box", network: reach{}}); err == nil || !strings.Contains(err.Error(), "port 8082 of container box cannot be reached: it is not published") {
		t.Errorf("a container that publishes nothing: %v", err)
	}
}

// A log that is read again, of which the beginning was rotated away, goes on where it stopped.
func TestStamped(t *testing.T) {
	var b strings.Builder
	var last time.Time
	write := func(pieces ...string) {
		w := &stamped{w: &b, after: last, last: &last}
		for _, text := range pieces {
			if n, err := w.Write([]byte(text)); n != len(text) || err != nil {
				t.Errorf("%s: %d, %v", text, n, err)
			}
		}
	}
	write("2026-11-21T10:00:00.000000001Z a\n", "2026-11-21T10:00:00.000000001Z b\n", "2026-11-21T10:00:00.000000002Z c\n")
	write("2026-11-21T10:00:00.000000002Z c\n", "2026-11-21T10:00:01Z d e\n", "no time\n")
	if want := "a\nb\nc\nd e\nno time\n"; b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
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
	if b.String() != "fgh" {
		t.Errorf("got %q", b.String())
	}
}
