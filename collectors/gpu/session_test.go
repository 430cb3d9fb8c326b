package gpu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/collectors"
	"sweep.dev/sweep/collectors/collectortest"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/gpustate"
	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
)

type run = func(context.Context, ...string) ([]byte, error)

// begin starts a session of targets whose load begins with loaded; its shortest
// interval is tried.
func begin(t *testing.T, c Config, loaded chan struct{}, hosts ...host.Host) (collectors.Session, *collectortest.Sink) {
	t.Helper()
	if c.Interval == 0 {
		c.Interval = 200 * time.Millisecond
	}
	collector, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	trial := collectors.Trial{Anchor: result.NewAnchor(), Loaded: loaded, Authorize: func(h http.Header) { h.Set("Authorization", "Bearer secret") }}
	for i, h := range hosts {
		trial.Targets = append(trial.Targets, collectors.Target{Role: "server", Replica: i, Tier: engine.TierEngine, Host: h})
	}
	sink := new(collectortest.Sink)
	session, err := collector.Start(t.Context(), trial, sink)
	if err != nil {
		t.Fatal(err)
	}
	return session, sink
}

func end(t *testing.T, s collectors.Session) result.Row {
	t.Helper()
	row, err := s.Finish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return row
}

// An old driver refuses the whole query for one field it does not know, twice.
func TestSession_oldDriver(t *testing.T) {
	var queries []string
	h := &collectortest.Host{Run: func(_ context.Context, argv ...string) ([]byte, error) {
		queries = append(queries, argv[1])
		if strings.Contains(argv[1], "reasons") {
			return []byte("Field \"clocks_event_reasons_counters.sw_power_cap\" is not a valid field to query.\n"), errors.New("exit status 2")
		}
		return []byte("0, GPU-1, 470.1, 97, 40, 1000, 16376, 60.5, 55, 1980, Tesla T4\n"), nil
	}}
	session, sink := begin(t, Config{Interval: time.Minute}, nil, h)
	row := end(t, session)
	collectortest.Want(t, row, result.Row{"gpu_uuid": "GPU-1", "driver_version": "470.1", "max_gpu_memory_used_bytes": int64(1000 << 20), "mean_gpu_util": nil})
	if codes := sink.Codes(); len(codes) != 0 {
		t.Errorf("findings: %v", codes)
	}
	// Three questions, the XML that is none, and the last look.
	if len(queries) != 5 || strings.Contains(queries[4], "reasons") {
		t.Errorf("queries: %q", queries)
	}
	raw := string(sink.Artifacts()["scrapes/server-0.nvidia-smi.csv"])
	if lines := strings.Split(strings.TrimSpace(raw), "\n"); len(lines) != 3 || !strings.HasPrefix(lines[0], "t_us, index, uuid") || !strings.HasSuffix(lines[2], "Tesla T4") {
		t.Errorf("raw:\n%s", raw)
	}
}

func TestSession_absent(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		exec run
		text string
	}{
		"no place to run a command": {nil, "no command can be run beside this server"},
		"not supported":             {func(context.Context, ...string) ([]byte, error) { return nil, host.ErrNotSupported }, "no command can be run beside this server"},
		"neither tool":              {func(context.Context, ...string) ([]byte, error) { return nil, errors.New("executable file not found") }, "executable file not found"},
		"no GPU":                    {func(context.Context, ...string) ([]byte, error) { return []byte("No devices were found\n"), nil }, "there is no GPU"},
		"no driver": {func(context.Context, ...string) ([]byte, error) {
			return []byte("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n"), errors.New("exit status 9")
		}, "nvidia-smi cannot reach the driver"},
	} {
		t.Run(name, func(t *testing.T) {
			session, sink := begin(t, Default, nil, &collectortest.Host{Run: tt.exec})
			if diff := cmp.Diff(emptyRow(), end(t, session)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if codes := sink.Codes(); !slices.Equal(codes, []finding.Code{finding.GPUMetricsMissing}) {
				t.Errorf("findings: %v", codes)
			}
			if text := sink.Notes()[0].Text; text != "no GPU was watched: "+tt.text {
				t.Errorf("%q", text)
			}
		})
	}
}

