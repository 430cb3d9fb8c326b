//go:build bench

package benchmarks

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/internal/procfs"
)

var (
	reps    = flag.Int("reps", 3, "interleaved repetitions of each measurement")
	seconds = flag.Float64("seconds", 3, "measured in each, after the warm-up")
	warm    = flag.Float64("warm", 1.5, "seconds of each before it is measured")
	again   = flag.Int("again", 5, "how often a run is repeated until the hypervisor has let it be")
	only    = flag.String("only", "", "one part of the table: cost, error, start, open, memory, allocs")
)

// clients are what is compared: the floor with and without kernel stamps, and
// our two drivers.
var clients = []string{"floor", "floor+stamps", "fast", "std"}

// A bench is a C server on one core and clients on another.
type bench struct {
	t          *testing.T
	floor, url string
	port       string

	runs, disturbed int
}

// TestClient prints the measuring client's table: each figure is a ratio within
// one run, or an error against the send times that the server writes into the
// stream. The server has one core and the client another.
func TestClient(t *testing.T) {
	b := start(t)
	parts := []struct {
		name string
		run  func()
	}{
		{"cost", b.cost}, {"error", b.errors}, {"start", b.starts}, {"open", b.open}, {"memory", b.memory}, {"allocs", b.allocations},
	}
	for _, p := range parts {
		if *only == "" || *only == p.name {
			p.run()
		}
	}
	fmt.Printf("\n%d runs, of which %d count although the hypervisor took more than %g %% of the CPUs\n", b.runs, b.disturbed, 100*stolen)
}

// stolen is the share of the machine's CPU time above which a run reports the
// hypervisor's other guests.
const stolen = 0.01

func start(t *testing.T) *bench {
	t.Helper()
	dir := t.TempDir()
	b := &bench{t: t, floor: filepath.Join(dir, "floor"), port: "9817"}
	for _, name := range []string{"server", "floor"} {
		out, err := exec.Command("gcc", "-O2", "-o", filepath.Join(dir, name), filepath.Join("perf", name+".c")).CombinedOutput()
		if err != nil {
			t.Fatalf("gcc: %v\n%s", err, out)
		}
	}
	cores := strings.TrimSpace(output(t, "nproc"))
	if cores == "1" {
		t.Fatal("one core: the server and the client need one each")
	}
	server := exec.Command("taskset", "-c", "0", filepath.Join(dir, "server"), b.port, "0", truthQuery)
	server.Stderr = os.Stderr
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	b.url = "http://127.0.0.1:" + b.port
	polltest.Until(t, "the server answers", func() bool {
		resp, err := http.Get(b.url + "/stats")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return true
	})
	return b
}

func output(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).Output()
	if err != nil {
		t.Fatalf("%v: %v", argv, err)
	}
	return string(out)
}

// run runs one client until the machine was ours, or for the last time.
func (b *bench) run(o order) finding {
	b.t.Helper()
	b.runs++
	for left := *again; ; left-- {
		from, ok := procfs.ReadCPUTime()
		f := b.once(o)
		to, still := procfs.ReadCPUTime()
		if !ok || !still {
			b.t.Fatal("/proc/stat does not report the hypervisor's time")
		}
		share, known := to.StolenSince(from)
		quiet := known && share <= stolen
		if !quiet && left > 0 {
			continue
		}
		if !quiet {
			b.disturbed++
		}
		return f
	}
}

// once runs one client on core 1.
func (b *bench) once(o order) finding {
	b.t.Helper()
	if o.Warm == 0 {
		o.Warm = *warm
	}
	if o.Seconds == 0 {
		o.Seconds = *seconds
	}
	o.URL = b.url
	if strings.HasPrefix(o.Client, "floor") {
		return b.runFloor(o)
	}
	order, err := json.Marshal(o)
	if err != nil {
		b.t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "taskset", "-c", "1", self)
	cmd.Env = append(os.Environ(), workerEnv+"="+string(order))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		b.t.Fatalf("%s: %v\n%s", order, err, out)
	}
	var f finding
	if err := json.Unmarshal(out, &f); err != nil {
		b.t.Fatalf("%s: %v\n%s", order, err, out)
	}
	if f.Failed > 0 && !o.Once {
		b.t.Errorf("%s: %d requests failed: %s", order, f.Failed, f.FirstError)
	}
	return f
}

