package runpod

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/backendtest"
	"sweep.dev/sweep/backends/bootstrap"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/backends/runpod/runpodtest"
	"sweep.dev/sweep/backends/runpod/runpodtest/podtest"
	"sweep.dev/sweep/backends/runpodapi"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/internal/procfs"
	"sweep.dev/sweep/internal/secret"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
)

func TestMain(m *testing.M) {
	backendtest.Main(m, func(config, dir string, fx *effect.Effects) (backends.Backend, backends.Spec, error) {
		at := strings.Fields(config)
		s, err := backendtest.SpecIn(dir)
		if err != nil {
			return nil, s, err
		}
		b, err := New(fx, configOf(at[0], at[1], at[2]))
		return b, rentedSpec(s), err
	})
}

// image is what the emulator runs the test's own server in.
const image = "example.com/server:1"

// emulator starts an account with the given faults.
func emulator(t *testing.T, faults ...string) *runpodtest.Emulator {
	t.Helper()
	e, err := runpodtest.New(runpodtest.Options{
		Faults: faults, Images: []podtest.Image{{Pattern: "example.com/**"}, {Pattern: image}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("emulator: %v", err)
		}
	})
	return e
}

// backend returns one whose patience is short enough for a test.
func backend(t *testing.T, e *runpodtest.Emulator, change ...func(*Config)) *Backend {
	t.Helper()
	c := configOf(e.Key(), e.URL(), e.ProxyURL())
	for _, f := range change {
		f(&c)
	}
	b, err := New(nil, c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// bare spares what starts many pods the bootstrap in each of them.
func bare(c *Config) { c.Bootstrap = false }

func configOf(key, url, proxyURL string) Config {
	c := DefaultConfig
	c.Key, c.BaseURL, c.ProxyURL = secret.New("${RUNPOD_API_KEY}", key), url, proxyURL
	c.Poll, c.Patience, c.Rate = 50*time.Millisecond, 4*time.Second, 60_000
	return c
}

// spec returns a deployment of the test's own server in a pod.
func spec(t *testing.T) backends.Spec {
	t.Helper()
	return rentedSpec(backendtest.Spec(t))
}

func rentedSpec(s backends.Spec) backends.Spec {
	s.GPU, s.GPUs = "rtx-2000-ada", 1
	s.Expires = time.Now().Add(10 * time.Minute)
	s.Grace = time.Second
	s.Roles[0].Image, s.Roles[0].KeyEnv = image, "ENGINE_KEY"
	return s
}

func TestContract(t *testing.T) {
	t.Parallel()
	e := emulator(t)
	backendtest.Run(t, func(t *testing.T) (backends.Backend, backends.Spec) {
		return backend(t, e), spec(t)
	}, backendtest.Remote(), backendtest.Provisioned(), backendtest.CrashWith(crash), backendtest.SpoilWith(func(s *backends.Spec) {
		s.Roles = slices.Clone(s.Roles)
		s.Roles[0].Image = ""
	}), backendtest.Killed(e.Key()+" "+e.URL()+" "+e.ProxyURL(), effect.RunpodCreate, effect.RunpodRead, effect.AgentStart))
	if err := e.Audit().Err(0); err != nil {
		t.Error(err)
	}
	for _, ev := range e.Events() {
		if ev.Method != http.MethodGet && !strings.HasPrefix(ev.Path, "/v2/pods") {
			t.Errorf("a pod leaves something else behind: %v", ev)
		}
	}
}

// crash kills the engine in a pod, not what watches over it.
func crash(t *testing.T, d backends.Deployment) {
	t.Helper()
	for _, p := range procfs.With(map[string]string{backends.MarkRun: d.(backends.Rental).Terms().Ref.RunID}) {
		argv, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		if err == nil && bytes.Contains(argv, []byte("\x00backendtest-server\x00127.")) && !bytes.HasPrefix(argv, []byte("/bin/sh")) {
			if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatal("no engine to kill")
}

// launch returns a launch that goes well; the pod is stopped with the test.
func launch(t *testing.T, b *Backend, s backends.Spec, l backends.Ledger) rented {
	t.Helper()
	d, err := b.Launch(t.Context(), s, l)
	if err != nil {
		t.Fatalf("Launch: %v", err)
	}
	t.Cleanup(func() { stop(t, d) })
	return d.(rented)
}

// rented is what a deployment of pods is, all of it.
type rented interface {
	backends.Deployment
	backends.Rental
	backends.Keeper
	backends.Server
}

// environ returns what a pod was started with, as the account tells it.
func environ(t *testing.T, b *Backend, d backends.Rental) map[string]string {
	t.Helper()
	seen, err := b.account.After(t.Context(), time.Now())
	p, ok := seen.Find(d.Terms().Ref.ID)
	if err != nil || !ok {
		t.Fatalf("no pod: %v", err)
	}
	return p.Env
}

func launchMany(t *testing.T, b *Backend, n int) (pods []rented) {
	t.Helper()
	for i := range n {
		s := spec(t)
		s.Pod = fmt.Sprintf("d%d-l01", i)
		pods = append(pods, launch(t, b, s, &backendtest.Ledger{}))
	}
	return pods
}

func stop(t *testing.T, d backends.Deployment) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := d.Stop(ctx); err != nil {
		t.Errorf("Stop: %v", err)
	}
}

// clean holds that nothing is left in the account and every intent was owed.
func clean(t *testing.T, e *runpodtest.Emulator, l *backendtest.Ledger) {
	t.Helper()
	if alive := e.Audit().Alive(); len(alive) != 0 {
		t.Errorf("left alive: %v", alive)
	}
	if states := l.States(); len(states) > 0 && states[len(states)-1] != backends.Gone && states[len(states)-1] != backends.Created {
		t.Errorf("the ledger ends with %v", states)
	}
}

// The ledger's price is what is billed: a budget that is kept by it is kept.
func TestLaunch_price(t *testing.T) {
	t.Parallel()
	e := emulator(t)
	var l backendtest.Ledger
	d := launch(t, backend(t, e, func(c *Config) { c.Volume = &Volume{Size: 40, Path: "/workspace"} }), spec(t), &l)
	stop(t, d)
	held := e.Audit().Pods[0]
	billed := held.USD / (math.Ceil(held.Gone.Sub(held.Created).Seconds()) / 3600) // by the second that has begun
	for _, a := range l.Transitions() {
		if a.USDPerHour > 0 && (a.USDPerHour < billed*0.999 || a.USDPerHour > billed*1.001) {
			t.Errorf("%s says $%.4f/h, billed are $%.4f/h", a.State, a.USDPerHour, billed)
		}
	}
}

// Each fault of RunPod on a create ends in one pod, and in none after Stop.
func TestLaunch_misbehaviour(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{
		"create-500-but-creates", "create-hangs", "create-drops-connection", "create-late=1s", "double-create", "create-500=1",
		"list-lag=1s", "get-404-after-create=1s", "slow-provision=500ms", "429=2", "read-500=3", "html-502=2",
		"no-capacity=1", "delete-500=2", "delete-200-but-alive", "terminated-later=500ms",
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			e := emulator(t, fault)
			b := backend(t, e, bare, func(c *Config) { c.Candidates = []Candidate{{}, {}} })
			var l backendtest.Ledger
			s := spec(t)
			d, err := b.Launch(t.Context(), s, &l)
			// An error page instead of the answer to a create may have come before
			// or after it.
			if err != nil {
				t.Fatalf("Launch: %v", err)
			}
			reaches(t, d)
			if n := len(e.Audit().Alive()); n != 1 && !strings.HasPrefix(fault, "double") {
				t.Errorf("%d pods live", n)
			}
			stop(t, d)
			clean(t, e, &l)
			for _, p := range e.Audit().Pods {
				if !slices.ContainsFunc(l.Transitions(), func(a backends.Transition) bool { return a.State == backends.Intended && a.Name == p.Name }) {
					t.Errorf("pod %s had no intent", p.Name)
				}
			}
		})
	}
}

// reaches asks the engine through the pod's host.
func reaches(t *testing.T, d backends.Deployment) {
	t.Helper()
	h := d.Host("server", 0)
	client := http.Client{Transport: &http.Transport{DialContext: h.Dial, DisableKeepAlives: true}}
	var err error
	if !polltest.Within(polltest.Patience, func() bool {
		var resp *http.Response
		if resp, err = client.Get(h.URL()); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return true
			}
			err = errors.New(resp.Status)
		}
		return false
	}) {
		t.Errorf("the engine does not answer: %v", err)
	}
}