// If there is no nvidia-smi there may be an amd-smi, with names from its list
// and processes from its own command.
func TestSession_amd(t *testing.T) {
	h := &collectortest.Host{Pids: func() []int { return []int{42} }, Run: func(_ context.Context, argv ...string) ([]byte, error) {
		switch strings.Join(argv, " ") {
		case "amd-smi metric --json":
			return os.ReadFile("../../internal/gpustate/testdata/amdsmi__banner.json")
		case "amd-smi list --json":
			return []byte(`[{"gpu": 0, "uuid": "u0"}, {"gpu": 1, "uuid": "u1"}]`), nil
		case "amd-smi process --json":
			return []byte(`[{"gpu": 0, "process_list": "No running processes"}, {"gpu": 1, "process_list": [{"process_info": {"pid": 42}}, {"process_info": {"pid": 43}}, {"process_info": "N/A"}]}]`), nil
		}
		return nil, errors.New("executable file not found")
	}}
	session, sink := begin(t, Config{}, nil, h)
	row := end(t, session)
	collectortest.Want(t, row, result.Row{"gpu_uuid": "u1", "gpu_foreign_processes": int64(1), "max_gpu_memory_used_bytes": int64(49148 << 20)})
	if codes := sink.Codes(); !slices.Contains(codes, finding.GPUForeign) {
		t.Errorf("findings: %v", codes)
	}
	if files := sink.Artifacts(); len(files["scrapes/server-0.amd-smi.json"]) == 0 || len(files["scrapes/server-0.amd-smi-process.json"]) == 0 {
		t.Errorf("files: %v", len(files))
	}
}

// Two replicas on one machine are one question; a third server without a GPU is
// a finding, a router without one is none.
func TestSession_replicas(t *testing.T) {
	t.Parallel()
	var asked [4]atomic.Int64
	answer := func(i int, out string) *collectortest.Host {
		return &collectortest.Host{Run: func(context.Context, ...string) ([]byte, error) {
			asked[i].Add(1)
			if out == "" {
				return nil, errors.New("executable file not found")
			}
			return []byte(out), nil
		}}
	}
	const line = "0, %s, 590, 97, 40, 1000, 16376, 60.5, 55, 1980, NVIDIA L4\n"
	one := fmt.Sprintf(line, "GPU-a")
	loaded := make(chan struct{})
	session, sink := begin(t, Config{}, loaded, answer(0, one), answer(1, one), answer(2, fmt.Sprintf(line, "GPU-b")), answer(3, ""))
	before := asked[1].Load()
	close(loaded)
	polltest.Until(t, "looks at two machines", func() bool { return asked[0].Load() > 8 && asked[2].Load() > 8 })
	row := end(t, session)
	if asked[1].Load() != before {
		t.Error("the same machine is looked at twice")
	}
	collectortest.Want(t, row, result.Row{"gpu_uuid": "GPU-a,GPU-b", "max_gpu_memory_used_bytes": int64(2000 << 20), "mean_gpu_power_w": 121.0, "mean_gpu_util": 97.0})
	if notes := sink.Notes(); len(notes) != 1 || notes[0].Code != finding.GPUMetricsPartial || !strings.Contains(notes[0].Text, "1 of 4 servers") {
		t.Errorf("findings: %v", notes)
	}

	trial := collectortest.Trial(answer(0, one))
	trial.Targets = append(trial.Targets, collectors.Target{Role: "router", Tier: engine.TierRouter, Host: answer(3, "")})
	c, err := New(Default)
	if err != nil {
		t.Fatal(err)
	}
	sink = new(collectortest.Sink)
	if session, err = c.Start(t.Context(), trial, sink); err != nil {
		t.Fatal(err)
	}
	end(t, session)
	if codes := sink.Codes(); len(codes) != 0 {
		t.Errorf("findings: %v", codes)
	}
}

// A GPU that nothing changes on is a finding, and so is one that gets too hot.
func TestSession_findings(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		line func(look int64) string
		want []finding.Code
	}{
		"at rest": {func(int64) string {
			return "0, 0, 0, 0, 0x1, 15000, 300, N/A, 9001, 70, 70, 2130, 0, GPU-1, 590, 0, 0, 10, 16376, 20, 30, 210, A\n"
		}, []finding.Code{finding.GPUIdle}},
		"hot": {func(look int64) string {
			return fmt.Sprintf("0, %d, 0, 0, 0x20, 15000, 300, N/A, 9001, 70, 70, 2130, 0, GPU-1, 590, 90, 0, 9000, 16376, 20, 90, 210, A\n", 100_000*look)
		}, []finding.Code{finding.GPUThrottled}},
		"well": {func(int64) string {
			return "0, 0, 0, 0, 0x4, 15000, 300, N/A, 9001, 70, 70, 2130, 0, GPU-1, 590, 90, 0, 9000, 16376, 20, 90, 210, A\n"
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var looks atomic.Int64
			h := &collectortest.Host{Run: func(_ context.Context, argv ...string) ([]byte, error) {
				if argv[1] == "-q" {
					return nil, errors.New("exit status 1")
				}
				return []byte(tt.line(looks.Add(1))), nil
			}}
			session, sink := begin(t, Config{}, nil, h)
			polltest.Until(t, "looks", func() bool { return looks.Load() >= 6 })
			end(t, session)
			if codes := sink.Codes(); !slices.Equal(codes, tt.want) {
				t.Errorf("findings: %v", codes)
			}
		})
	}
}