func (b *bench) runFloor(o order) finding {
	argv := []string{"-c", "1", b.floor, "port=" + b.port, fmt.Sprintf("streams=%d", o.Streams), fmt.Sprintf("dur=%g", o.Seconds), fmt.Sprintf("warm=%g", o.Warm)}
	if o.Client == "floor+stamps" {
		argv = append(argv, "kts=1")
	}
	argv = append(argv, strings.Split(o.Query, "&")...)
	out, err := exec.Command("taskset", argv...).Output()
	if err != nil {
		b.t.Fatalf("floor: %v", err)
	}
	var f struct {
		Wall, CPU float64
		Chunks    int
		Err       struct{ P50, P99, P999 float64 } `json:"err_us"`
	}
	if err := json.Unmarshal(out, &f); err != nil {
		b.t.Fatalf("floor: %v\n%s", err, out)
	}
	return finding{Wall: f.Wall, CPU: f.CPU, Chunks: f.Chunks, Error: []float64{f.Err.P50, f.Err.P99, f.Err.P999}}
}

// A shape is a load of which a core can carry 70 %.
type shape struct{ streams, itl, mode int }

func (s shape) query(tokens int) string {
	return fmt.Sprintf("n=%d&itl=%d&ttft=20000&mode=%d", tokens, s.itl, s.mode)
}

func (s shape) String() string {
	return fmt.Sprintf("%d x %g/s %s", s.streams, 1e6/float64(s.itl), [...]string{"random phase", "bursts"}[s.mode])
}

func shapes() []shape {
	var out []shape
	for mode := range 2 {
		out = append(out, shape{16, 10_000, mode}, shape{256, 20_000, mode}, shape{1024, 50_000, mode}, shape{4096, 200_000, mode})
	}
	return out
}

// cost is CPU per chunk against the floor's.
func (b *bench) cost() {
	p := newTable("CPU per chunk, us (x floor)", "load", "floor", "floor+stamps", "fast", "std", "fast/floor", "std/floor", "fast/+stamps", "std/+stamps", "util fast", "std")
	for _, s := range shapes() {
		per := map[string][]float64{}
		util := map[string][]float64{}
		for range *reps {
			for _, c := range clients {
				f := b.run(order{Client: c, Streams: s.streams, Query: s.query(200)})
				per[c] = append(per[c], f.perChunk())
				util[c] = append(util[c], f.CPU/max(f.Wall, 1e-9))
			}
		}
		m := func(c string) float64 { return quantile(slices.Clone(per[c]), 0.5) }
		ratio := func(a, b string) string { return fmt.Sprintf("%.2f", m(a)/m(b)) }
		p.row(s.String(), f2(m("floor")), f2(m("floor+stamps")), f2(m("fast")), f2(m("std")),
			ratio("fast", "floor"), ratio("std", "floor"), ratio("fast", "floor+stamps"), ratio("std", "floor+stamps"),
			f2(quantile(util["fast"], 0.5)), f2(quantile(util["std"], 0.5)))
	}
	p.print(os.Stdout)
}

// errors are those of the receive times, and of the percentiles made of them.
func (b *bench) errors() {
	p := newTable("Added error of receive times, us, and of percentiles against the truth in the stream",
		"load", "client", "p50", "p99", "p99.9", "user-space p99", "coalesced", "gap p50 ms (truth)", "p95 (truth)", "p99 (truth)", "TTFT p50 (truth)", "worst off")
	for _, s := range append(shapes(), shape{10_000, 500_000, 0}) {
		for _, c := range []string{"floor", "fast", "std"} {
			if c == "floor" && s.streams > 5000 {
				continue
			}
			var e [3][]float64
			var f finding
			for range *reps {
				f = b.run(order{Client: c, Streams: s.streams, Query: s.query(20), Truth: true})
				for i := range e {
					e[i] = append(e[i], f.Error[i])
				}
			}
			m := func(i int) string { return fmt.Sprintf("%.0f", quantile(e[i], 0.5)) }
			if c == "floor" {
				p.row(s.String(), c+" (user space)", m(0), m(1), m(2))
				continue
			}
			off := 0.0
			for i := range f.Gap {
				off = max(off, 100*abs(f.Gap[i]/f.TruthGap[i]-1))
			}
			off = max(off, 100*abs(f.TTFT[1]/f.TruthTTFT[1]-1))
			p.row(s.String(), c+" "+f.Stamps, m(0), m(1), m(2), fmt.Sprintf("%.0f", f.Lag[1]), fmt.Sprintf("%.2f%%", 100*f.Coalesced),
				pair(f.Gap[0], f.TruthGap[0]), pair(f.Gap[1], f.TruthGap[1]), pair(f.Gap[2], f.TruthGap[2]), pair(f.TTFT[1], f.TruthTTFT[1]), fmt.Sprintf("%.2f%%", off))
		}
	}
	p.print(os.Stdout)
}

