package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/cmd/sweep/internal/vocabulary"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/planfile"
)

// benchServer returns a vLLM of somebody else, whose model is m.
func benchServer(t *testing.T) *givenServer {
	t.Helper()
	return newGivenServer(t, func(s *givenServer) {
		s.tokenizer, s.metrics, s.delay = "prompt", "vllm:num_requests_running 0\nvllm:time_to_first_token_seconds_count 1\n", 2*time.Millisecond
	})
}

// TestBench: one command makes an ordinary run. It announces what it sends, prints a
// row for each load, and leaves a plan with which sweep run measures the same cells.
func TestBench(t *testing.T) {
	t.Parallel()
	s, dir := benchServer(t), t.TempDir()
	got := sweep(t, dir, nil, "bench", s.URL+"/v1/", "-c", "1,3", "--input", "20", "--output", "4", "--requests", "40",
		"--slo", "p95_ttft_ms < 5000", "--slo", "error_rate == 0", "-o", "out", "--write-plan", "again.yaml")
	// Whether the numbers can be trusted depends on how busy the machine is.
	if got.code != exitOK && got.code != exitIncomplete {
		t.Fatalf("exit %d\n%s\n%s", got.code, got.stdout, got.stderr)
	}
	for _, want := range []string{
		`(?m)^vllm 1\.0, m$`, `(?m)^2 loads, about \d+ s if a token takes 20 ms;$`,
		`(?m)^up to \d+ requests beyond the load, and those for metrics$`,
		`(?m)^  conc +tok/s +/user +TTFT p50 +p95 +TPOT p50 +p95 +reqs$`,
		`(?m)^     1 +[-\d]`, `(?m)^     3 +[-\d]`,
	} {
		if !regexp.MustCompile(want).MatchString(got.stdout) {
			t.Errorf("stdout has no %s:\n%s", want, got.stdout)
		}
	}
	announced := strings.Index(got.stderr, "sends at most 92 requests of 20 input and at most 4 output tokens: 1840 input and 368 output tokens")
	if started := strings.Index(got.stderr, "run directory out"); announced < 0 || started < announced {
		t.Errorf("what is sent is not announced first:\n%s", got.stderr)
	}
	if rows := rowsOf(t, filepath.Join(dir, "out")); len(rows) != 2 {
		t.Errorf("%d rows, want 2", len(rows))
	}
	kept, err := os.ReadFile(filepath.Join(dir, "out", layout.Plan))
	if err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(filepath.Join(dir, "again.yaml"))
	if err != nil || string(written) != string(kept) {
		t.Errorf("the written plan is not that of the run: %v\n%s", err, written)
	}
	if got := sweep(t, dir, nil, "run", "-o", "again", "again.yaml"); got.code != exitOK && got.code != exitIncomplete {
		t.Fatalf("sweep run of the written plan: exit %d\n%s", got.code, got.stderr)
	}
	ids := func(out string) (ids []any) {
		for _, row := range rowsOf(t, filepath.Join(dir, out)) {
			ids = append(ids, row["cell_id"], row["spec_digest"])
		}
		return ids
	}
	if first, second := ids("out"), ids("again"); !slices.Equal(first, second) {
		t.Errorf("the cells of the written plan are %v, those of the run %v", second, first)
	}
	for _, c := range [][]string{{"runs", "out"}, {"cells", "out"}} {
		if got := sweep(t, dir, nil, c...); got.code != exitOK {
			t.Errorf("sweep %s: exit %d\n%s", c[0], got.code, got.stderr)
		}
	}
	if got := sweep(t, dir, nil, "bench", s.URL, "-c", "1", "--requests", "4", "--write-plan", "again.yaml"); got.code != exitUsage || !strings.Contains(got.stderr, "again.yaml is there already") {
		t.Errorf("--write-plan of a file that is there: exit %d\n%s", got.code, got.stderr)
	}
	// Of the server, nothing was changed.
	for _, path := range []string{"POST /reset_prefix_cache", "POST /flush_cache", "GET /health"} {
		if n := s.got()[path]; n > 0 {
			t.Errorf("%s: %d times", path, n)
		}
	}
}

