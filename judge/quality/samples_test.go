package quality

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The fixtures are what lm-evaluation-harness 0.4.13 wrote with --log_samples, against two
// servers of which the second has the sums 1+7 and 4+7 wrong. Its task has two filters; the
// last answer of both servers has no ####.
func TestOpenSamples(t *testing.T) {
	open := func(name, filter string) *Samples {
		s, err := OpenSamples(filepath.Join("testdata/lm_eval", name), "exact_match", filter)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	auto, fp8 := open("auto.jsonl", "strict-match"), open("fp8.jsonl", "strict-match")
	var got []string
	for _, a := range fp8.List {
		got = append(got, fmt.Sprintf("%s %v %s", a.Item, *a.Right, *a.Text))
	}
	if s, want := strings.Join(got, "|"), "0 true 7|1 false 9|2 true 9|3 true 10|4 false 12|5 false [invalid]"; s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
	if s := Summarize(fp8.List, 0.95); s.Scored != 6 || s.Right != 3 || s.Unknown+s.Refused+s.Cut+s.Repeated != 0 {
		t.Errorf("%+v", s)
	}
	if c := Compare(auto.List, fp8.List, 1); c.Pairs != 6 || c.Losses != 2 || c.Gains != 0 || c.Texts != 6 || c.Same != 4 || c.Verdict != CannotTell {
		t.Errorf("%+v", c)
	}
	if s := Summarize(open("auto.jsonl", "flexible-extract").List, 0.95); s.Right != 6 {
		t.Errorf("by the other filter: %+v", s)
	}
	if len(auto.SHA256) != 64 || auto.SHA256 == fp8.SHA256 {
		t.Errorf("digests %q and %q", auto.SHA256, fp8.SHA256)
	}
	if auto.Set == "" || auto.Set != fp8.Set || auto.Set == open("auto.jsonl", "flexible-extract").Set {
		t.Errorf("what was asked: %q, %q", auto.Set, fp8.Set)
	}
	var tasks Tasks
	for name, s := range map[string]*Samples{"auto": auto, "fp8": fp8} {
		if err := tasks.Add(name, s); err != nil {
			t.Error(err)
		}
	}
	if _, err := OpenSamples("testdata/lm_eval/auto.jsonl", "exact_match", ""); err == nil ||
		!strings.HasPrefix(err.Error(), "testdata/lm_eval/auto.jsonl:7: each item is there with the filters strict-match and flexible-extract: name one") {
		t.Errorf("no filter: %v", err)
	}
}

// Metrics are numbers or true and false, and a text is one that is alone.
func TestReadSamples(t *testing.T) {
	for line, want := range map[string]string{
		`{"doc_id": 3, "acc": 1.0, "filtered_resps": [["-1.5", "False"], ["-2.5", "True"]]}`: "3 true -",
		`{"doc_id": 3, "acc": 0, "filtered_resps": [["-1.5", "False"]]}`:                     "3 false -",
		`{"doc_id": 3, "acc": true, "filtered_resps": [["a"]], "filter": "none"}`:            "3 true a",
		`{"doc_id": 3, "acc": false, "filtered_resps": ["a"]}`:                               "3 false a",
		`{"doc_id": 3, "acc": 1, "filtered_resps": [null]}`:                                  "3 true -",
		`{"doc_id": 3, "acc": 1, "filtered_resps": "a"}`:                                     "3 true -",
		`{"doc_id": 3, "acc": 1, "filtered_resps": ["a", "b"]}`:                              "3 true -",
		`{"doc_id": 3, "acc": 1}`:                                                            "3 true -",
	} {
		s, _, err := ReadSamples(strings.NewReader("\n"+line+"\n"), "acc", "")
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		a, text := s.List[0], "-"
		if a.Text != nil {
			text = *a.Text
		}
		if got := fmt.Sprintf("%s %v %s", a.Item, *a.Right, text); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
		if s := Summarize(s.List, 0.95); s.Scored != 1 || s.Unknown != 0 {
			t.Errorf("%s: %+v", line, s)
		}
	}
	long := strings.Repeat("é", MaxTextBytes/2) + "é"
	s, _, err := ReadSamples(strings.NewReader(`{"doc_id": 0, "acc": 1, "filtered_resps": ["a`+long+`"]}`), "acc", "")
	if err != nil || len(*s.List[0].Text) != MaxTextBytes-1 {
		t.Errorf("a long text: %v", err)
	}
}

func TestReadSamples_refuses(t *testing.T) {
	good := `{"doc_id": 0, "acc": 1, "filter": "none"}` + "\n"
	var many strings.Builder
	for i := range MaxItems + 1 {
		fmt.Fprintf(&many, `{"doc_id": %d, "acc": 1}`+"\n", i)
	}
	for _, c := range []struct{ text, want string }{
		{"", "0: no sample in it"},
		{"\n\n", "0: no sample in it"},
		{good + "[1]", "2: no JSON object"},
		{good + `{"doc_id": 1, "acc": 1`, "2: no JSON object"},
		{`{"results": {"acc": 1}}`, "1: no number doc_id: take the samples_TASK_DATE.jsonl"},
		{`{"doc_id": null, "acc": 1}`, "1: no number doc_id"},
		{`{"doc_id": "a", "acc": 1}`, "1: no number doc_id"},
		{good + good, "2: doc_id 0 is on line 1 too: take the file of one run"},
		{good + `{"doc_id": 1, "f1": 0.5, "filter": "none", "metrics": ["f1", "em"]}`, "2: no metric acc in this sample, and this task has f1, em: name one"},
		{`{"doc_id": 0, "acc": 0.42, "metrics": ["acc", "em"]}`, "1: the metric acc is 0.42 here: a paired test needs one that is 0 or 1 for each item, such as exact_match or acc, and this task has acc, em"},
		{`{"doc_id": 0, "acc": 2}`, "1: the metric acc is 2 here"},
		{`{"doc_id": 0, "acc": null}`, "1: the metric acc is no number here"},
		{`{"doc_id": 0, "acc": "1"}`, "1: the metric acc is no number here"},
		{`{"doc_id": 0, "acc": [-3, 7]}`, "1: the metric acc is no number here"},
		{`{"doc_id": 0, "acc": NaN}`, "1: no JSON object"},
		{good + `{"doc_id": 0, "acc": 1, "filter": "other"}`, "2: each item is there with the filters none and other: name one"},
		{many.String(), "5001: more than 5000 items: run lm-eval with --limit 5000"},
		{good + `{"doc_id": 1, "x": "` + strings.Repeat("a", MaxSampleBytes) + `"}`, "2: line over 16777216 bytes"},
	} {
		_, line, err := ReadSamples(strings.NewReader(c.text), "acc", "")
		if got := fmt.Sprintf("%d: %v", line, err); !strings.HasPrefix(got, c.want) {
			t.Errorf("%.60q: %s, want %s", c.text, got, c.want)
		}
	}
	if _, _, err := ReadSamples(strings.NewReader(good), "acc", "strict"); err == nil || err.Error() != `no sample of the filter "strict": quality.lm_eval.filter can be none` {
		t.Errorf("another filter: %v", err)
	}
	name := filepath.Join(t.TempDir(), "large.jsonl")
	if err := os.WriteFile(name, []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, MaxSamplesBytes+1); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenSamples(name, "acc", ""); err == nil || !strings.Contains(err.Error(), "large.jsonl: it is too large") {
		t.Errorf("a large file: %v", err)
	}
}

// Under one doc_id each file has one document and one prompt, whatever the order.
func TestTasks(t *testing.T) {
	read := func(hashes ...string) *Samples {
		var b strings.Builder
		for i := 0; i < len(hashes); i += 3 {
			fmt.Fprintf(&b, `{"doc_id": %s, "doc_hash": %q, "prompt_hash": %q, "acc": 1}`+"\n", hashes[i], hashes[i+1], hashes[i+2])
		}
		s, _, err := ReadSamples(strings.NewReader(b.String()), "acc", "")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	base := read("0", "d0", "p0", "1", "d1", "p1")
	for _, c := range []struct {
		other *Samples
		want  string
	}{
		{read("1", "d1", "p1", "0", "d0", "p0"), ""},
		{read("1", "d1", "p1", "2", "d2", "p2"), ""},
		{read("0", "d0", "p0", "1", "x", "p1"), "b:2: doc_id 1 is another document than in a:2: take files of the same task"},
		{read("1", "d1", "x"), "b:1: doc_id 1 has another prompt than in a:2: run lm-eval with the same --num_fewshot"},
	} {
		var tasks Tasks
		if err := tasks.Add("a", base); err != nil {
			t.Fatal(err)
		}
		if err := tasks.Add("b", c.other); (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// The set is the same whatever was answered and in which order, and another one if any of what
// was asked is. It is not known without all hashes.
func TestSamples_Set(t *testing.T) {
	read := func(metric, filter string, lines ...string) string {
		s, _, err := ReadSamples(strings.NewReader(strings.Join(lines, "\n")), metric, filter)
		if err != nil {
			t.Fatal(err)
		}
		return s.Set
	}
	line := func(id int, hash, prompt string, right int) string {
		return fmt.Sprintf(`{"doc_id": %d, "doc_hash": %q, "prompt_hash": %q, "filter": "none", "acc": %d, "em": %d}`, id, hash, prompt, right, right)
	}
	want := read("acc", "", line(0, "a", "p", 1), line(1, "b", "p", 0))
	if want == "" {
		t.Fatal("no set")
	}
	for name, got := range map[string]string{
		"other answers": read("acc", "", line(0, "a", "p", 0), line(1, "b", "p", 0)),
		"another order": read("acc", "", line(1, "b", "p", 0), line(0, "a", "p", 1)),
		"the filter":    read("acc", "none", line(0, "a", "p", 1), line(1, "b", "p", 0)),
	} {
		if got != want {
			t.Errorf("%s: another set", name)
		}
	}
	for name, got := range map[string]string{
		"another document": read("acc", "", line(0, "x", "p", 1), line(1, "b", "p", 0)),
		"another prompt":   read("acc", "", line(0, "a", "x", 1), line(1, "b", "p", 0)),
		"one more":         read("acc", "", line(0, "a", "p", 1), line(1, "b", "p", 0), line(2, "c", "p", 0)),
		"another metric":   read("em", "", line(0, "a", "p", 1), line(1, "b", "p", 0)),
	} {
		if got == want || got == "" {
			t.Errorf("%s: the set is %q", name, got)
		}
	}
	if got := read("acc", "", line(0, "a", "p", 1), line(1, "b", "", 0)); got != "" {
		t.Errorf("without a hash: %q", got)
	}
}

// Answers of lm-eval are to their set, whatever the files are; those of older runs are not
// known.
func TestHeader_Asked(t *testing.T) {
	for want, h := range map[string]Header{
		"d": {Digest: "d"},
		"s": {Digest: "d", Source: FromLMEval, Set: "s"},
		"":  {Digest: "d", Source: FromLMEval},
	} {
		if got := h.Asked(); got != want {
			t.Errorf("%+v: %q, want %q", h, got, want)
		}
	}
}

// The files are what lm-evaluation-harness 0.4.13 logged of vLLM with a model of random weights
// in two formats (tools/lm-eval/samples.sh): the likelihoods of the choices differ, and no
// choice that is the likeliest. Such a task has no texts to compare.
func TestOpenSamples_choices(t *testing.T) {
	t.Parallel()
	open := func(name, metric string) *Samples {
		s, err := OpenSamples(filepath.Join("testdata/lm_eval", name), metric, "")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	wide, narrow := open("choices-float32.jsonl", "acc"), open("choices-bfloat16.jsonl", "acc")
	for i, a := range wide.List {
		if a.Item != strconv.Itoa(i) || a.Text != nil || a.Right == nil || *a.Right != (i == 0) {
			t.Errorf("%+v", a)
		}
	}
	if c := Compare(wide.List, narrow.List, 1); c.Pairs != 8 || c.Losses+c.Gains != 0 || c.Texts != 0 || c.Verdict != CannotTell {
		t.Errorf("%+v", c)
	}
	if wide.SHA256 == narrow.SHA256 || wide.Set == "" || wide.Set != narrow.Set || wide.Set == open("choices-float32.jsonl", "acc_norm").Set {
		t.Errorf("what was asked: %q, %q", wide.Set, narrow.Set)
	}
	var tasks Tasks
	for name, s := range map[string]*Samples{"float32": wide, "bfloat16": narrow} {
		if err := tasks.Add(name, s); err != nil {
			t.Error(err)
		}
	}
}
