package loglines_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/engine/loglines"
)

func llmd(t *testing.T) *loglines.Reader {
	t.Helper()
	p, ok := engine.Lookup("llm-d")
	if !ok {
		t.Fatal("there is no llm-d")
	}
	return loglines.NewReader(&p.Logs)
}

// each calls take for the lines of a folder of logs: ROLE.POD.CONTAINER.log.
func each(t *testing.T, dir string, take func(s loglines.Source, at loglines.Stamp, text string)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.Split(filepath.Base(file), ".")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			when, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
			at, err := loglines.ParseStamp(time.RFC3339Nano, when)
			if err != nil {
				t.Fatal(err)
			}
			take(loglines.Source{Role: name[0], Pod: name[1], Container: name[2]}, at, rest)
		}
	}
}

func tell(t *testing.T, dir, request string, without ...string) loglines.Timeline {
	t.Helper()
	return told(t, llmd(t), request, func(s *loglines.Story) {
		each(t, dir, func(source loglines.Source, at loglines.Stamp, text string) {
			s.Reads(source)
			if !slices.ContainsFunc(without, func(w string) bool { return strings.Contains(text, w) }) {
				s.Add(source, at, text)
			}
		})
	})
}

// told returns a request by lines that can be read.
func told(t *testing.T, r *loglines.Reader, request string, read func(*loglines.Story)) loglines.Timeline {
	t.Helper()
	g, err := r.Tell(request, func(s *loglines.Story) error {
		read(s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func steps(g loglines.Timeline) string {
	var b strings.Builder
	for _, s := range g.Steps {
		fmt.Fprintf(&b, "%s %s/%s %s", s.Time.Format("05.0000"), s.Pod, s.Container, s.Event)
		for _, v := range s.Values {
			fmt.Fprintf(&b, " %s=%s", v.Name, v.Value)
		}
		if s.Of > 0 {
			fmt.Fprintf(&b, " (of %d)", s.Of)
		}
		b.WriteByte('\n')
	}
	for _, m := range g.Missing {
		fmt.Fprintf(&b, "missing %s: %s\n", m.Event, m.Why)
	}
	return b.String()
}

// The story of one request of two that follow each other through the same pods.
func TestStory(t *testing.T) {
	t.Parallel()
	const want = `21.0001 pd-epp-0/epp assembled
21.0009 pd-epp-0/epp decode_picked pod=pd-decode-0-rank-0 address=10.0.2.5 score=1
21.0014 pd-epp-0/epp prefill_picked pod=pd-prefill-0-rank-0 address=10.0.1.7 score=0.9967988
21.0034 pd-decode-0/routing-proxy prefill_sent url=10.0.1.7:8000 (of 1)
21.0050 pd-prefill-0/modelserver prefill_received
21.0819 pd-decode-0/routing-proxy prefill_answered remote_block_ids=[8,9,10,11] remote_engine_id=5f443848-0eda-46d6-a5fe-a293deb30eca remote_host=10.0.1.7 remote_port=5600 (of 1)
21.0821 pd-decode-0/routing-proxy decode_sent to=http://localhost:8200 (of 1)
21.0840 pd-decode-0/modelserver decode_received
21.0855 pd-decode-0/modelserver kv_load remote_engine_id=5f443848-0eda-46d6-a5fe-a293deb30eca local_blocks=4 remote_blocks=4
21.0880 pd-decode-0/modelserver handshake_metadata seconds=0.0025545399985276163 (of 1)
23.3790 pd-decode-0/modelserver handshake_agent seconds=2.2907175269938307 (of 1)
23.3910 pd-decode-0/modelserver kv_received
23.3950 pd-prefill-0/modelserver kv_sent
30.0000 pd-decode-0/modelserver kv_metrics transfers=2 avg_ms=9.4 avg_mb=256.5 (of 1)
`
	for _, id := range []string{"710a2ee7-fb67-4151-a3b9-56ad753fb55a", "chatcmpl-710a2ee7-fb67-4151-a3b9-56ad753fb55a"} {
		g := tell(t, "testdata/pd", id)
		if got := steps(g); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", id, got, want)
		}
	}
	// The second one has no handshake: the other's is not taken for its own.
	g := tell(t, "testdata/pd", "0c5b7a1e-2f64-4e0d-9a3b-5d1f6a7c8e90")
	if got := steps(g); strings.Contains(got, "handshake") || !strings.Contains(got, "25.5034 pd-decode-0/routing-proxy prefill_sent") || !strings.Contains(got, "score=0.75") ||
		!strings.Contains(got, "remote_block_ids=[8,9] ") {
		t.Errorf("got\n%s", got)
	}
}

// llm-d of May 2025: no line of the router and of the sidecar names the request.
func TestStory_old(t *testing.T) {
	t.Parallel()
	const want = `20.0100 epp-0/epp assembled (of 1)
20.0120 epp-0/epp prefill_filter plugin=prefill_filter (of 1)
20.0200 epp-0/epp prefill_picked pod=llama-prefill-0 address=10.128.13.52 score=0 (of 1)
20.0220 epp-0/epp decode_filter plugin=decode_filter (of 1)
20.0240 epp-0/epp scorer plugin=load-based-scorer (of 2)
20.0300 epp-0/epp decode_picked pod=llama-decode-0 address=10.131.10.180 score=0 (of 1)
20.0775 llama-decode-0/routing-proxy prefill_sent url=http://10.128.13.52:8000 (of 1)
20.0850 llama-prefill-0/vllm prefill_received
20.0999 llama-decode-0/routing-proxy prefill_answered remote_block_ids=[1,2,3,4] remote_engine_id=81eb3201-d5c2-4642-8131-7849f2e955ce remote_host=10.128.13.52 remote_port=5557 (of 1)
20.1000 llama-decode-0/routing-proxy decode_sent (of 1)
20.1100 llama-decode-0/vllm decode_received
20.1200 llama-decode-0/vllm kv_load remote_engine_id=81eb3201-d5c2-4642-8131-7849f2e955ce local_blocks=4 remote_blocks=4
22.4100 llama-decode-0/vllm handshake_metadata seconds=0.0025545399985276163 (of 1)
22.4110 llama-decode-0/vllm handshake_agent seconds=2.2907175269938307 (of 1)
22.4200 llama-decode-0/vllm kv_received
44.0800 llama-prefill-0/vllm kv_sent
`
	if got := steps(tell(t, "testdata/old", "cmpl-0dec7ca2-42c8-4b79-a753-d355181114f2-0")); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// The filters and scorers of the router are steps.
func TestStory_scored(t *testing.T) {
	t.Parallel()
	const want = `21.0001 pd-epp-0/epp assembled
21.0002 pd-epp-0/epp decode_filter plugin=decode-filter/decode-filter
21.0003 pd-epp-0/epp filtered pods=1
21.0003 pd-epp-0/epp scorer plugin=queue-scorer/queue-scorer
21.0003 pd-epp-0/epp scored plugin=queue-scorer/queue-scorer pod=pd-decode-0-rank-0 score=0.25
21.0009 pd-epp-0/epp decode_picked pod=pd-decode-0-rank-0 address=10.0.2.5 score=0.25
21.0010 pd-epp-0/epp prefill_filter plugin=prefill-filter/prefill-filter
21.0010 pd-epp-0/epp filter plugin=has-capacity/sheddable-filter
21.0011 pd-epp-0/epp filter_emptied plugin=has-capacity/sheddable-filter pods_before=2
21.0011 pd-epp-0/epp filtered pods=0
missing`
	if got := steps(tell(t, "testdata/scored", "710a2ee7-fb67-4151-a3b9-56ad753fb55a")); !strings.HasPrefix(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A line that was printed without the id of a request was printed.
func TestStory_nameless(t *testing.T) {
	t.Parallel()
	const id = "710a2ee7-fb67-4151-a3b9-56ad753fb55a"
	read := func(without ...string) func(*loglines.Story) {
		return func(s *loglines.Story) {
			each(t, "testdata/pd", func(source loglines.Source, at loglines.Stamp, text string) {
				if source.Role == "router" {
					text = nameless.ReplaceAllString(text, "")
				}
				if !slices.ContainsFunc(without, func(w string) bool { return strings.Contains(text, w) }) {
					s.Add(source, at, text)
				}
			})
		}
	}
	// The sidecar's line of the request shows which line of the router is its own.
	got := steps(told(t, llmd(t), id, read()))
	if !strings.HasPrefix(got, "21.0001 pd-epp-0/epp assembled (of 1)\n21.0009 pd-epp-0/epp decode_picked pod=pd-decode-0-rank-0 address=10.0.2.5 score=1 (of 1)\n") || strings.Contains(got, "missing") {
		t.Errorf("got\n%s", got)
	}
	got = steps(told(t, llmd(t), id, read("sending prefill request")))
	for _, event := range []string{"assembled", "prefill_picked", "decode_picked"} {
		if want := "missing " + event + ": printed without a request's id (2 lines), so no line can be joined to this request\n"; !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if !strings.Contains(got, "missing prefill_sent: not printed: it needs") {
		t.Errorf("got\n%s", got)
	}
}

// nameless finds the id of a request in a line of the router.
var nameless = regexp.MustCompile(`"x-request-id":"[^"]*",`)

// Lines with whole seconds are joined with those of other logs by their seconds, and stand in
// the order of their logs and of the steps.
func TestStory_wholeSeconds(t *testing.T) {
	t.Parallel()
	const id = "cmpl-0dec7ca2-42c8-4b79-a753-d355181114f2-0"
	r := llmd(t)
	g := told(t, r, id, func(s *loglines.Story) {
		each(t, "testdata/old", func(source loglines.Source, _ loglines.Stamp, text string) {
			s.Add(source, r.OwnTime(text, time.Date(2025, 6, 1, 0, 0, 0, 0, time.UTC)), text)
		})
	})
	var got []string
	for _, step := range g.Steps {
		if whole := step.Container != "routing-proxy"; step.WholeSecond != whole || step.Time.Year() != 2025 {
			t.Errorf("%s: whole second %v, %v", step.Event, step.WholeSecond, step.Time)
		}
		got = append(got, step.Event)
	}
	const want = "assembled prefill_filter prefill_picked decode_filter scorer decode_picked prefill_sent prefill_received prefill_answered decode_sent decode_received kv_load handshake_metadata handshake_agent kv_received kv_sent"
	if strings.Join(got, " ") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, " "), want)
	}
	// A line of the second after the one of the anchor is not before it.
	g = told(t, r, id, func(s *loglines.Story) {
		each(t, "testdata/old", func(source loglines.Source, _ loglines.Stamp, text string) {
			text = strings.ReplaceAll(text, "I0509 19:26:20", "I0509 19:26:21")
			s.Add(source, r.OwnTime(text, time.Date(2025, 6, 1, 0, 0, 0, 0, time.UTC)), text)
		})
	})
	if got := steps(g); strings.Contains(got, "prefill_sent url") {
		t.Errorf("got\n%s", got)
	}
}

// The lines of one log keep its order, also where its clock goes back or is another one's.
func TestStory_orderOfLogs(t *testing.T) {
	t.Parallel()
	const id = "c0ffee-t01-a01-s0-n3"
	at := time.Date(2026, 8, 26, 21, 59, 20, 0, time.UTC)
	decode, prefill := loglines.Source{Role: "decode", Pod: "d"}, loglines.Source{Role: "prefill", Pod: "p"}
	events := func(add func(s *loglines.Story)) string {
		var all []string
		for _, step := range told(t, llmd(t), id, add).Steps {
			all = append(all, step.Event)
		}
		return strings.Join(all, " ")
	}
	const load = "start_load_kv for request " + id + " from remote engine e. Num local_block_ids: 4. Num remote_block_ids: 4."
	ms := func(n int) loglines.Stamp { return loglines.Stamp{Time: at.Add(time.Duration(n) * time.Millisecond)} }
	second := func(n int) loglines.Stamp { return loglines.Stamp{Time: ms(1000 * n).Time, Whole: true} }
	for name, c := range map[string]struct {
		add  func(s *loglines.Story)
		want string
	}{
		"equal times": {func(s *loglines.Story) {
			s.Add(decode, ms(0), load)
			s.Add(decode, ms(0), "Received request "+id+": x")
		}, "kv_load decode_received"},
		"back": {func(s *loglines.Story) {
			s.Add(prefill, ms(7), "Received request "+id+": x")
			s.Add(decode, ms(9), "Received request "+id+": x")
			s.Add(decode, ms(5), load)
		}, "prefill_received decode_received kv_load"},
		// Between two lines of its log a whole second is narrower.
		"narrow": {func(s *loglines.Story) {
			s.Add(decode, second(0), load)
			s.Add(decode, ms(300), "Finished recving KV transfer for request "+id)
			s.Add(prefill, ms(500), "Received request "+id+": x")
		}, "kv_load kv_received prefill_received"},
		"later second": {func(s *loglines.Story) {
			s.Add(decode, second(1), "Received request "+id+": x")
			s.Add(prefill, ms(999), "Finished sending KV transfer for request "+id)
		}, "kv_sent decode_received"},
	} {
		if got := events(c.add); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// What a stack does not print is missing, with what would print it; and of two lines that
// fit, the story says that there are two.
func TestStory_missing(t *testing.T) {
	t.Parallel()
	const id = "710a2ee7-fb67-4151-a3b9-56ad753fb55a"
	// A stack at its default verbosity.
	got := steps(tell(t, "testdata/pd", id, `"level":"debug"`, `"level":"trace"`, "DEBUG", "Received request"))
	if got != `missing assembled: not printed: it needs the endpoint picker at -v=4
missing prefill_picked: not printed: it needs the endpoint picker at -v=4
missing decode_picked: not printed: it needs the endpoint picker at -v=4
missing prefill_sent: not printed: it needs the sidecar at --zap-log-level=4 (before 0.4: -v=5)
missing prefill_received: not printed: it needs vLLM with --enable-log-requests
missing prefill_answered: not printed: it needs the sidecar at --zap-log-level=5 (before 0.4, -v=5), which prints whole prompts too
missing decode_sent: not printed: it needs the sidecar at --zap-log-level=4 (before 0.4: -v=5)
missing decode_received: not printed: it needs vLLM with --enable-log-requests
missing kv_load: not printed: it needs VLLM_LOGGING_LEVEL=DEBUG of the decode server
missing kv_received: not printed: it needs VLLM_LOGGING_LEVEL=DEBUG of the decode server
missing kv_sent: not printed: it needs VLLM_LOGGING_LEVEL=DEBUG of the prefill server
` {
		t.Errorf("got\n%s", got)
	}
	got = steps(told(t, llmd(t), id, func(s *loglines.Story) {
		each(t, "testdata/pd", func(source loglines.Source, at loglines.Stamp, text string) {
			if source.Container == "routing-proxy" && strings.Contains(text, "sending prefill request") && at.Second() == 21 {
				s.Add(source, loglines.Stamp{Time: at.Add(-time.Millisecond)}, text) // of another request at the same time
			}
			if source.Role != "prefill" {
				s.Add(source, at, text)
			}
		})
	}))
	if !strings.Contains(got, "prefill_sent url=10.0.1.7:8000 (of 2)") || !strings.Contains(got, "missing kv_sent: no log of prefill was read") {
		t.Errorf("got\n%s", got)
	}
}

// The lines that people filter by hand today, and those that only look like them.
func TestNoise(t *testing.T) {
	t.Parallel()
	r := llmd(t)
	decode := loglines.Source{Role: "decode", Pod: "p", Container: "vllm"}
	for _, c := range []struct {
		source loglines.Source
		text   string
		want   bool
	}{
		{decode, `INFO:     10.0.0.9:1 - "GET /metrics HTTP/1.1" 200 OK`, true},
		{decode, `INFO:     10.0.0.9:1 - "GET /metrics HTTP/1.1" 500 Internal Server Error`, false},
		{decode, `Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 0.0 tokens/s, Running: 0 reqs`, true},
		{decode, `Avg prompt throughput: 0.0 tokens/s`, true},
		{decode, `Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 61.2 tokens/s, Running: 1 reqs`, false},
		{loglines.Source{Role: "router", Container: "epp"}, `{"level":"Level(-5)","msg":"Refreshed metrics"}`, true},
		{loglines.Source{Role: "router", Container: "epp"}, `{"msg":"Failed to refreshed metrics"}`, true},
		{loglines.Source{Role: "router", Container: "main"}, `{"msg":"gRPC health check serving"}`, true},
		{loglines.Source{Role: "router", Container: "epp"}, `{"msg":"Refreshing Prometheus Metrics"}`, true},
		{loglines.Source{Role: "decode", Container: "routing-proxy"}, `http: proxy error: dial tcp [::1]:8001: connect: connection refused`, true},
		{loglines.Source{Role: "decode", Container: "routing-proxy"}, `http: proxy error: dial tcp 10.0.0.1:8000: connect: connection refused`, false},
		{decode, `Refreshed metrics`, false},
		{loglines.Source{Role: "server", Container: "x"}, `Refreshed metrics`, true},
	} {
		if got := r.Noise(c.source, c.text); got != c.want {
			t.Errorf("%+v %q: %v", c.source, c.text, got)
		}
	}
}

// A line's own time lacks the year, which is the one that is nearest.
func TestOwnTime(t *testing.T) {
	t.Parallel()
	r := llmd(t)
	near := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		`{"level":"info","ts":"2026-08-26T21:59:21Z","msg":"x"}`:                 "2026-08-26T21:59:21Z",
		`I0509 19:43:44.077499       1 chat_completions.go:110] "x"`:             "2026-05-09T19:43:44.077499Z",
		`(EngineCore pid=1) DEBUG 12-31 19:26:20 [nixl_connector.py:559] x`:      "2025-12-31T19:26:20Z",
		`INFO 02-29 19:26:20 [logger.py:39] x`:                                   "2024-02-29T19:26:20Z",
		`INFO:     10.131.10.180:44514 - "POST /v1/completions HTTP/1.1" 200 OK`: "0001-01-01T00:00:00Z",
	} {
		if got := r.OwnTime(text, near).Format(time.RFC3339Nano); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
