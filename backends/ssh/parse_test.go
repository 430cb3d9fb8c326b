package ssh

import (
	"errors"
	"io"
	"maps"
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
		"boot b1", "home /w", "noise", "",
		"pod " + name, "started", "mark SWEEP_OWNER=a=b c", "mark SWEEP_POD=", "port 1000", "port x", "port 1001",
		"process 0 12 345 b0", "process 1 13", "process x 1 2 3",
		"pod ../../etc", "mark SWEEP_OWNER=evil",
		"pod " + other, "gone",
		"live " + name + " 12 345 12", "live " + name + " 14 400 12", "live x",
	}, "\n")))
	if s.boot != "b1" || s.home != "/w" || len(s.pods) != 2 {
		t.Fatalf("got %+v", s)
	}
	p := s.pod(name)
	if p == nil || !p.started || p.gone || !slices.Equal(p.ports, []int{1000, 1001}) ||
		!maps.Equal(p.marks, map[string]string{"SWEEP_OWNER": "a=b c", "SWEEP_POD": ""}) ||
		!maps.Equal(p.processes, map[int]string{0: "12@345"}) || p.boots[0] != "b0" {
		t.Errorf("got %+v", p)
	}
	if p := s.pod(other); p == nil || !p.gone || p.started {
		t.Errorf("got %+v", p)
	}
	if got := s.live[name]; !slices.Equal(got, []string{"12@345", "14@400"}) {
		t.Errorf("got %v", got)
	}
}

func FuzzParseSighting(f *testing.F) {
	f.Add([]byte("pod x\nmark a=b\nprocess 0 1 2 3\nlive x 1 2"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, p := range parseSighting(b).pods {
			if _, ok := backends.ParseName(p.name); !ok || strings.ContainsAny(p.name, "/.") {
				t.Errorf("a pod is called %q", p.name)
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
	r := &replica{job: job{role: backends.Role{Name: "server"}, replica: 2}}
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
		if e := endOf(r, c.state, c.code, false); e.Error() != c.want || e.Replica != 2 {
			t.Errorf("%s %d: got %+v", c.state, c.code, e)
		}
	}
	if e := endOf(r, "exited", 137, true); !e.OOMKilled {
		t.Errorf("got %+v", e)
	}
}
