package logs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sweep.dev/sweep/backends/kubernetes/kubelog"
	"sweep.dev/sweep/backends/kubernetes/stack"
	"sweep.dev/sweep/internal/kubeapi"
	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/internal/slow"
)

// begin is when the logs of the tests begin.
var begin = time.Date(2026, 11, 25, 10, 0, 0, 0, time.UTC)

// at returns a line of a log, some milliseconds after the beginning.
func at(ms int, text string) string {
	return begin.Add(time.Duration(ms)*time.Millisecond).Format(time.RFC3339Nano) + " " + text + "\n"
}

// pd returns a stack of these pods, which all are of one role.
func pd(role string, pods ...*fakePod) *stack.Stack {
	r := stack.Role{Name: role}
	for _, p := range pods {
		r.Pods = append(r.Pods, stack.Pod{Name: p.name, UID: p.uid})
	}
	return &stack.Stack{Namespace: "ns", Name: "llm-d.ai/guide=pd", Roles: []stack.Role{r}}
}

// A collector keeps what Follow hands on.
type collector struct {
	mu    sync.Mutex
	lines []Line
	said  []string
}

func (c *collector) take(l Line) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, l)
	return nil
}

func (c *collector) say(from *Container, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	who := "stack"
	if from != nil {
		who = from.Name
	}
	c.said = append(c.said, who+": "+text)
}

// of returns what a container's own log, or that of its last run, has.
func (c *collector) of(container string, previous bool) (texts []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.lines {
		if l.From.Name == container && l.Previous == previous {
			texts = append(texts, l.Text)
		}
	}
	return texts
}

func (c *collector) all() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.said, "\n")
}

// follow runs Follow until the test has seen enough.
func follow(t *testing.T, api *kubeapi.Client, s *stack.Stack, o Options, c *collector) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	o.Say = c.say
	done := make(chan error, 1)
	go func() { done <- Follow(ctx, api, s, o, c.take) }()
	stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() { _ = stop() })
	return stop
}

// However often the connection breaks in the middle of a line, ends early or is refused,
// each line comes once, in its order: lines of one time, alike in all, or a little out of
// order as two outputs make them.
func TestFollow_breaks(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	all, opened := 250, 8
	if slow.Tests {
		all, opened = 400, 20
	}
	c := &fakeContainer{name: "modelserver", runs: []*fakeRun{{}}}
	p := &fakePod{name: "decode-0", uid: "u1", containers: []*fakeContainer{c}}
	f := &fake{pods: []*fakePod{p}}
	f.fault = func(n int, _ string) fault {
		switch {
		case n > 40:
			return fault{}
		case n%7 == 3:
			return fault{code: 500}
		case n%7 == 5:
			return fault{says: "unable to retrieve container logs for containerd://abc"}
		case n%7 == 6:
			return fault{says: "failed to try resolving symlinks in path \"/var/log/pods/x/0.log\": no such file\n"}
		}
		return fault{after: 1200 + random.IntN(900), clean: n%2 == 0}
	}
	api := f.client(t)
	var got collector
	stop := follow(t, api, pd("decode", p), Options{}, &got)
	var want []string
	ms := 0
	for i := range all {
		text := fmt.Sprintf("line %d", i)
		if i%5 == 0 {
			text = "the same"
		}
		time := ms + []int{0, 0, 3, -2, 40}[i%5]
		f.print(c, at(max(0, time), text))
		if i%10 == 5 {
			f.print(c, at(max(0, time), text)) // exactly the same once more
			want = append(want, text)
		}
		want = append(want, text)
		ms += 100
	}
	polltest.Until(t, "all lines are there", func() bool { return len(got.of("modelserver", false)) >= len(want) })
	f.print(c, at(ms+5000, "the end"))
	want = append(want, "the end")
	polltest.Until(t, "the last line is there", func() bool { return slices.Contains(got.of("modelserver", false), "the end") })
	if err := stop(); err != nil {
		t.Error(err)
	}
	if lines := got.of("modelserver", false); !slices.Equal(lines, want) {
		t.Errorf("%d lines, want %d; the first that differs: %s", len(lines), len(want), differs(lines, want))
	}
	if said := got.all(); !strings.Contains(said, "connection refused") || !strings.Contains(said, "resolving symlinks") || !strings.Contains(said, "its log is read again") {
		t.Errorf("said\n%s", said)
	}
	if len(f.asked) < opened {
		t.Errorf("the log was opened %d times only", len(f.asked))
	}
}