// starts are requests that begin together, on connections that are open.
func (b *bench) starts() {
	p := newTable("Simultaneous starts, prewarmed: TTFT where 50 ms is true, ms", "streams", "client", "mean TTFT", "off", "mean of the stamps", "off", "sent within us (p50, p99 after the first)")
	for _, n := range []int{100, 500, 1000} {
		for _, c := range []string{"fast", "std"} {
			var ttft, truth []float64
			var f finding
			for range *reps {
				f = b.run(order{Client: c, Streams: n, Query: "n=100&itl=10000&ttft=50000&mode=3", Once: true, Truth: true})
				ttft, truth = append(ttft, f.TTFT[0]), append(truth, f.TruthTTFT[0])
			}
			a, s := quantile(ttft, 0.5), quantile(truth, 0.5)
			p.row(fmt.Sprint(n), c, f2(a), f2(a-50), f2(s), f2(a-s), fmt.Sprintf("%.0f, %.0f", f.ScheduleLag[0], f.ScheduleLag[1]))
		}
	}
	p.print(os.Stdout)
}

// open is how late an open loop sends.
func (b *bench) open() {
	p := newTable("Open loop, Poisson: sent - scheduled, us", "requests/s", "client", "p50", "p99")
	for _, rate := range []float64{100, 1000, 3000} {
		for _, c := range []string{"fast", "std"} {
			var p50, p99 []float64
			for range *reps {
				f := b.run(order{Client: c, Rate: rate, Warm: 0.01, Query: "n=4&itl=5000&ttft=5000&mode=0"})
				p50, p99 = append(p50, f.ScheduleLag[0]), append(p99, f.ScheduleLag[1])
			}
			p.row(fmt.Sprint(rate), c, f1(quantile(p50, 0.5)), f1(quantile(p99, 0.5)))
		}
	}
	p.print(os.Stdout)
}

// memory is what a stream costs, beyond 8 bytes a chunk.
func (b *bench) memory() {
	p := newTable("Memory of a stream, KB (beyond 8 bytes a chunk)", "streams", "client", "KB")
	const tokens = 100
	for _, s := range []shape{{streams: 1024, itl: 100_000}, {streams: 4096, itl: 100_000}, {streams: 10_000, itl: 250_000}} {
		for _, c := range []string{"fast", "std"} {
			var kb []float64
			for range *reps {
				// Until the answers are nearly whole: room that was made for chunks
				// which are yet to come would count as the stream's.
				most := tokens * float64(s.itl) / 1e6
				f := b.run(order{Client: c, Streams: s.streams, Query: s.query(tokens), Seconds: 0.85*most - *warm})
				kb = append(kb, f.RSSPerSlot/1024)
			}
			p.row(fmt.Sprint(s.streams), c, f2(quantile(kb, 0.5)))
		}
	}
	p.print(os.Stdout)
}

// allocations are counted over the whole process while a million chunks come in.
func (b *bench) allocations() {
	p := newTable("Allocations of the whole process per chunk", "client", "chunks", "allocations/chunk")
	for _, c := range []string{"fast", "std"} {
		f := b.run(order{Client: c, Streams: 400, Query: "n=4000&itl=10000&ttft=20000&mode=0", Seconds: 26})
		p.row(c, fmt.Sprint(f.Chunks), fmt.Sprintf("%.5f", f.Allocs))
	}
	p.print(os.Stdout)
}

func f1(v float64) string           { return fmt.Sprintf("%.1f", v) }
func f2(v float64) string           { return fmt.Sprintf("%.2f", v) }
func pair(got, want float64) string { return fmt.Sprintf("%.3f (%.3f)", got, want) }
func abs(v float64) float64         { return max(v, -v) }

// A table is aligned text.
type table struct {
	title string
	rows  [][]string
}

func newTable(title string, head ...string) *table { return &table{title, [][]string{head}} }

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) print(w io.Writer) {
	width := map[int]int{}
	for _, r := range t.rows {
		for i, c := range r {
			width[i] = max(width[i], len(c))
		}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "\n%s\n", t.title)
	for _, r := range t.rows {
		b.WriteByte(' ')
		for i, c := range r {
			if i == 0 {
				fmt.Fprintf(&b, " %-*s", width[i], c)
			} else {
				fmt.Fprintf(&b, "  %*s", width[i], c)
			}
		}
		b.WriteByte('\n')
	}
	_, _ = w.Write(b.Bytes())
}
