package loglines_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/engine/loglines"
)

// storyOf tells a request from the logs of a folder by the patterns of an engine.
func storyOf(t *testing.T, name, dir, request string) string {
	t.Helper()
	p, ok := engine.Lookup(name)
	if !ok {
		t.Fatalf("there is no %s", name)
	}
	return steps(told(t, loglines.NewReader(&p.Logs), request, func(s *loglines.Story) {
		each(t, dir, s.Add)
	}))
}

// Dynamo 1.6.1 with mock workers, as its frontend and workers wrote it at their default
// level. Its lines have Dynamo's own id of the request, and few of them the client's.
func TestStory_dynamo(t *testing.T) {
	t.Parallel()
	const mine, own = "5f443848-0eda-46d6-a5fe-a293deb30e11", "fa728809-b5c2-4dfd-96be-81cf5e9226c4"
	story := func(other string) string {
		return `13.0882 disagg-frontend-0/main received alias=` + other + `
13.0891 disagg-frontend-0/main prefill_picked worker=3034735782752379581 logit=0.640625
13.0897 disagg-prefill-0/main prefill_received worker=3034735782752379581
13.1074 disagg-prefill-0/main prefill_done
13.1080 disagg-frontend-0/main decode_picked worker=12647254487701359042 logit=0.0
13.1086 disagg-decode-0/main decode_received worker=12647254487701359042
13.1322 disagg-decode-0/main decode_done
13.1327 disagg-frontend-0/main completed status=success elapsed_ms=44 alias=` + other + ` prefill_worker=3034735782752379581 decode_worker=12647254487701359042
missing kv_received: not printed: it needs decode workers of vLLM with VLLM_LOGGING_LEVEL=DEBUG; mock workers move no cache
`
	}
	for asked, other := range map[string]string{mine: own, own: mine} {
		if got, want := storyOf(t, "dynamo-disagg", "testdata/dynamo", asked), story(other); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", asked, got, want)
		}
	}
	// The answer of a completion puts something before Dynamo's id.
	if got := storyOf(t, "dynamo-disagg", "testdata/dynamo", "chatcmpl-"+own); !strings.Contains(got, "alias="+mine) || !strings.Contains(got, "decode_done") {
		t.Errorf("got\n%s", got)
	}
	// Another request of the same seconds.
	if got := storyOf(t, "dynamo-disagg", "testdata/dynamo", "sweep-abc-12"); strings.Contains(got, own) || strings.Count(got, "prefill_received") != 1 || strings.Count(got, "decode_done") != 1 {
		t.Errorf("got\n%s", got)
	}
	// And one whose id is a part of that one's.
	p, _ := engine.Lookup("dynamo-disagg")
	g := told(t, loglines.NewReader(&p.Logs), "sweep-abc-1", func(s *loglines.Story) { each(t, "testdata/dynamo", s.Add) })
	if len(g.Steps) > 0 || g.Named > 0 {
		t.Errorf("sweep-abc-1 is told as sweep-abc-12: %d lines name it\n%s", g.Named, steps(g))
	}
}

// Of many requests the one that was asked for is told whole, wherever the log stands that has
// both of its ids.
func TestStory_many(t *testing.T) {
	t.Parallel()
	const many = 13_000 // of eight lines each: more than there is room for
	p, _ := engine.Lookup("dynamo-disagg")
	r := loglines.NewReader(&p.Logs)
	at := time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)
	source := func(role string) loglines.Source {
		return loglines.Source{Role: role, Pod: role + "-0", Container: "main"}
	}
	log := func(s *loglines.Story, of loglines.Source, lines ...string) {
		for n := range many {
			own, mine := fmt.Sprintf("00000000-0000-4000-8000-%012d", n), fmt.Sprintf("c0ffee-t01-a01-s0-n%d", n)
			for i, line := range lines {
				line = strings.ReplaceAll(strings.ReplaceAll(line, "OWN", own), "MINE", mine)
				s.Add(of, loglines.Stamp{Time: at.Add(time.Duration(n*len(lines)+i) * time.Microsecond)}, line)
			}
		}
	}
	workers := func(s *loglines.Story) {
		for _, role := range []string{"prefill", "decode"} {
			log(s, source(role),
				`INFO push_handler: request received request_id=OWN component="`+role+`" endpoint="generate" instance_id=7`,
				`INFO push_handler: request completed request_id=OWN component="`+role+`" endpoint="generate"`)
		}
	}
	frontend := func(s *loglines.Story) {
		log(s, source("frontend"),
			`INFO http-request: request received request_id=OWN model=tiny method=POST x_request_id="MINE"`,
			`INFO selector: Selected worker request_id="OWN" worker_id=7 worker_type=prefill logit=0.6`,
			`INFO selector: Selected worker request_id="OWN" worker_id=8 worker_type=decode logit=0.0`,
			`INFO http-request: request completed request_id=OWN model=tiny status=success elapsed_ms=44 x_request_id="MINE" prefill_worker_id=7 decode_worker_id=8`)
	}
	for name, read := range map[string]func(*loglines.Story){
		"the workers first": func(s *loglines.Story) { workers(s); frontend(s) },
		"the frontend":      func(s *loglines.Story) { frontend(s); workers(s) },
	} {
		g := told(t, r, fmt.Sprintf("c0ffee-t01-a01-s0-n%d", many-1), read)
		if len(g.Steps) != 8 || g.Dropped > 0 {
			t.Errorf("%s: %d steps, %d dropped\n%s", name, len(g.Steps), g.Dropped, steps(g))
		}
	}
}

