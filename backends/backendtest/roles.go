package backendtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/internal/polltest"
)

// OneRole is for a backend whose deployments are one server each.
func OneRole() Option { return func(s *suite) { s.oneRole = true } }

// roles is a deployment of two roles of two replicas each. The second is told
// where all of the first are, and is not started before they are up.
func (s *suite) roles(tt *testing.T) {
	t := s.try(tt)
	told := &telling{t: t, listening: map[string]bool{}}
	told.divide(&t.spec)
	d := t.start()
	each := func(do func(h host.Host, role string, n int)) {
		for _, role := range t.spec.Roles {
			for n := range role.Replicas {
				do(d.Host(role.Name, n), role.Name, n)
			}
		}
	}
	each(func(h host.Host, role string, n int) {
		polltest.Until(t.T, fmt.Sprintf("%s %d answers", role, n), func() bool { return answers(t.T, h) })
	})
	each(told.check) // each asks all others, which are up now
	if all, err := t.List(t.Context(), t.spec.Owner); err != nil || len(all) != 1 {
		t.Errorf("a deployment of four servers is listed as %+v, %v", all, err)
	}
	t.accessOf(d)

	// By its name alone, as a later process may have it.
	transitions := t.ledger.Transitions()
	bare := backends.Ref{Kind: transitions[0].Kind, RunID: t.spec.RunID, Pod: t.spec.Pod, Name: transitions[0].Name, Details: transitions[0].At}
	if bare.Name == "" { // it is found by what it was created as
		bare = *transitions[len(transitions)-1].Ref
	}
	another, _ := s.fresh(tt)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := another.Terminate(ctx, bare); err != nil {
		t.Errorf("Terminate: %v", err)
	}
	t.nothingLeft()
	t.end(d)
}

// rolesFail holds that nothing is left of a deployment of which a later role
// cannot start, or is not wanted any more.
func (s *suite) rolesFail(tt *testing.T) {
	enough := errors.New("enough")
	for name, fail := range map[string]func(*trial, context.CancelCauseFunc){
		"no such command": func(t *trial, _ context.CancelCauseFunc) {
			t.spec.Roles[1].Argv = func(backends.Address) ([]string, error) { return []string{"/no/such/server"}, nil }
			t.spec.Roles[1].Started = func(ctx context.Context, _ host.Host, _ int) error {
				<-ctx.Done() // where its end is seen later than its start
				return context.Cause(ctx)
			}
		},
		"is not up": func(t *trial, _ context.CancelCauseFunc) {
			t.spec.Roles[0].Started = func(context.Context, host.Host, int) error { return enough }
		},
		"cancelled": func(t *trial, cancel context.CancelCauseFunc) {
			t.spec.Roles[0].Started = func(context.Context, host.Host, int) error { cancel(enough); return nil }
		},
	} {
		if s.layered && !s.full && name != "no such command" {
			continue
		}
		tt.Run(name, func(tt *testing.T) {
			t := s.try(tt)
			if simulates(t.Backend) && name == "no such command" {
				return // it runs none
			}
			told := &telling{t: t, listening: map[string]bool{}}
			told.divide(&t.spec)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			ctx, stop := context.WithTimeout(ctx, patience)
			defer stop()
			fail(t, cancel)
			d, err := t.Launch(ctx, t.spec, &t.ledger)
			if err == nil {
				t.end(d)
				t.Fatal("Launch: no error")
			}
			if name != "no such command" && !errors.Is(err, enough) {
				t.Errorf("Launch: %v", err)
			}
			if states := t.ledger.States(); len(states) > 0 && states[len(states)-1] != backends.Gone {
				t.Errorf("the ledger still owes it: %v", states)
			}
		})
	}
}

// A telling notes the addresses that replicas get of each other.
type telling struct {
	t         *trial
	mu        sync.Mutex
	listening map[string]bool // replicas of the first role that are up
}

// twoRoles makes two roles of two replicas of a spec's one, with logs in dir.
func twoRoles(spec *backends.Spec, dir string) {
	first, second := spec.Roles[0], spec.Roles[0]
	first.Name, second.Name = "worker", "frontend" // which the simulator knows
	for _, r := range []*backends.Role{&first, &second} {
		name := r.Name
		r.Replicas, r.GPUs = 2, 0
		r.LogPath = func(n int) string { return filepath.Join(dir, name+"-"+strconv.Itoa(n)+".log") }
	}
	first.Port = 0 // a port of the spec is that of its entry
	spec.Roles, spec.Entry = []backends.Role{first, second}, second.Name
}

