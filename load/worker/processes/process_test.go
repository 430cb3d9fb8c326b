package processes

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/internal/procfs"
	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/loadtest"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/load/worker"
	"sweep.dev/sweep/result"
)

func join(t *testing.T, url string, at []worker.Address) *worker.Group {
	t.Helper()
	to, err := worker.NewTarget(wire.Config{BaseURL: url, Model: "m", Chat: true, Stream: true}, "std")
	if err != nil {
		t.Fatal(err)
	}
	g, err := worker.Join(t.Context(), to, at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

func closed(slots, requests int) source.Config {
	return source.Config{Cell: "0123456789ab", Trial: 1, MaxTokens: 3, Concurrency: slots, Requests: requests, Prompts: source.Prompts{InputTokens: 20}}
}

// processes are clients as processes of this machine.
func processes(t *testing.T, n int) *Clients {
	t.Helper()
	p, err := Start(t.Context(), nil, n, command)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		for _, pid := range p.PIDs() {
			if s, ok := procfs.Stat(pid); ok && s.Alive() {
				t.Errorf("client %d lives", pid)
			}
		}
	})
	return p
}

// A client that is killed in the middle is found lost, and ends the run of all.
func TestClients_killed(t *testing.T) {
	e := loadtest.New(func(*loadtest.Request) loadtest.Answer { return loadtest.Answer{TTFT: 20 * time.Millisecond} })
	defer e.Close()
	p := processes(t, 3)
	g := join(t, e.URL, p.Addresses())
	var rec loadtest.Kept
	go func() {
		polltest.Within(polltest.Patience, func() bool { return rec.N() >= 20 })
		_ = syscall.Kill(p.PIDs()[1], syscall.SIGKILL)
	}()
	h, err := g.Run(t.Context(), worker.Load{Source: closed(6, 1_000_000)}, &rec, load.Options{Anchor: result.NewAnchor()})
	if err != nil {
		t.Fatal(err)
	}
	if s := h.Shards; s[0].Lost != "" || s[2].Lost != "" || !strings.Contains(s[1].Lost, "signal: killed") {
		t.Errorf("%+v", s)
	}
	if rec.N() < 20 {
		t.Errorf("%d records", rec.N())
	}
}

// A client that is stopped for a while goes on, and its health has the stall.
func TestClients_stopped(t *testing.T) {
	e := loadtest.New(func(*loadtest.Request) loadtest.Answer { return loadtest.Answer{TTFT: 20 * time.Millisecond} })
	defer e.Close()
	p := processes(t, 3)
	g := join(t, e.URL, p.Addresses())
	c := closed(6, 0)
	c.Duration = 4 * time.Second
	var rec loadtest.Kept
	go func() {
		polltest.Within(polltest.Patience, func() bool { return rec.N() >= 20 })
		_ = syscall.Kill(p.PIDs()[1], syscall.SIGSTOP)
		time.Sleep(3 * time.Second) // the stop itself
		_ = syscall.Kill(p.PIDs()[1], syscall.SIGCONT)
	}()
	h, err := g.Run(t.Context(), worker.Load{Source: c}, &rec, load.Options{Anchor: result.NewAnchor()})
	if err != nil {
		t.Fatal(err)
	}
	if h.Shards[1].Lost != "" || h.Shards[1].MaxGap < 2900*time.Millisecond || h.MaxGap != h.Shards[1].MaxGap {
		t.Errorf("%+v", h.Shards)
	}
}

// The token is in nothing of a client that others can see.
func TestClients_token(t *testing.T) {
	p := processes(t, 1)
	token := p.Addresses()[0].Token.Reveal()
	for _, file := range []string{"cmdline", "environ"} {
		text, err := readProc(p.PIDs()[0], file)
		if err != nil || strings.Contains(text, token) {
			t.Errorf("%s: %v", file, err)
		}
	}
	if s := fmt.Sprintf("%v %+v", p.Addresses(), p.all[0].address); strings.Contains(s, token) {
		t.Error(s)
	}
}

// However the coordinator ends, its clients end.
func TestClients_orphans(t *testing.T) {
	for name, stopped := range map[string]bool{"running": false, "one of them is stopped": true} {
		t.Run(name, func(t *testing.T) {
			pids := killCoordinator(t, stopped)
			polltest.Until(t, "the clients end", func() bool {
				return !slices.ContainsFunc(pids, func(pid int) bool {
					s, ok := procfs.Stat(pid)
					return ok && s.Alive()
				})
			})
		})
	}
}