// An exporter gets no key, and looks that fail are counted.
func TestSession_exporter(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("the exporter got the server's key")
		}
		switch n.Add(1) {
		case 2:
			w.WriteHeader(http.StatusInternalServerError)
		case 3:
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		default:
			b, _ := os.ReadFile("../../internal/gpustate/testdata/exporter__dcgm.prom")
			_, _ = w.Write(b)
		}
	}))
	defer server.Close()
	port := 0
	if _, err := fmt.Sscanf(server.URL, "http://127.0.0.1:%d", &port); err != nil {
		t.Fatal(err)
	}
	h := &collectortest.Host{Base: "http://127.0.0.1:1"} // only its network is used
	for _, c := range []Config{{Source: Exporter, Port: port}, {Source: Auto, URL: server.URL + "/metrics"}} {
		n.Store(0)
		session, sink := begin(t, c, nil, h)
		polltest.Until(t, "looks", func() bool { return n.Load() >= 5 })
		row := end(t, session)
		collectortest.Want(t, row, result.Row{"gpu_uuid": "GPU-a,GPU-b", "driver_version": "590.48.01", "max_gpu_util": 87.0})
		if notes := sink.Notes(); len(notes) != 1 || !strings.HasPrefix(notes[0].Text, "2 of ") || !strings.HasSuffix(notes[0].Text, "the last with: status 302") {
			t.Errorf("findings: %v", notes)
		}
	}
}

// streamHost samples its GPUs itself.
type streamHost struct {
	*collectortest.Host
	open func() io.ReadCloser
}

func (h *streamHost) Samples(ctx context.Context, _ int64) (io.ReadCloser, error) {
	r := h.open()
	if r == nil {
		return nil, host.ErrNotSupported
	}
	context.AfterFunc(ctx, func() { r.Close() })
	return r, nil
}

// Where a host streams, no command is run between the first and the last look;
// what the pod kept from before is not this trial's, and its clock is another.
func TestSession_stream(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	base := &collectortest.Host{Run: func(_ context.Context, argv ...string) ([]byte, error) {
		if argv[1] == "-q" {
			return nil, errors.New("exit status 1")
		}
		asked.Add(1)
		return []byte("0, 0, 0, 0, 0x0, 15000, 300, N/A, 9001, 70, 70, 2130, 0, GPU-1, 590, 0, 0, 9000, 16376, 20, 30, 210, A\n"), nil
	}}
	r, w := io.Pipe()
	loaded := make(chan struct{})
	watched, sink := begin(t, Config{}, loaded, &streamHost{base, func() io.ReadCloser { return r }})
	line := func(ago time.Duration, busy int) string {
		return fmt.Sprintf("%s, 0, GPU-1, A, %d, 1, 9100, 16376, 100.00, 40, 1980, 9001\n", time.Now().Add(3*time.Hour-ago).Format("2006/01/02 15:04:05.000"), busy)
	}
	write := func(s string) {
		if _, err := io.WriteString(w, s); err != nil {
			t.Fatal(err)
		}
	}
	write(line(time.Hour, 55) + line(time.Minute, 55) + line(0, 1)) // kept by the pod
	seen := func(n int) func() bool {
		return func() bool {
			count := 0
			for _, s := range sink.Samples() {
				if s.Name == gpustate.Util {
					count++
				}
			}
			return count >= n
		}
	}
	polltest.Until(t, "the first row", seen(2))
	before := asked.Load()
	close(loaded)
	polltest.Until(t, "rows are of later than the load's begin", func() bool {
		s := watched.(*session)
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.window.begun && s.trial.Anchor.Since() > s.window.start+2*time.Millisecond // a row's clock has milliseconds
	})
	row := line(0, 80)
	write(row[:20])
	write(row[20:] + "2026/")
	polltest.Until(t, "a row under load", seen(3))
	if got := asked.Load(); got != before {
		t.Errorf("%d looks beside the stream", got-before)
	}
	columns := end(t, watched)
	collectortest.Want(t, columns, result.Row{"mean_gpu_util": 80.0, "max_gpu_memory_used_bytes": int64(9100 << 20), "gpu_uuid": "GPU-1"})
	for _, s := range sink.Samples() {
		if s.Name == gpustate.Util && s.Value == 55 {
			t.Errorf("a row from before the trial: %+v", s)
		}
	}
}

