package serverlog

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/executor/serving"
	"sweep.dev/sweep/internal/secret"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
)

// A stackOf is a deployment that was found, whose logs are the files of a folder.
type stackOf struct {
	backends.Deployment
	dir string
}

func (s stackOf) CatchUp(context.Context) {}

func (s stackOf) Logs() (all []backends.Log) {
	paths, _ := filepath.Glob(filepath.Join(s.dir, "*.log"))
	for _, p := range paths {
		name, _, previous := strings.Cut(strings.TrimSuffix(filepath.Base(p), ".log"), ".previous-")
		of := strings.Split(name, ".")
		all = append(all, backends.Log{Path: p, Role: of[0], Pod: of[1], Container: of[2], Previous: previous})
	}
	return all
}

// Ids of the recorded requests, as a client of ours would have given them.
var ours = strings.NewReplacer(
	"710a2ee7-fb67-4151-a3b9-56ad753fb55a", "c0ffee-t01-a01-s0-n3", "0c5b7a1e-2f64-4e0d-9a3b-5d1f6a7c8e90", "c0ffee-t01-a01-s0-n12",
)

// recordedLogs returns the recorded logs of a stack, with changes of their lines.
func recordedLogs(t *testing.T, change func(name, text string) string) (*Logs, string) {
	t.Helper()
	dir := t.TempDir()
	paths, err := filepath.Glob("../../engine/loglines/testdata/pd/*.log")
	if err != nil || len(paths) != 4 {
		t.Fatal(paths, err)
	}
	for _, p := range paths {
		text, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(p)), []byte(change(filepath.Base(p), string(text))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	profile, _ := engine.Lookup("llm-d")
	return New(&serving.Server{Deployment: stackOf{dir: dir}, Roles: []backends.Role{{Name: "prefill", Replicas: 1}, {Name: "decode", Replicas: 1}}}, profile), dir
}

func measured(numbers ...int) (all []result.Request) {
	for _, n := range numbers {
		all = append(all, result.Request{N: n, Phase: result.Plateau, Status: result.Completed})
	}
	return all
}

// The logs of llm-d tell where each request went, and what the router decided.
func TestWays(t *testing.T) {
	l, _ := recordedLogs(t, func(_, text string) string { return ours.Replace(text) })
	r, ways, err := l.Routing("c0ffee-t01-a01")
	if err != nil {
		t.Fatal(err)
	}
	if got := r.String(); got != "prefill 2 (2); decode 2 (2); picked_prefill 2 (2); picked_decode 2 (2)" {
		t.Errorf("routing %s", got)
	}
	if way := r.Requests["c0ffee-t01-a01-s0-n12"]; way["prefill"] != "pd-prefill-0" || way["picked_decode"] != "pd-decode-0" {
		t.Errorf("a request went %v", way)
	}
	want := result.Way{Prefill: "pd-prefill-0", Decode: "pd-decode-0", PickedPrefill: "pd-prefill-0", PickedDecode: "pd-decode-0", Decision: result.PrefillDecode}
	requests := measured(3, 12, 13)
	ways.Set(requests)
	if requests[0].Way == nil || *requests[0].Way != want || requests[2].Way != nil {
		t.Errorf("ways %+v, %+v", requests[0].Way, requests[2].Way)
	}
	if len(ways.Moved) != 2 || ways.Moved[Key{0, 3}] != "pd-decode-0" || len(ways.Unprinted) > 0 {
		t.Errorf("moved %v, unprinted %v", ways.Moved, ways.Unprinted)
	}
	if _, missing := ways.Missing(requests[:2]); missing {
		t.Error("something of two whole ways is missing")
	}
	if f, missing := ways.Missing(requests); !missing || f.Code != finding.RoutingUnknown || !strings.Contains(f.Text, "of 1 of 3 requests") {
		t.Errorf("finding %+v", f)
	}
}

// What a stack does not print, or prints of other ids, is said; and nothing is made up.
func TestWays_unknown(t *testing.T) {
	quiet := func(name, text string) string {
		if strings.HasPrefix(name, "router") || strings.Contains(name, "routing-proxy") {
			return ""
		}
		return ours.Replace(strings.ReplaceAll(text, " DEBUG ", " TRACE "))
	}
	l, _ := recordedLogs(t, func(name, text string) string {
		var kept []string
		for line := range strings.Lines(quiet(name, text)) {
			if !strings.Contains(line, " TRACE ") {
				kept = append(kept, line)
			}
		}
		return strings.Join(kept, "")
	})
	_, ways, err := l.Routing("c0ffee-t01-a01")
	if err != nil {
		t.Fatal(err)
	}
	if way := ways.Of[Key{0, 3}]; way == nil || *way != (result.Way{Prefill: "pd-prefill-0", Decode: "pd-decode-0"}) {
		t.Errorf("way %+v", way)
	}
	f, missing := ways.Missing(measured(3, 12))
	if !missing || !strings.Contains(f.Text, "of 2 of 2 requests") || !strings.Contains(f.Text, "router picked the prefill pod (the endpoint picker at -v=4)") || strings.Contains(f.Text, "Finished recving") {
		t.Errorf("finding %+v", f)
	}
	if needs := ways.Needs(); !strings.Contains(needs, "Finished recving") || !strings.Contains(needs, "VLLM_LOGGING_LEVEL=DEBUG") {
		t.Errorf("needs %s", needs)
	}

	l, _ = recordedLogs(t, func(_, text string) string { return text }) // the gateway's own ids
	r, ways, err := l.Routing("c0ffee-t01-a01")
	if err != nil || r != nil || len(ways.Of) > 0 || !ways.Renamed {
		t.Errorf("routing %v, ways %+v: %v", r, ways, err)
	}
	if f, missing := ways.Missing(measured(3)); !missing || !strings.Contains(f.Text, "preserve_external_request_id") {
		t.Errorf("finding %+v", f)
	}
}

// Lines without the id of a request were printed, and are no sign of a gateway that renames.
func TestWays_nameless(t *testing.T) {
	nameless := regexp.MustCompile(`"x-request-id":"[^"]*",`)
	l, _ := recordedLogs(t, func(_, text string) string { return nameless.ReplaceAllString(ours.Replace(text), "") })
	_, ways, err := l.Routing("c0ffee-t01-a01")
	if err != nil || ways.Renamed || len(ways.Unprinted) > 0 {
		t.Fatalf("ways %+v: %v", ways, err)
	}
	const want = "of 2 of 2 requests the logs do not tell the whole way; printed without the id of a request: router picked the decode pod; router picked the prefill pod"
	if f, missing := ways.Missing(measured(3, 12)); !missing || f.Text != want {
		t.Errorf("finding %+v", f)
	}
}

// A router that picks no prefill server has decided so; without its lines nothing is known.
func TestWays_decodeOnly(t *testing.T) {
	l, _ := recordedLogs(t, func(name, text string) string {
		var kept []string
		for line := range strings.Lines(ours.Replace(text)) {
			if !strings.Contains(line, "-n3") || !strings.Contains(line, `"llm-d.ai/role":"prefill"`) && !strings.HasPrefix(name, "prefill") {
				kept = append(kept, line)
			}
		}
		return strings.Join(kept, "")
	})
	_, ways, err := l.Routing("c0ffee-t01-a01")
	if err != nil {
		t.Fatal(err)
	}
	if way := ways.Of[Key{0, 3}]; way == nil || way.Decision != result.DecodeOnly || way.Prefill != "" || way.Decode != "pd-decode-0" {
		t.Errorf("way %+v", way)
	}
	if f, missing := ways.Missing(measured(3, 12)); missing {
		t.Errorf("finding %+v", f)
	}
}

// An attempt keeps what was printed since the mark, without noise and secrets.
func TestKeep(t *testing.T) {
	l, dir := recordedLogs(t, func(_, text string) string { return text })
	l.Mark(t.Context())
	const router = "router.pd-epp-0.epp.log"
	add := func(name, text string) {
		t.Helper()
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	add(router, "2026-08-26T22:00:00Z {\"msg\":\"Refreshed metrics\"}\n2026-08-26T22:00:01Z token sk-12345678 taken\n2026-08-26T22:00:02Z {\"msg\":\"Refreshed metrics\"}\n")
	add("decode.pd-decode-0.modelserver.previous-0.log", "2026-08-26T22:00:00Z CUDA error: out of memory\n")
	kept := map[string]string{}
	err := l.Keep(secret.NewMask([]secret.String{secret.New("${K}", "sk-12345678")}), func(name string, write func(io.Writer) error) error {
		var b strings.Builder
		err := write(&b)
		kept[name] = b.String()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(kept) != 2 || kept["logs/decode.pd-decode-0.modelserver.previous-0.log"] != "2026-08-26T22:00:00Z CUDA error: out of memory\n" {
		t.Errorf("kept %q", kept)
	}
	if got, want := kept["logs/"+router], "2026-08-26T22:00:01Z token ${K} taken\n2026-08-26T22:00:02Z sweep: lines of noise left out: 2\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// dynamoLogs are recorded logs of Dynamo with our ids in place of the client's, and with
// changes of their lines.
func dynamoLogs(t *testing.T, from, engineName string, change func(name, line string) string) *Logs {
	t.Helper()
	dir := t.TempDir()
	paths, err := filepath.Glob("../../engine/loglines/testdata/" + from + "/*.log")
	if err != nil || len(paths) != 3 {
		t.Fatal(paths, err)
	}
	ids := strings.NewReplacer("5f443848-0eda-46d6-a5fe-a293deb30e11", "c0ffee-t01-a01-s0-n3", "5f443848-0eda-46d6-a5fe-a293deb30e22", "c0ffee-t01-a01-s0-n12")
	for _, p := range paths {
		text, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		var all strings.Builder
		for line := range strings.Lines(ids.Replace(string(text))) {
			all.WriteString(change(filepath.Base(p), line))
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(p)), []byte(all.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	profile, ok := engine.Lookup(engineName)
	if !ok {
		t.Fatalf("there is no %s", engineName)
	}
	return New(&serving.Server{Deployment: stackOf{dir: dir}, Roles: []backends.Role{{Name: "prefill", Replicas: 1}, {Name: "decode", Replicas: 1}, {Name: "frontend", Replicas: 1}}}, profile)
}

func same(_, line string) string { return line }

// Dynamo's own ids of requests and workers are joined to ours and to the pods: by both of
// its forms of lines, and of a frontend that picks workers by turns.
func TestWays_dynamo(t *testing.T) {
	want := result.Way{Prefill: "disagg-prefill-0", Decode: "disagg-decode-0", PickedPrefill: "disagg-prefill-0", PickedDecode: "disagg-decode-0", Decision: result.PrefillDecode}
	for _, from := range []string{"dynamo", "dynamo-jsonl", "dynamo-turns"} {
		r, ways, err := dynamoLogs(t, from, "dynamo-disagg", same).Routing("c0ffee-t01-a01")
		if err != nil {
			t.Fatal(err)
		}
		if len(ways.Of) != 2 || *ways.Of[Key{0, 3}] != want || *ways.Of[Key{0, 12}] != want {
			t.Errorf("%s: ways %+v of %d", from, ways.Of[Key{0, 3}], len(ways.Of))
		}
		if got := r.String(); got != "prefill 2 (2); decode 2 (2); picked_prefill 2 (2); picked_decode 2 (2)" {
			t.Errorf("%s: routing %s", from, got)
		}
		if needs := ways.Needs(); ways.Renamed || len(ways.Moved) > 0 || len(ways.Unprinted) != 1 || !strings.Contains(needs, "mock workers move no cache") {
			t.Errorf("%s: %+v, needs %s", from, ways.Unprinted, needs)
		}
		if _, missing := ways.Missing(measured(3, 12)); missing {
			t.Errorf("%s: something of two whole ways is missing", from)
		}
	}
}

// Without the frontend's lines no id of Dynamo is known to be one of ours, and the finding
// says what prints them.
func TestWays_dynamoUnknown(t *testing.T) {
	l := dynamoLogs(t, "dynamo", "dynamo-disagg", func(name, line string) string {
		if strings.HasPrefix(name, "frontend") {
			return ""
		}
		return line
	})
	r, ways, err := l.Routing("c0ffee-t01-a01")
	if err != nil || len(ways.Of) > 0 || ways.Renamed || r == nil || len(r.Requests) > 0 {
		t.Fatalf("ways %+v, routing %+v: %v", ways, r, err)
	}
	f, missing := ways.Missing(measured(3))
	if !missing || !strings.Contains(f.Text, "frontend took the request, and gave it an id of its own (the frontend with DYN_LOG=info, its default") {
		t.Errorf("finding %+v", f)
	}
	// A worker whose log has nothing: it is not known which pod its id is.
	l = dynamoLogs(t, "dynamo", "dynamo-disagg", func(name, line string) string {
		if strings.HasPrefix(name, "prefill") {
			return ""
		}
		return line
	})
	_, ways, err = l.Routing("c0ffee-t01-a01")
	if err != nil {
		t.Fatal(err)
	}
	if way := ways.Of[Key{0, 3}]; way == nil || *way != (result.Way{Decode: "disagg-decode-0", PickedDecode: "disagg-decode-0", Decision: result.PrefillDecode}) {
		t.Errorf("way %+v", way)
	}
	// A gateway that gives requests ids of its own.
	l = dynamoLogs(t, "dynamo", "dynamo-disagg", func(_, line string) string { return strings.ReplaceAll(line, "c0ffee-t01-a01", "other") })
	if _, ways, err = l.Routing("c0ffee-t01-a01"); err != nil || !ways.Renamed {
		t.Errorf("ways %+v: %v", ways, err)
	}
}

// Where one kind of worker does both, the router picks one, and nothing of a prefill is
// missing.
func TestWays_dynamoTogether(t *testing.T) {
	l := dynamoLogs(t, "dynamo", "dynamo", func(name, line string) string {
		if strings.HasPrefix(name, "prefill") || strings.Contains(line, "Selected worker") && strings.Contains(line, "=\x1b[0mprefill") {
			return ""
		}
		return strings.ReplaceAll(line, "3034735782752379581", "12647254487701359042")
	})
	_, ways, err := l.Routing("c0ffee-t01-a01")
	if err != nil {
		t.Fatal(err)
	}
	if way := ways.Of[Key{0, 3}]; way == nil || *way != (result.Way{Decode: "disagg-decode-0", PickedDecode: "disagg-decode-0", Decision: result.DecodeOnly}) {
		t.Errorf("way %+v", way)
	}
	if _, missing := ways.Missing(measured(3, 12)); missing || len(ways.Unprinted) > 0 {
		t.Errorf("missing: %+v", ways.Unprinted)
	}
}