// Pods that cannot be used are given back, and the error says why.
func TestLaunch_unusable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault, want string
		class       error
	}{
		{"zero-gpu", "GPUs", backends.ErrCapacity},
		{"runtime-null-forever=cuda", "unsatisfied condition: cuda", nil},
		{"runtime-null-forever=disk", "no space left on device", nil},
		{"exited-at-once", "exited", nil},
		{"error-status", "ERROR", nil},
		{"stock-gone", "no longer any instances", backends.ErrCapacity},
		{"balance-gone", "balance", backends.ErrRefused},
	} {
		t.Run(c.fault, func(t *testing.T) {
			t.Parallel()
			e := emulator(t, c.fault)
			b := backend(t, e, func(c *Config) { c.Pull = 500 * time.Millisecond })
			var l backendtest.Ledger
			_, err := b.Launch(t.Context(), spec(t), &l)
			text := fmt.Sprint(err)
			if f, ok := errors.AsType[*backends.Failure](err); ok {
				text += " (" + f.Hint + ")"
			}
			if err == nil || !strings.Contains(text, c.want) || c.class != nil && !errors.Is(err, c.class) {
				t.Errorf("got %v", err)
			}
			clean(t, e, &l)
		})
	}
}

// A pod that ends while it is measured is noticed.
func TestDone(t *testing.T) {
	t.Parallel()
	for fault, want := range map[string]string{"pod-dies=1s": "exited", "pod-vanishes=1s": "not listed any more"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			e := emulator(t, fault)
			d := launch(t, backend(t, e), spec(t), &backendtest.Ledger{})
			select {
			case <-d.Done():
			case <-time.After(time.Minute):
				t.Fatal("nobody noticed")
			}
			if err := d.Err(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A DELETE that is refused leaves the pod with its id and price in the error.
func TestStop_refused(t *testing.T) {
	t.Parallel()
	e := emulator(t)
	d := launch(t, backend(t, e), spec(t), &backendtest.Ledger{})
	e.SetFaults("delete-403")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	err := d.Stop(ctx)
	if !errors.Is(err, backends.ErrRefused) || !strings.Contains(err.Error(), d.Terms().Ref.ID) || !strings.Contains(err.Error(), "/h") {
		t.Errorf("got %v", err)
	}
	e.SetFaults()
}

// The proxy is used where the plan says so, and the row tells.
func TestLaunch_proxy(t *testing.T) {
	t.Parallel()
	e := emulator(t)
	d := launch(t, backend(t, e, func(c *Config) { c.Network = networkProxy }), spec(t), &backendtest.Ledger{})
	reaches(t, d)
	h := d.Host("server", 0)
	if h.Path() != host.Proxy || !slices.ContainsFunc(d.Terms().Findings, func(f result.Finding) bool { return f.Code == finding.NetworkProxy }) {
		t.Errorf("path %s, %+v", h.Path(), d.Terms())
	}
}

// A kept pod is taken over with its own secrets, by another process.
func TestAdopt(t *testing.T) {
	t.Parallel()
	e := emulator(t)
	s := spec(t)
	s.Digest = "digest"
	var l backendtest.Ledger
	first := backend(t, e)
	d, err := first.Launch(t.Context(), s, &l)
	if err != nil {
		t.Fatal(err)
	}
	reaches(t, d)
	agentAnswers(t, first, d.(rented))
	if err := d.(backends.Keeper).Keep(t.Context(), time.Now().Add(time.Minute)); err != nil {
		t.Fatalf("Keep: %v", err)
	}
	stop(t, d) // does nothing any more
	if n := len(e.Audit().Alive()); n != 1 {
		t.Fatalf("%d pods live", n)
	}
	ref := d.(backends.Rental).Terms().Ref
	other := s
	other.Digest = "another"
	if _, err := backend(t, e).Adopt(t.Context(), other, ref); err == nil || errors.Is(err, backends.ErrNotFound) {
		t.Errorf("another server was adopted, or taken for gone: %v", err)
	}
	again, err := backend(t, e).Adopt(t.Context(), s, ref)
	if err != nil {
		t.Fatalf("Adopt: %v", err)
	}
	reaches(t, again)
	a, b := http.Header{}, http.Header{}
	d.(backends.Server).Authorize(a)
	again.(backends.Server).Authorize(b)
	if a.Get("Authorization") == "" || a.Get("Authorization") != b.Get("Authorization") {
		t.Error("the adopted pod has another key")
	}
	stop(t, again)
	clean(t, e, &l)
}

// agentAnswers waits for the agent, which starts beside the engine, and returns
// our end of the talk with it.
func agentAnswers(t *testing.T, b *Backend, d rented) *bootstrap.Agent {
	t.Helper()
	env := environ(t, b, d)
	agent := bootstrap.NewAgent(d.Host("server", 0).Dial, "http://127.0.0.1:"+env["SWEEP_AGENT_PORT"], secret.Plain(env["SWEEP_TOKEN"]))
	var err error
	if !polltest.Within(polltest.Patience, func() bool {
		_, err = agent.Status(t.Context())
		return err == nil
	}) {
		t.Fatalf("no agent: %v", err)
	}
	return agent
}

// Pods that are not sweep's are neither listed nor touched.
func TestList_foreign(t *testing.T) {
	t.Parallel()
	e := emulator(t)
	e.Foreign(5)
	b := backend(t, e)
	if list, err := b.List(t.Context(), "owner"); err != nil || len(list) != 0 {
		t.Errorf("got %v, %v", list, err)
	}
	a, err := b.Account(t.Context())
	if err != nil || a.SpentUSD == nil {
		t.Errorf("got %+v, %v", a, err)
	}
}

func TestPause(t *testing.T) {
	t.Parallel()
	e := emulator(t)
	b := backend(t, e)
	d := launch(t, b, spec(t), &backendtest.Ledger{})
	if err := b.Pause(t.Context(), d.Terms().Ref); err != nil {
		t.Fatal(err)
	}
	if list, err := b.List(t.Context(), "owner"); err != nil || len(list) != 1 || list[0].Status != "EXITED" {
		t.Errorf("got %+v, %v", list, err)
	}
	if err := b.Pause(t.Context(), d.Terms().Ref); err != nil {
		t.Errorf("a second time: %v", err)
	}
	if err := b.Resume(t.Context(), d.Terms().Ref); err != nil {
		t.Error(err)
	}
	if err := b.Pause(t.Context(), backends.Ref{Kind: Kind, ID: "nosuchpod"}); !errors.Is(err, backends.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

// A ref of another API proves nothing by its absence here.
func TestTerminate_elsewhere(t *testing.T) {
	t.Parallel()
	e := emulator(t)
	b := backend(t, e)
	ref := backends.Ref{Kind: Kind, ID: "x", Details: map[string]string{"base_url": "https://api.runpod.io/v2"}}
	if err := b.Terminate(t.Context(), ref); err == nil {
		t.Error("a pod of another account is said to be gone")
	}
}

func TestQuote(t *testing.T) {
	t.Parallel()
	e := emulator(t)
	b := backend(t, e, func(c *Config) {
		c.MoveGPU = true
		c.Candidates = []Candidate{{}, {Cloud: "community"}, {GPU: "l4"}}
	})
	offers, err := b.Quote(t.Context(), spec(t))
	if err != nil || len(offers) != 3 {
		t.Fatalf("got %+v, %v", offers, err)
	}
	if o := offers[0]; o.GPU != "rtx-2000-ada" || o.Where != "secure" || o.USDPerHour <= 0 || !o.Available {
		t.Errorf("got %+v", o)
	}
	if offers[2].GPU != "l4" {
		t.Errorf("got %+v", offers[2])
	}
}

// An ordinary pod is seen to be gone soon after its one DELETE, also while it is
// young: a DELETE that went well is not repeated, and a duplicate is waited for only
// as long as the lists were seen to lag.
func TestStop_young(t *testing.T) {
	t.Parallel()
	e := emulator(t)
	b := backend(t, e, bare, func(c *Config) { c.Patience = 2 * time.Minute }) // new for a minute
	pods := launchMany(t, b, 3)
	began := time.Now()
	var stopped sync.WaitGroup
	for _, d := range pods {
		stopped.Go(func() { stop(t, d) })
	}
	stopped.Wait()
	if took := time.Since(began); took > b.freshness() {
		t.Errorf("three pods were seen to be gone after %v", took)
	}
	if deletes := e.Audit().Deletes; len(deletes) != len(pods) {
		t.Errorf("%d DELETEs for %d pods: %v", len(deletes), len(pods), deletes[:min(9, len(deletes))])
	}
	if alive := e.Audit().Alive(); len(alive) != 0 {
		t.Errorf("left alive: %v", alive)
	}
}

// A duplicate that the account lists late is deleted too, though the pod that was
// meant is deleted before either was listed.
func TestStop_lateDuplicate(t *testing.T) {
	t.Parallel()
	e := emulator(t, "double-create", "list-lag=1s")
	b := backend(t, e)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := b.Launch(ctx, spec(t), interrupting{cancel})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Launch: %v", err)
	}
	if audit := e.Audit(); len(audit.Pods) != 2 || len(audit.Alive()) != 0 {
		t.Errorf("%d pods, alive %v", len(audit.Pods), audit.Alive())
	}
}

// The name of a pod that is gone is watched while other deployments live.
func TestStop_duplicateAfterTheEnd(t *testing.T) {
	t.Parallel()
	e := emulator(t)
	b := backend(t, e)
	other := launch(t, b, spec(t), &backendtest.Ledger{})
	s := spec(t)
	s.Pod = "d2-l01"
	d := launch(t, b, s, &backendtest.Ledger{})
	stop(t, d)
	create(t, b, d.Terms().Ref.Name)
	polltest.Until(t, "one pod alone is alive", func() bool { return len(e.Audit().Alive()) <= 1 })
	if n := len(other.Terms().Findings); n != 1 {
		t.Errorf("%d findings: %v", n, other.Terms().Findings)
	}
}

// create makes a pod of that name at the provider alone, without a launch.
func create(t *testing.T, b *Backend, name string) {
	t.Helper()
	if _, err := b.client.Create(t.Context(), named(name), time.Minute); err != nil {
		t.Fatal(err)
	}
}

func named(name string) runpodapi.CreateRequest {
	return runpodapi.CreateRequest{
		Name: name, Image: image, Disk: 20, Ports: []string{"8000/tcp"}, Env: map[string]string{}, Cloud: "SECURE",
		GPU: runpodapi.PodGPU{ID: "NVIDIA RTX 2000 Ada Generation", Count: 1},
	}
}

// interrupting is the ledger of a run that is interrupted as soon as it has a pod.
type interrupting struct{ interrupt func() }

func (l interrupting) Record(_ context.Context, a backends.Transition) error {
	if a.State == backends.Created {
		l.interrupt()
	}
	return nil
}

// Pods that one lost create has made are deleted together, not one after another.
func TestTerminate_duplicates(t *testing.T) {
	t.Parallel()
	e := emulator(t, "double-create", "delete-200-but-alive=3")
	b := backend(t, e)
	s := spec(t)
	name := backends.NewName(s.Owner, s.RunID, s.Expires).String()
	create(t, b, name)
	if err := b.Terminate(t.Context(), backends.Ref{Kind: Kind, Name: name}); err != nil {
		t.Error(err)
	}
	audit := e.Audit()
	if len(audit.Pods) != 2 || len(audit.Alive()) != 0 {
		t.Fatalf("%d pods, alive %v", len(audit.Pods), audit.Alive())
	}
	first := map[string]bool{}
	for _, d := range audit.Deletes[:2] {
		first[d.Path] = true
	}
	if len(first) != 2 {
		t.Errorf("the first two DELETEs are of the same pod: %v", audit.Deletes)
	}
}

// Deletes are sent at once, whatever else is being asked.
func TestStop_eightAtOnce(t *testing.T) {
	t.Parallel()
	e := emulator(t)
	b := backend(t, e, bare, func(c *Config) { c.Rate = 600 })
	pods := launchMany(t, b, 8)
	began := time.Now()
	done := make(chan struct{})
	for _, d := range pods {
		go func() { stop(t, d); done <- struct{}{} }()
	}
	for range pods {
		<-done
	}
	deletes := e.Audit().Deletes
	if len(deletes) < 8 {
		t.Fatalf("%d deletes", len(deletes))
	}
	if late := deletes[7].Received.Sub(began); late > 2*time.Second {
		t.Errorf("the eighth delete came after %v", late)
	}
}