func differs(got, want []string) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("%d: %q, want %q", i, got[max(0, i-2):min(len(got), i+3)], want[max(0, i-2):min(len(want), i+3)])
		}
	}
	return "none"
}

// A container that died between two looks loses nothing: what its last run printed comes
// before what its next one does, and is kept apart as well.
func TestFollow_restart(t *testing.T) {
	t.Parallel()
	proxy := &fakeContainer{name: "routing-proxy", init: true, runs: []*fakeRun{{lines: []string{at(0, "Proxy starting")}}}}
	late := &fakeContainer{name: "late", waiting: "PodInitializing"}
	crashed := &fakeContainer{name: "crashed", waiting: "CrashLoopBackOff", runs: []*fakeRun{{lines: []string{at(0, "old")}, ended: true}, {lines: []string{at(1, "CUDA error")}, ended: true}}}
	p := &fakePod{name: "decode-0", uid: "u1", containers: []*fakeContainer{proxy, late, crashed}}
	other := &fakePod{name: "load", uid: "u2", containers: []*fakeContainer{{name: "stranger", runs: []*fakeRun{{lines: []string{at(0, "x")}}}}}}
	f := &fake{pods: []*fakePod{p, other}}
	broken := true
	f.fault = func(_ int, container string) fault {
		if container == "routing-proxy" && broken {
			broken = false
			return fault{after: len(at(0, "Proxy starting")) + 10}
		}
		return fault{}
	}
	api := f.client(t)
	var got collector
	stop := follow(t, api, pd("decode", p), Options{}, &got)
	polltest.Until(t, "the first line is there", func() bool { return len(got.of("routing-proxy", false)) == 1 })
	// It dies at once with a line that has no end, and the stream breaks before that line.
	f.change(func() {
		r := proxy.runs[0]
		r.lines = append(r.lines, at(10, "panic: nil map"), strings.TrimSuffix(at(11, "goroutine 1"), "\n"))
		r.ended = true
		proxy.runs = append(proxy.runs, &fakeRun{lines: []string{at(500, "Proxy starting")}})
		late.waiting, late.runs = "", []*fakeRun{{lines: []string{at(300, "ready")}}}
	})
	want := []string{"Proxy starting", "panic: nil map", "goroutine 1", "Proxy starting"}
	polltest.Until(t, "the new run's line is there", func() bool { return len(got.of("routing-proxy", false)) >= len(want) })
	polltest.Until(t, "the waiting container's line is there", func() bool { return len(got.of("late", false)) == 1 })
	polltest.Until(t, "the crashed container's line is there", func() bool { return len(got.of("crashed", false)) == 1 })
	f.print(proxy, at(600, "more"))
	polltest.Until(t, "its log goes on", func() bool { return slices.Contains(got.of("routing-proxy", false), "more") })
	if err := stop(); err != nil {
		t.Error(err)
	}
	if lines := got.of("routing-proxy", false); !slices.Equal(lines, append(want, "more")) {
		t.Errorf("lines %q", lines)
	}
	if lines := got.of("routing-proxy", true); !slices.Equal(lines, want[:3]) {
		t.Errorf("of its last run %q", lines)
	}
	if lines := got.of("crashed", true); !slices.Equal(lines, []string{"CUDA error"}) {
		t.Errorf("of the crashed one's last run %q", lines)
	}
	if lines := got.of("stranger", false); lines != nil {
		t.Errorf("of another stack %q", lines)
	}
	n := 0
	for _, q := range f.asked {
		if strings.Contains(q, "previous=true") {
			n++
		}
	}
	if n != 2 || !strings.Contains(got.all(), "routing-proxy: it was restarted once") {
		t.Errorf("%d logs of last runs were read; said\n%s", n, got.all())
	}
}