// A stream that is none leaves the looks.
func TestSession_noStream(t *testing.T) {
	t.Parallel()
	base := &collectortest.Host{Run: func(context.Context, ...string) ([]byte, error) {
		return []byte("0, GPU-1, 590, 70, 0, 9000, 16376, 20, 30, 210, A\n"), nil
	}}
	for name, open := range map[string]func() io.ReadCloser{
		"not supported": func() io.ReadCloser { return nil },
		"garbage":       func() io.ReadCloser { return io.NopCloser(strings.NewReader("garbage, 1\n2, 3\n")) },
		"no line ends":  func() io.ReadCloser { return io.NopCloser(strings.NewReader(strings.Repeat("x", 1<<18))) },
	} {
		t.Run(name, func(t *testing.T) {
			session, sink := begin(t, Config{}, nil, &streamHost{base, open})
			polltest.Until(t, "a look", func() bool { return len(sink.Samples()) > 20 })
			collectortest.Want(t, end(t, session), result.Row{"mean_gpu_util": 70.0})
		})
	}
}

func TestNew_rejects(t *testing.T) {
	for _, c := range []Config{
		{},
		{Interval: time.Millisecond},
		{Interval: time.Hour},
		{Interval: time.Second, Source: "dcgm"},
		{Interval: time.Second, Source: Exporter},
		{Interval: time.Second, Source: HTTP},
		{Interval: time.Second, Source: NvidiaSMI, Port: 9400},
		{Interval: time.Second, Source: Exporter, Port: 9400, URL: "/metrics"},
		{Interval: time.Second, Source: Exporter, Port: 70000},
		{Interval: time.Second, Source: Exporter, URL: "ftp://x/"},
		{Interval: time.Second, Source: Exporter, URL: "http://me:secret@x/"},
		{Interval: time.Second, Source: Exporter, URL: "localhost:9400"},
	} {
		_, err := New(c)
		if err == nil {
			t.Errorf("accepted %+v", c)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%v", err)
		}
	}
}

// The agent that runs commands in a pod may be up a moment after its engine.
func TestSession_lateAgent(t *testing.T) {
	t.Parallel()
	refused := 2
	h := &collectortest.Host{Run: func(context.Context, ...string) ([]byte, error) {
		if refused--; refused >= 0 {
			return nil, fmt.Errorf("agent: dial tcp 127.0.0.1:8081: %w", syscall.ECONNREFUSED)
		}
		return []byte("0, GPU-1, 590, 70, 0, 9000, 16376, 20, 30, 210, A\n"), nil
	}}
	session, sink := begin(t, Config{}, make(chan struct{}), h)
	collectortest.Want(t, end(t, session), result.Row{"gpu_uuid": "GPU-1"})
	if codes := sink.Codes(); len(codes) != 0 {
		t.Errorf("findings: %v", codes)
	}
}

// A process of the deployment that ends while a look is taken is no stranger.
func TestSession_shortLived(t *testing.T) {
	t.Parallel()
	var looks atomic.Int64
	h := &family{Host: &collectortest.Host{Run: func(context.Context, ...string) ([]byte, error) {
		pids := "<process_info><pid>7</pid></process_info>"
		if looks.Load() <= 2 {
			pids += "<process_info><pid>8</pid></process_info>"
		}
		looks.Add(1) // with the third, 8 has ended
		return []byte("<nvidia_smi_log><gpu><uuid>GPU-a</uuid><fb_memory_usage><used>9 MiB</used></fb_memory_usage><processes>" + pids + "</processes></gpu></nvidia_smi_log>"), nil
	}}}
	h.pids = func() []int {
		if looks.Load() > 2 {
			return []int{7}
		}
		return []int{7, 8}
	}
	session, _ := begin(t, Config{Source: NvidiaSMIXML}, nil, h)
	polltest.Until(t, "looks", func() bool { return looks.Load() >= 5 })
	collectortest.Want(t, end(t, session), result.Row{"gpu_foreign_processes": int64(0)})
}

// A family is a host whose processes are known.
type family struct {
	*collectortest.Host
	pids func() []int
}

func (h *family) PIDs() []int { return h.pids() }