// A log that cannot be read is an error.
func TestTell_unreadable(t *testing.T) {
	t.Parallel()
	bad := errors.New("no such log")
	if _, err := llmd(t).Tell("c0ffee-t01-a01-s0-n1", func(*loglines.Story) error { return bad }); !errors.Is(err, bad) {
		t.Error(err)
	}
}

// The same with DYN_LOGGING_JSONL=1, and of a frontend that picks workers by turns.
func TestStory_dynamoForms(t *testing.T) {
	t.Parallel()
	const want = "received prefill_picked prefill_received prefill_done decode_picked decode_received decode_done completed"
	for dir, want := range map[string]string{
		"testdata/dynamo-jsonl": want,
		"testdata/dynamo-turns": strings.ReplaceAll(strings.ReplaceAll(want, "prefill_picked ", ""), "decode_picked ", ""),
	} {
		got := storyOf(t, "dynamo-disagg", dir, "5f443848-0eda-46d6-a5fe-a293deb30e11")
		var events []string
		for line := range strings.Lines(got) {
			if f := strings.Fields(line); f[0] != "missing" {
				events = append(events, f[2])
			}
		}
		if strings.Join(events, " ") != want {
			t.Errorf("%s:\n%s", dir, got)
		}
		if !strings.Contains(got, "completed ") || !strings.Contains(got, "prefill_worker=") || !strings.Contains(got, "decode_worker=") {
			t.Errorf("%s:\n%s", dir, got)
		}
	}
}

// A request of SGLang has another rid on each of two servers that prefill and decode apart,
// and one room.
func TestStory_sglang(t *testing.T) {
	t.Parallel()
	const want = `50.0000 prefill-0/sglang prefill_received alias=31c9952e7f0c44fa94ddbeec39b006a3
50.0010 decode-0/sglang decode_received alias=32b8f521b1ec468a98cb5d2da98654e2
51.0000 prefill-0/sglang prefill_sent alias=4073374190146881990 bootstrap_ms=0.32 forward_ms=8348.19 gb_s=1.25 mb=12.50
52.0000 decode-0/sglang decode_done alias=4073374190146881990 transfer_ms=22.77 forward_ms=1321.16
`
	if got := storyOf(t, "sglang", "testdata/sglang", "c0ffee-t01-a01-s0-n3"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	const failed = `13.0000 decode-0/sglang decode_transfer_failed rank=5 alias=41ffeddd069d40b8b7efd4dc64585ebb failure=KVTransferError(bootstrap_room=887504041590801090): Failed to get kvcache from prefill instance, it might be dead
`
	if got := storyOf(t, "sglang", "testdata/sglang", "887504041590801090"); !strings.HasPrefix(got, failed) || strings.Contains(got, "gb_s") {
		t.Errorf("got\n%s\nwant\n%s", got, failed)
	}
	p, _ := engine.Lookup("sglang")
	r := loglines.NewReader(&p.Logs)
	if at := r.OwnTime("[2026-09-24 01:47:50.616 DP3 TP3 EP3] x", time.Time{}); at.Format("15:04:05.000") != "01:47:50.616" {
		t.Errorf("time %s", at)
	}
	if !r.Noise(loglines.Source{Role: "decode"}, `[2026-09-24 01:47:50] INFO:     10.0.0.1:1 - "GET /metrics HTTP/1.1" 200 OK`) {
		t.Error("a page of metrics is of interest")
	}
}

// Lines of Dynamo say nothing of interest if they are about a page of metrics, or about a
// router that asks for the state of a cache.
func TestNoise_dynamo(t *testing.T) {
	t.Parallel()
	p, _ := engine.Lookup("dynamo")
	r := loglines.NewReader(&p.Logs)
	noise := map[string]int{}
	for _, dir := range []string{"testdata/dynamo", "testdata/dynamo-jsonl"} {
		each(t, dir, func(source loglines.Source, _ loglines.Stamp, text string) {
			if r.Noise(source, text) {
				noise[dir+" "+source.Role]++
			}
		})
	}
	for _, of := range []string{"testdata/dynamo frontend", "testdata/dynamo prefill", "testdata/dynamo-jsonl frontend", "testdata/dynamo-jsonl prefill"} {
		if n := noise[of]; n == 0 || n > 3 {
			t.Errorf("%s: %d lines say nothing", of, n)
		}
	}
	for text, want := range map[string]bool{
		"\x1b[2mhttp response sent\x1b[0m status\x1b[0;2m=\x1b[0m200 latency_ms=\x1b[38;5;1m1\x1b[0m": true,
		"http response sent status=200 latency_ms=1\x1b[0":                                            true, // cut off
		"http response sent status=200 latency_ms=\x1b[\n1":                                           false,
	} {
		if got := r.Noise(loglines.Source{Role: "frontend"}, text); got != want {
			t.Errorf("%q says nothing: %v", text, got)
		}
	}
	if at := r.OwnTime("\x1b[2m2026-11-26T05:36:13.088266Z\x1b[0m \x1b[32m INFO\x1b[0m x", time.Time{}); at.Second() != 13 {
		t.Errorf("time %s", at)
	}
}