// Once reads what there is: a line of 10 MB costs no more than its beginning.
func TestFollow_once(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 10<<20)
	c := &fakeContainer{name: "vllm", runs: []*fakeRun{{lines: []string{at(0, "early"), at(5000, ""), at(5001, long), at(5002, "after\r")}}}}
	waits := &fakeContainer{name: "waits", waiting: "ImagePullBackOff"}
	p := &fakePod{name: "prefill-0", uid: "u1", containers: []*fakeContainer{c, waits}}
	f := &fake{pods: []*fakePod{p}}
	api := f.client(t)
	var got collector
	o := Options{Once: true, Say: got.say, Since: begin.Add(time.Second)}
	if err := Follow(t.Context(), api, pd("prefill", p), o, got.take); err != nil {
		t.Fatal(err)
	}
	if len(got.lines) != 3 || got.lines[0].Text != "" || got.lines[2].Text != "after" || !got.lines[2].Time.Equal(begin.Add(5002*time.Millisecond)) {
		t.Fatalf("%d lines: %.200q", len(got.lines), got.of("vllm", false))
	}
	if l := got.lines[1]; len(l.Text) != kubelog.MaxLine || l.Cut != len(long)-kubelog.MaxLine {
		t.Errorf("%d bytes and %d cut off", len(l.Text), l.Cut)
	}
	if !strings.Contains(got.all(), "waits: it has no log yet: ImagePullBackOff") {
		t.Errorf("said %s", got.all())
	}
	if !slices.ContainsFunc(f.asked, func(q string) bool { return strings.Contains(q, "sinceTime=2026-11-25T10%3A00%3A01Z") }) {
		t.Errorf("asked %q", f.asked)
	}
}

// A pod that joins the stack is followed, and one that goes ends its logs.
func TestFollow_join(t *testing.T) {
	t.Parallel()
	const labels = `{"llm-d.ai/guide":"pd","llm-d.ai/role":"decode"}`
	one := func(name string) *fakePod {
		return &fakePod{name: name, uid: "uid-" + name, labels: labels, containers: []*fakeContainer{{name: name + "-c", runs: []*fakeRun{{lines: []string{at(0, name)}}}}}}
	}
	a, b := one("a"), one("b")
	f := &fake{pods: []*fakePod{a}}
	api := f.client(t)
	var got collector
	stop := follow(t, api, pd("decode", a), Options{}, &got)
	polltest.Until(t, "a is read", func() bool { return len(got.of("a-c", false)) == 1 })
	f.change(func() { f.pods = []*fakePod{b} })
	polltest.Until(t, "b is read", func() bool { return len(got.of("b-c", false)) == 1 })
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// Without the right to read logs, the error names it, and an error of the caller's is its
// own.
func TestFollow_ends(t *testing.T) {
	t.Parallel()
	c := &fakeContainer{name: "c", runs: []*fakeRun{{lines: []string{at(0, "x")}}}}
	p := &fakePod{name: "p", uid: "u", containers: []*fakeContainer{c}}
	f := &fake{pods: []*fakePod{p}, denied: true}
	api := f.client(t)
	var got collector
	err := Follow(t.Context(), api, pd("decode", p), Options{}, got.take)
	if denied, ok := errors.AsType[*kubeapi.Denied](err); !ok || denied.Verb != "get" || denied.Resource != "pods/log" {
		t.Error(err)
	}
	f.change(func() { f.denied = false })
	full := errors.New("no space left")
	if err := Follow(t.Context(), api, pd("decode", p), Options{}, func(Line) error { return full }); !errors.Is(err, full) {
		t.Error(err)
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := NewFiles(nil, dir)
	files.max = 200
	from := &Container{Role: "decode worker", Pod: "decode-0.x", Name: "routing-proxy"}
	for i := range 10 {
		if err := files.Add(Line{From: from, Time: begin, Text: fmt.Sprintf("line %d", i), Cut: i}); err != nil {
			t.Fatal(err)
		}
	}
	if err := files.Add(Line{From: from, Time: begin, Text: "dead", Run: 2, Previous: true}); err != nil {
		t.Fatal(err)
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "decode-worker.decode-0.x.routing-proxy.log"))
	if err != nil || !strings.HasPrefix(string(text), "2026-11-25T10:00:00Z line 0\n2026-11-25T10:00:00Z line 1 [and 1 bytes]\n") || !strings.HasSuffix(string(text), "what follows is not kept\n") || len(text) > 320 {
		t.Errorf("%v\n%s", err, text)
	}
	const previous = "decode-worker.decode-0.x.routing-proxy.previous-2.log"
	if text, err := os.ReadFile(filepath.Join(dir, previous)); err != nil || string(text) != "2026-11-25T10:00:00Z dead\n" {
		t.Errorf("%v\n%s", err, text)
	}
	if c, ok := ParseFileName(previous); !ok || c != (Container{Role: "decode-worker", Pod: "decode-0.x", Name: "routing-proxy"}) {
		t.Errorf("%+v, %v", c, ok)
	}
	for _, name := range []string{"server-0.log", "a.log", "decode.p.c.txt"} {
		if c, ok := ParseFileName(name); ok {
			t.Errorf("%s: %+v", name, c)
		}
	}
}