// TestBench_killed: a run that was killed goes on with sweep resume, to the same cells.
func TestBench_killed(t *testing.T) {
	t.Parallel()
	s, dir := benchServer(t), t.TempDir()
	env := []string{"BENCH_TEST_KEY=k3y-0123456789"}
	got := sweep(t, dir, append([]string{"SWEEP_FAULT=commit.journal:after:kill@2"}, env...), "bench", s.URL, "-c", "1,2,3",
		"--input", "20", "--output", "4", "--requests", "10", "--key-env", "BENCH_TEST_KEY", "-o", "out")
	if got.code != -1 {
		t.Fatalf("it was not killed: exit %d\n%s", got.code, got.stderr)
	}
	again := sweep(t, dir, env, "resume", "out")
	if again.code != exitOK && again.code != exitIncomplete {
		t.Fatalf("exit %d\n%s", again.code, again.stderr)
	}
	if !strings.Contains(again.stderr, "of 3 trials are committed already") {
		t.Errorf("resume does not go on:\n%s", again.stderr)
	}
	if rows := rowsOf(t, filepath.Join(dir, "out")); len(rows) != 3 {
		t.Errorf("%d rows, want 3", len(rows))
	}
	err := filepath.WalkDir(filepath.Join(dir, "out"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if strings.Contains(string(b), "k3y-0123456789") {
			t.Errorf("%s has the key", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestBench_refused: what is wrong is said within seconds, with what to do, and nothing
// is measured.
func TestBench_refused(t *testing.T) {
	t.Parallel()
	answers := func(status int, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog, secure.TLS = log.New(io.Discard, "", 0), &tls.Config{MinVersion: tls.VersionTLS12}
	secure.StartTLS()
	t.Cleanup(secure.Close)
	good := benchServer(t).URL
	dir := t.TempDir()
	write(t, filepath.Join(dir, "key"), "k3y-0123456789\n")
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no server":        {[]string{"http://127.0.0.1:1"}, exitIncomplete, "is the server up"},
		"unknown name":     {[]string{"http://server.invalid"}, exitIncomplete, "the name server.invalid does not resolve"},
		"no key":           {[]string{answers(401, "no key")}, exitProvider, "--key-env NAME or --key-file FILE"},
		"wrong path":       {[]string{answers(404, "nothing here")}, exitIncomplete, "path that stands before its /v1"},
		"a web page":       {[]string{answers(200, "<html>Welcome")}, exitIncomplete, `answered "<html>Welcome", which is no list of models`},
		"not ready":        {[]string{answers(503, "loading")}, exitIncomplete, "try again once it answers"},
		"several models":   {[]string{answers(200, `{"data":[{"id":"b"},{"id":"a"}]}`)}, exitUsage, "the server has 2 models: a, b"},
		"no model":         {[]string{answers(200, `{"data":[]}`)}, exitUsage, "--model MODEL names the one"},
		"certificate":      {[]string{secure.URL}, exitIncomplete, "check the host name, the port and the server's certificate"},
		"https and not":    {[]string{strings.Replace(good, "http:", "https:", 1)}, exitIncomplete, "speaks http there"},
		"password":         {[]string{"http://u:s3cr3t-0123@127.0.0.1:1"}, exitUsage, "must not have credentials"},
		"password unread":  {[]string{"http://u:s3cr3t-0123@[::1"}, exitUsage, "not a URL"},
		"metadata":         {[]string{"http://169.254.169.254"}, exitUsage, "--allow-link-local permits it"},
		"no URL":           {nil, exitUsage, "exactly one URL"},
		"no scheme":        {[]string{"127.0.0.1:1/v1"}, exitUsage, "did you mean http://127.0.0.1:1/v1?"},
		"another scheme":   {[]string{"ftp://x"}, exitUsage, "http or https URL"},
		"query":            {[]string{good + "?key=s3cr3t-0123"}, exitUsage, "must end after its path"},
		"no concurrency":   {[]string{good, "-c", "0"}, exitUsage, "want numbers of at least 1"},
		"twice":            {[]string{good, "-c", "2,2"}, exitUsage, "2 is there twice"},
		"no rate":          {[]string{good, "--rate", "nan"}, exitUsage, "want requests per second above 0"},
		"two loops":        {[]string{good, "-c", "1", "--rate", "1"}, exitUsage, "give one of them"},
		"few requests":     {[]string{good, "-c", "1,8", "--requests", "7"}, exitUsage, "want at least 8"},
		"unknown column":   {[]string{good, "--slo", "p95_tft_ms < 3"}, exitUsage, `did you mean "p95_ttft_ms"?`},
		"no tokens":        {[]string{good, "--input", "0"}, exitUsage, "must be at least 1"},
		"key not set":      {[]string{good, "--key-env", "BENCH_NONE"}, exitUsage, "BENCH_NONE is not set"},
		"key of plain":     {[]string{"http://server.invalid", "--key-file", "key"}, exitIncomplete, "over plain http"},
		"directory is not": {[]string{good, "-c", "1", "--requests", "1", "-o", "."}, exitUsage, "not empty"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := sweep(t, dir, nil, append([]string{"bench"}, c.args...)...)
			if got.code != c.code || !strings.Contains(got.stderr, c.want) {
				t.Errorf("exit %d, want %d and %q\n%s%s", got.code, c.code, c.want, got.stdout, got.stderr)
			}
			for _, secret := range []string{"s3cr3t", "k3y-0123456789"} {
				if strings.Contains(got.stderr+got.stdout, secret) {
					t.Errorf("it shows a secret:\n%s", got.stderr)
				}
			}
		})
	}
}

// TestBenchmark_plan: whatever the flags and the server say, the plan is right, and its
// cells are those that were asked for.
func TestBenchmark_plan(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]benchmark{
		"closed":   {Concurrency: []int{1, 8}, Requests: 100},
		"open":     {Rates: []float64{0.5, 2}, Duration: 30 * time.Second},
		"default":  {Concurrency: []int{1, 4, 16}, Requests: benchRequests, Duration: benchDuration},
		"odd":      {Model: "a: b # \"c\" ${HOME}\n", Concurrency: []int{1}, Requests: 9, SLOs: []string{"p95_ttft_ms < 300", "error_rate == 0"}, Command: "a\nb"},
		"key":      {Concurrency: []int{1}, Requests: 9, Key: "PLAN_TEST_TOKEN"},
		"price":    {Concurrency: []int{1}, Requests: 9, USDPerHour: 2.1},
		"a number": {Model: "7", Concurrency: []int{1}, Requests: 9, LinkLocal: true},
	} {
		b.URL, b.Input, b.Output = "http://127.0.0.1:8000/a%20b", "4k", "128"
		if b.Model == "" {
			b.Model = "org/model-7B:free"
		}
		b.Bounded = name != "default"
		for _, b.Engine = range engine.Names() {
			profile, _ := engine.Lookup(b.Engine)
			if profile.Like != "" {
				continue
			}
			p, err := planfile.Parse("bench", ".", []byte(b.plan()), planfile.Options{
				Vocabulary: vocabulary.All(), AllowEnv: []string{b.Key},
				LookupEnv: func(name string) (string, bool) { return "k3y-0123456789", name == b.Key },
			})
			if err != nil {
				t.Errorf("%s, %s: %v\n%s", name, b.Engine, err, b.plan())
				continue
			}
			var loads []string
			for _, c := range p.Cells() {
				if c.Server.Model != b.Model || c.Server.Engine != b.Engine || c.Load.Prompts.InputTokens != 4000 || c.Load.MaxTokens != 128 {
					t.Errorf("%s: %+v", name, c)
				}
				loads = append(loads, fmt.Sprint(amountOf(c.Load)))
			}
			want := strings.Fields(strings.NewReplacer(",", " ").Replace(joined(b.Concurrency) + joined(b.Rates)))
			if price := p.Prices[benchGPU].USDPerHour; price != b.USDPerHour || price > 0 && p.Cells()[0].Server.GPU != benchGPU {
				t.Errorf("%s: $%v an hour, want %v", name, price, b.USDPerHour)
			}
			if !slices.Equal(loads, want) || len(p.SLO) != len(b.SLOs) {
				t.Errorf("%s: loads %v and %d objectives, want %v and %d", name, loads, len(p.SLO), want, len(b.SLOs))
			}
		}
	}
}

func amountOf(l plan.Load) float64 { return max(float64(l.Concurrency), l.RequestRate) }

// TestEngineOf: each engine with metrics is known by them.
func TestEngineOf(t *testing.T) {
	t.Parallel()
	for page, want := range map[string]string{
		"": "", "up 1\n": "",
		"# TYPE x gauge\nvllm:num_requests_running{model_name=\"m\"} 0\nvllm:time_to_first_token_seconds_count 1\n": "vllm",
		"sglang:num_running_reqs 0\nsglang:token_usage 0\n":                                                         "sglang",
		"llamacpp:requests_processing 0\n":                                                                          "llamacpp",
	} {
		if got, _ := engineOf([]byte(page)); got != want {
			t.Errorf("%q: %q, want %q", page, got, want)
		}
	}
	if !slices.Contains(engine.Names(), unknownEngine) {
		t.Errorf("there is no engine %s", unknownEngine)
	}
}
