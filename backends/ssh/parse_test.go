package ssh

import (
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"sweep.dev/sweep/backends"
)

func TestParseSighting(t *testing.T) {
	name := backends.NewName("me", "run1", time.Now()).String()
	other := backends.NewName("me", "run2", time.Now()).String()
	s := parseSighting([]byte(strings.Join([]string{
		"home /w", "noise", "",
		"unit " + name, "mark SWEEP_OWNER=a=b c", "mark SWEEP_POD=", "process 12 345 b0", "process 13",
		"unit ../../etc", "mark SWEEP_OWNER=evil", "unit " + name + ".worker.1/../..", "mark SWEEP_OWNER=evil",
		"unit " + other, "gone",
		"live " + name + " 12 345 12", "live " + name + ".worker.1 14 400 12", "live x", "live y 1 2 3",
	}, "\n")))
	want := map[string]found{
		name:               {folder: true, live: true, marks: map[string]string{"SWEEP_OWNER": "a=b c", "SWEEP_POD": ""}, process: "12@345", boot: "b0"},
		name + ".worker.1": {live: true},
		other:              {folder: true, gone: true},
	}
	if s.home != "/w" || len(s.units) != len(want) {
		t.Fatalf("got %+v", s)
	}
	for unit, f := range want {
		if got := s.units[unit]; got == nil || !reflect.DeepEqual(*got, f) {
			t.Errorf("%s: got %+v, want %+v", unit, got, f)
		}
	}
	if got := members([]byte("12 345 1\nnoise\n14 400 0\n")); !slices.Equal(got, []string{"12@345", "14@400"}) {
		t.Errorf("got %v", got)
	}
}

func FuzzParseSighting(f *testing.F) {
	f.Add([]byte("unit x\nmark a=b\nprocess 1 2 3\nlive x 1 2"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for unit := range parseSighting(b).units {
			if _, ok := backends.ParseName(podOf(unit)); !ok || strings.ContainsAny(unit, "/ \n'") || strings.Contains(unit, "..") {
				t.Errorf("a unit is called %q", unit)
			}
		}
	})
}

func TestGreeted(t *testing.T) {
	for noise, want := range map[string]string{
		"":                         "answer",
		"Welcome!\nsweep-on-sshx":  "answer",
		strings.Repeat("x", 30000): "answer",
	} {
		for name, r := range map[string]io.Reader{
			"whole":        strings.NewReader(noise + greeting + want),
			"byte by byte": iotest.OneByteReader(strings.NewReader(noise + greeting + want)),
		} {
			out, err := greeted(r)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if got, err := io.ReadAll(out); err != nil || string(got) != want {
				t.Errorf("%s: got %q, %v", name, got, err)
			}
		}
	}
	if _, err := greeted(strings.NewReader("This account is not available.\n")); !errors.Is(err, io.EOF) || !strings.Contains(err.Error(), "not available") {
		t.Errorf("got %v", err)
	}
	if _, err := greeted(strings.NewReader(strings.Repeat("y\n", maxGreeting))); !errors.Is(err, errNoShell) {
		t.Errorf("endless noise: got %v", err)
	}
}

func TestSurvey_port(t *testing.T) {
	s := survey{taken: map[int]bool{}, below: 12000}
	for p := 10000; p < 12000; p++ {
		s.taken[p] = p != 11234
	}
	for {
		port, err := s.port()
		if err != nil {
			continue // one of two thousand, not hit this time
		}
		if port != 11234 {
			t.Fatalf("got %d", port)
		}
		break
	}
	if port, err := s.port(); err == nil {
		t.Errorf("the last port was given twice: %d", port)
	}
	if port, err := (survey{taken: map[int]bool{}, below: 2000}).port(); err != nil || port <= 1024 || port >= 2000 {
		t.Errorf("a low range: %d, %v", port, err)
	}
}

func TestEndOf(t *testing.T) {
	for _, c := range []struct {
		state string
		code  int
		want  string
	}{
		{"exited", 0, "server exited with status 0"},
		{"exited", 7, "server exited with status 7"},
		{"exited", 139, "server was ended by signal: segmentation fault"},
		{"exited", 255, "server exited with status 255"},
		{"lost", 0, "server was ended by signal: killed"},
	} {
		if e := endOf("server", 2, answer{state: c.state, code: c.code}); e.Error() != c.want || e.Replica != 2 {
			t.Errorf("%s %d: got %+v", c.state, c.code, e)
		}
	}
	if e := endOf("server", 2, answer{state: "exited", code: 137, oom: true}); !e.OOMKilled {
		t.Errorf("got %+v", e)
	}
}

// The ports that a plan says are the first replica's, and no other's.
func TestSurvey_units(t *testing.T) {
	pod := backends.NewName("me", "run1", time.Now())
	spec := backends.Spec{Roles: []backends.Role{
		{Name: "worker", Replicas: 3, Port: 11000, Ports: map[string]int{"metrics": 0}},
		{Name: "frontend", Replicas: 1, Ports: map[string]int{"metrics": 11900}},
	}}
	s := survey{python: true, taken: map[int]bool{}, below: 12100}
	made, err := s.units(&Backend{c: Defaults()}, spec, pod)
	if err != nil || len(made) != 4 {
		t.Fatalf("got %d, %v", len(made), err)
	}
	seen := map[int]bool{}
	for n, u := range made {
		at := u.Replicas[0].Place
		if n < 3 && at.Port != 11000+n || n == 3 && at.Ports["metrics"] != 11900 || at.Bind != loopback || at.Host != loopback {
			t.Errorf("unit %d is at %+v", n, at)
		}
		for _, port := range []int{at.Port, at.Ports["metrics"], at.Agent} {
			if port == 0 || seen[port] {
				t.Errorf("unit %d has port %d, as another", n, port)
			}
			seen[port] = true
		}
	}
	spec.Roles[1].Port = 11002
	if _, err := s.units(&Backend{c: Defaults()}, spec, pod); !errors.Is(err, backends.ErrSpec) {
		t.Errorf("one port for two: %v", err)
	}
	spec.Roles = spec.Roles[:1]
	spec.Roles[0].Port = 65534
	if _, err := s.units(&Backend{c: Defaults()}, spec, pod); !errors.Is(err, backends.ErrSpec) {
		t.Errorf("a port beyond the last: %v", err)
	}
}