// divide makes two roles of a spec's one, which say what they are told.
func (o *telling) divide(spec *backends.Spec) {
	twoRoles(spec, o.t.TempDir())
	if !simulates(o.t.Backend) {
		for i := range spec.Roles {
			argv := spec.Roles[i].Argv
			spec.Roles[i].Argv = func(a backends.Address) ([]string, error) { return tell(a, argv) }
		}
	}
	first, second := &spec.Roles[0], &spec.Roles[1]
	first.Started = func(ctx context.Context, h host.Host, replica int) error {
		for !answers(o.t.T, h) {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(10 * time.Millisecond):
			}
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.listening[strconv.Itoa(replica)] = true
		if text := o.log(second.LogPath(0)); text != "" {
			o.t.Errorf("the second role was started before replica %d of the first was up: %s", replica, text)
		}
		return nil
	}
}

// tell returns a command line that says where its peers are before it becomes the one
// of argv.
func tell(a backends.Address, argv func(backends.Address) ([]string, error)) ([]string, error) {
	peers := map[string][]string{}
	for role, list := range a.Peers {
		for _, p := range list {
			peers[role] = append(peers[role], p.String())
		}
	}
	text, err := json.Marshal(peers)
	if err != nil {
		return nil, err
	}
	inner, err := argv(a)
	return append([]string{"/bin/sh", "-c", `printf 'told %s\n' "$1"; shift; exec "$@"`, "tell", string(text)}, inner...), err
}

// simulates reports whether a backend runs no command line.
func simulates(b backends.Backend) bool {
	sim, ok := b.(backends.Simulator)
	return ok && sim.Simulated()
}

func (o *telling) log(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(text)
}

// check holds what a replica was told against where the others answer.
func (o *telling) check(h host.Host, role string, n int) {
	if simulates(o.t.Backend) {
		return
	}
	var line string
	polltest.Until(o.t.T, "the log says what it was told", func() bool {
		r, err := h.Logs(o.t.Context())
		if err != nil {
			return false
		}
		defer r.Close()
		text, err := io.ReadAll(r)
		_, after, ok := strings.Cut(string(text), "told ")
		line, _, _ = strings.Cut(after, "\n")
		return err == nil && ok && strings.Contains(after, "\n")
	})
	var peers map[string][]string
	if err := json.Unmarshal([]byte(line), &peers); err != nil {
		o.t.Errorf("%s %d was told %q: %v", role, n, line, err)
		return
	}
	all := slices.Concat(peers["worker"], peers["frontend"])
	slices.Sort(all)
	if len(peers["worker"]) != 2 || len(peers["frontend"]) != 2 || len(slices.Compact(all)) != 4 {
		o.t.Errorf("%s %d got the addresses %v, want two and two at addresses of their own", role, n, peers)
	}
	if len(o.listening) != 2 {
		o.t.Errorf("of the first role only %v were awaited", o.listening)
	}
	if o.t.remote {
		return
	}
	// Each is reached from beside each other one, by the address that it was told.
	out, err := h.Exec(o.t.Context(), append([]string{"python3", "-IS", "-c", asks}, all...)...)
	if want := strings.Repeat("200\n", len(all)); err != nil || string(out) != want {
		o.t.Errorf("from beside %s %d, %v answer %q, %v", role, n, all, out, err)
	}
}

// asks prints the status with which each of its arguments, a host and a port, answers.
const asks = `
import socket, sys
for at in sys.argv[1:]:
    host, _, port = at.rpartition(":")
    with socket.create_connection((host.strip("[]"), int(port)), 10) as s:
        s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        print(s.makefile("rb").readline().split()[1].decode())
`

// accessOf holds that every replica is known by the ref.
func (t *trial) accessOf(d backends.Deployment) {
	t.Helper()
	from, ok := t.Backend.(backends.Accessor)
	if !ok {
		return
	}
	transitions := t.ledger.Transitions()
	all, err := from.Access(t.Context(), *transitions[len(transitions)-1].Ref)
	if errors.Is(err, host.ErrNotSupported) {
		return
	}
	var got []string
	for _, a := range all {
		got = append(got, fmt.Sprintf("%s %d", a.Role, a.Replica))
		if url := d.Host(a.Role, a.Replica).URL(); a.Path != host.Tunnel && a.URL != url {
			t.Errorf("Access of %s %d says %s, its host %s", a.Role, a.Replica, a.URL, url)
		}
	}
	if want := []string{"frontend 0", "frontend 1", "worker 0", "worker 1"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("Access: %q, %v", got, err)
	}
}
