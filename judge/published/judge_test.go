package published_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"sweep.dev/sweep/judge/published"
)

func recorded(t *testing.T, name string) []byte {
	t.Helper()
	f, err := os.Open("testdata/" + name + ".gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func judged(t *testing.T, data []byte, figure string) published.Verdict {
	t.Helper()
	list, err := published.Of(data, published.Options{Figure: figure})
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 {
		t.Fatalf("%d loads", len(list))
	}
	return list[0]
}

// codes returns the checks of a state.
func codes(v published.Verdict, s published.State) string {
	var list []string
	for _, f := range v.Findings {
		if f.State == s {
			list = append(list, f.Code)
		}
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// TestRecorded: of each tool one file to trust and one not to, as the tools wrote them.
func TestRecorded(t *testing.T) {
	for _, c := range []struct{ file, figure, bad, undecided string }{
		{"vllm.json", "", "", "prefix_cache"},
		{"vllm-bad.json", "", "burst_start coalesced failures_left_out few_samples", "client_bound prefix_cache ramp_in_throughput"},
		{"vllm-chunks.json", "", "burst_start chunks_as_tokens few_samples", "prefix_cache"},
		{"vllm-chunks.json", "mean_t", "", "prefix_cache"},
		{"guidellm.json", "p95", "", "coalesced"},
		{"guidellm.json", "p99", "few_samples", "coalesced"},
		{"guidellm-bad.json", "", "burst_start client_bound failures_left_out few_samples", "coalesced ramp_in_throughput"},
		{"aiperf.json", "p95", "", ""},
		{"aiperf-bad.json", "", "burst_start client_bound coalesced failures_left_out few_samples ramp_in_throughput", ""},
		{"aiperf.csv", "p95", "", "burst_start chunks_as_tokens client_bound more_than_in_flight ramp_in_throughput sent_at_once"},
	} {
		v := judged(t, recorded(t, c.file), c.figure)
		if bad, undecided := codes(v, published.Bad), codes(v, published.Undecided); bad != c.bad || undecided != c.undecided {
			t.Errorf("%s %s: bad %q, undecided %q; want %q, %q\n%+v", c.file, c.figure, bad, undecided, c.bad, c.undecided, v.Findings)
		}
		if v.Trusted() != (c.bad == "") || len(v.Bad)+len(v.Left) == 0 {
			t.Errorf("%s: trusted %v, %d figures", c.file, v.Trusted(), len(v.Bad)+len(v.Left))
		}
	}
}

// TestFigures: a check spoils the figures that rest on what it looks at, and no others.
func TestFigures(t *testing.T) {
	v := judged(t, recorded(t, "vllm-chunks.json"), "")
	for _, b := range v.Bad {
		for code, may := range map[string]func(string) bool{
			"chunks_as_tokens": func(f string) bool { return strings.Contains(f, "_itl_") || f == "max_output_tokens_per_s" },
			"few_samples":      func(f string) bool { return strings.HasPrefix(f, "p99") },
			"burst_start":      func(f string) bool { return f == "p99_ttft_ms" || f == "p99_e2el_ms" },
		} {
			if slices.Contains(b.Codes, code) != may(b.Figure) {
				t.Errorf("%s: %v", b.Figure, b.Codes)
			}
		}
	}
	if !slices.Contains(v.Left, "median_ttft_ms") || !slices.Contains(v.Left, "output_throughput") {
		t.Errorf("left: %v", v.Left)
	}
}

// change returns a recorded result with some keys changed, or without them.
func change(t *testing.T, file string, keys map[string]any) []byte {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal(recorded(t, file), &all); err != nil {
		t.Fatal(err)
	}
	for k, v := range keys {
		if all[k] = v; v == nil {
			delete(all, k)
		}
	}
	data, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestChecks: what each check is told, and what it says of that.
func TestChecks(t *testing.T) {
	aiperf := func(tag string, stats map[string]any) []byte {
		return change(t, "aiperf.json", map[string]any{tag: stats})
	}
	plain := map[string]any{"start_times": nil, "ttfts": nil, "itls": nil}
	with := func(key string, value any) map[string]any {
		m := map[string]any{key: value}
		maps.Copy(m, plain)
		return m
	}
	for name, c := range map[string]struct {
		data  []byte
		code  string
		state published.State
		text  string
	}{
		"cached prompts":      {aiperf("usage_prompt_cache_read_tokens", map[string]any{"sum": 4000}), "prefix_cache", published.Bad, "were in the server's cache"},
		"slots that wait":     {aiperf("credit_to_start_latency", map[string]any{"avg": 400, "p99": 900}), "client_bound", published.Bad, "slots waited"},
		"chunks read at once": {aiperf("inter_chunk_latency", map[string]any{"avg": 50, "p1": 0.1, "p99": 80}), "coalesced", published.Bad, "p1 of the gaps"},
		"few in flight":       {aiperf("effective_concurrency", map[string]any{"avg": 2}), "ramp_in_throughput", published.Bad, "2.00 of 4"},
		"without requests":    {change(t, "vllm.json", plain), "coalesced", published.Undecided, "no gaps"},
		"without a sample":    {change(t, "vllm.json", plain), "client_bound", published.Undecided, "does not say"},
		"the wave by number":  {change(t, "vllm.json", with("max_concurrency", 16)), "burst_start", published.Bad, "16 of 140"},
		"means that differ":   {change(t, "vllm.json", with("mean_itl_ms", 200.0)), "chunks_as_tokens", published.Bad, "times the mean TPOT"},
		"a rate not kept":     {change(t, "vllm.json", map[string]any{"request_rate": 100.0}), "client_bound", published.Bad, "of 100 asked for"},
		"an open loop":        {change(t, "vllm.json", map[string]any{"request_rate": 100.0}), "burst_start", published.OK, "open loop"},
		"a ramp":              {change(t, "vllm.json", map[string]any{"ramp_up_strategy": "linear"}), "burst_start", published.OK, "spread"},
		"some failed":         {change(t, "vllm.json", map[string]any{"failed": 4}), "failures_left_out", published.Bad, "4 of 144"},
		"no word of failures": {change(t, "vllm.json", map[string]any{"failed": nil}), "failures_left_out", published.Undecided, "does not say"},
		"an offline test":     {change(t, "vllm.json", map[string]any{"max_concurrency": nil, "start_times": slices.Repeat([]any{5.0}, 140)}), "sent_at_once", published.Remark, "within 0 ms"},
		"one wave":            {change(t, "vllm.json", with("max_concurrency", 140)), "sent_at_once", published.Remark, "140 requests at concurrency 140"},
		"Little's law":        {change(t, "vllm.json", map[string]any{"mean_e2el_ms": 1200.0}), "more_than_in_flight", published.Remark, "5.42 requests in flight of 4"},
	} {
		v := judged(t, c.data, "")
		i := slices.IndexFunc(v.Findings, func(f published.Finding) bool { return f.Code == c.code })
		if f := v.Findings[i]; f.State != c.state || !strings.Contains(f.Text, c.text) {
			t.Errorf("%s: %s is %s: %s; want %s: %s", name, f.Code, f.State, f.Text, c.state, c.text)
		}
	}
}

// TestImplausible: a figure that cannot be is bad, with those of its family if it is the
// mean, and no other.
func TestImplausible(t *testing.T) {
	ttft := "mean_ttft_ms std_ttft_ms median_ttft_ms p50_ttft_ms p95_ttft_ms"
	for name, c := range map[string]struct {
		keys map[string]any
		text string
		want string // figures
	}{
		"zeros":             {map[string]any{"mean_ttft_ms": 0.0, "median_ttft_ms": 0.0, "p50_ttft_ms": 0.0, "p95_ttft_ms": 0.0, "std_ttft_ms": 0.0}, "mean_ttft_ms is 0", ttft},
		"a zero":            {map[string]any{"median_e2el_ms": 0.0}, "median_e2el_ms is 0", "median_e2el_ms"},
		"no deviation":      {map[string]any{"std_ttft_ms": 0.0}, "no figure is 0", ""},
		"gaps of 0":         {map[string]any{"median_itl_ms": 0.0, "p50_itl_ms": 0.0}, "no figure is 0", ""},
		"less than 0":       {map[string]any{"p95_tpot_ms": -1.0}, "p95_tpot_ms is -1", "p95_tpot_ms"},
		"infinite":          {map[string]any{"output_throughput": "Infinity"}, "output_throughput is infinite", "output_throughput"},
		"no number":         {map[string]any{"p95_ttft_ms": "NaN"}, "p95_ttft_ms is no number", "p95_ttft_ms"},
		"no rate":           {map[string]any{"request_throughput": 0.0}, "request_throughput is 0", "request_throughput"},
		"tokens":            {map[string]any{"output_throughput": 144.0}, "output_throughput is 144, and 2240 output tokens in 31 s are 72.3 (bound 10 %)", "output_throughput"},
		"a long duration":   {map[string]any{"duration": 62.0}, "request_throughput is 4.52, and 140 completed requests in 62 s are 2.26", "output_throughput request_throughput total_token_throughput"},
		"a low percentile":  {map[string]any{"p95_e2el_ms": 700.0}, "p95_e2el_ms is 700 and p50_e2el_ms is 885", "p50_e2el_ms p95_e2el_ms"},
		"a rounded p50":     {map[string]any{"p50_e2el_ms": 885.0}, "no figure is 0", ""},
		"nothing completed": {map[string]any{"completed": 0, "total_input_tokens": 0, "total_output_tokens": 0, "request_throughput": 0.0, "output_throughput": 0.0, "total_token_throughput": 0.0}, "no figure is 0", ""},
	} {
		data := change(t, "vllm.json", c.keys)
		for _, word := range []string{"Infinity", "NaN"} {
			data = bytes.ReplaceAll(data, []byte(`"`+word+`"`), []byte(word)) // as Python writes it
		}
		v := judged(t, data, "")
		i := slices.IndexFunc(v.Findings, func(f published.Finding) bool { return f.Code == "implausible" })
		f := v.Findings[i]
		if got := strings.Join(f.Figures, " "); !strings.Contains(f.Text, c.text) || len(strings.Fields(got)) != len(strings.Fields(c.want)) {
			t.Errorf("%s: %s: %s", name, got, f.Text)
		}
		for want := range strings.FieldsSeq(c.want) {
			if !slices.Contains(f.Figures, want) || slices.Contains(v.Left, want) {
				t.Errorf("%s: %s is not bad: %s", name, want, f.Text)
			}
		}
	}
	zero := change(t, "vllm.json", map[string]any{"mean_itl_ms": 0.0, "median_itl_ms": 0.0})
	if v := judged(t, zero, "median_itl"); len(v.Bad) != 1 {
		t.Errorf("with the mean out of sight: %+v", v)
	}
	inverse := []byte(`{"hw": "h", "conc": 1, "tput_per_gpu": 1.0, "median_intvty": 100.0, "p99_intvty": 50.0}`)
	if v := judged(t, inverse, ""); codes(v, published.Bad) != "" {
		t.Errorf("interactivity: %+v", v)
	}
}

// An InferenceX row, with the keys that its script writes.
const row = `{"hw": "h100", "conc": 64, "model": "m", "framework": "vllm", "tput_per_gpu": 900.0, "output_tput_per_gpu": 450.0,
 "mean_ttft": 0.5, "p99_ttft": 2.0, "mean_tpot": 0.01, "mean_intvty": 100.0, "mean_itl": %v, "p99.9_e2el": 9.0}`

func TestInferenceX(t *testing.T) {
	good, bad := judged(t, []byte(fmt.Sprintf(row, 0.0101)), ""), judged(t, []byte(fmt.Sprintf(row, 0.04)), "")
	if !good.Trusted() || codes(good, published.OK) != "chunks_as_tokens implausible" {
		t.Errorf("%+v", good)
	}
	if codes(bad, published.Bad) != "chunks_as_tokens" || len(bad.Bad) != 1 || bad.Bad[0].Figure != "mean_itl" {
		t.Errorf("%+v", bad)
	}
}

// TestForms: one result, a list of them and a line each are read alike.
func TestForms(t *testing.T) {
	one := bytes.TrimSpace(recorded(t, "vllm.json"))
	for name, data := range map[string][]byte{
		"a list":      []byte("[" + string(one) + ",\n" + string(one) + "]"),
		"by line":     []byte(string(one) + "\n" + string(one) + "\n"),
		"a BOM":       []byte("\ufeff" + string(one) + "\n" + string(one)),
		"lists":       []byte("[" + string(one) + "]\n[" + string(one) + "]"),
		"a bare word": bytes.ReplaceAll([]byte(string(one)+"\n"+string(one)), []byte(`"request_rate": "inf"`), []byte(`"note": "a \"NaN", "request_rate": Infinity`)),
	} {
		list, err := published.Of(data, published.Options{})
		if err != nil || len(list) != 2 || !list[1].Trusted() {
			t.Errorf("%s: %d loads, %v", name, len(list), err)
		}
	}
}

// TestRefused: what is no result file is named with what was found in it.
func TestRefused(t *testing.T) {
	many := "[" + strings.Repeat(fmt.Sprintf(row, 0.01)+",", published.MaxLoads) + fmt.Sprintf(row, 0.01) + "]"
	for text, want := range map[string]string{
		"":                                "it begins with nothing",
		"# a report":                      `it begins with "# a report"`,
		"{":                               "JSON value 1",
		"{}":                              "an object with the keys",
		"[1]":                             "a list of something else",
		"[]":                              "it has no load",
		`{"b": 1, "a": 2}`:                `the keys "a", "b"`,
		`{"metadata": {}, "metrics": {}}`: "name profile_export_aiperf.json",
		many:                              "more than 1000 loads",
		many[1 : len(many)-1]:             "JSON value 2",
		fmt.Sprintf(row, 0.01) + "x":      "JSON value 2",
		`{"hw": "h", "conc": "many", "tput_per_gpu": 1}`: "read as InferenceX",
		`{"benchmarks": [], "metadata": {}}`:             "it has no load",
		"[" + fmt.Sprintf(row, 0.01) + ", 3]":            `item 2: "3"`,
		"[" + fmt.Sprintf(row, 0.01) + "]\n[{}]":         "JSON value 2, before byte 235: item 1 of the list: no result file",
		`{"hw": "h", "conc": NaN, "tput_per_gpu": 1}`:    "conc",
	} {
		if _, err := published.Of([]byte(text), published.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %s", text, err, want)
		}
	}
	_, err := published.Of([]byte("{}"), published.Options{})
	if unknown, ok := errors.AsType[*published.UnknownError](err); !ok || !strings.Contains(unknown.Hint(), "guidellm") {
		t.Errorf("%v has no hint", err)
	}
	if _, err := published.Of(recorded(t, "vllm.json"), published.Options{Figure: "p42"}); err == nil || !strings.Contains(err.Error(), `no figure with "p42"`) {
		t.Errorf("a figure that is not there: %v", err)
	}
}

func FuzzOf(f *testing.F) {
	f.Add([]byte(fmt.Sprintf(row, 0.01)))
	f.Add([]byte(`{"total_token_throughput": 1, "num_prompts": 1, "duration": 0, "completed": 1, "max_concurrency": 1, "start_times": [1], "ttfts": [1], "itls": [[0]], "output_lens": [1], "p99_ttft_ms": 1}`))
	f.Add([]byte("Metric,avg,p99\nTime to First Token (ms),1,2\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := published.Of(data, published.Options{})
		if err != nil {
			return
		}
		if _, err := json.Marshal(list); err != nil {
			t.Fatal(err)
		}
	})
}
