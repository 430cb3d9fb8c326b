package junit

import (
	"bytes"
	"encoding/xml"
	"flag"
	"strconv"
	"strings"
	"testing"

	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/reporttest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestWrite_golden holds each testdata/*.txtar: a run, and the whole file about it.
func TestWrite_golden(t *testing.T) {
	t.Parallel()
	reporttest.Golden(t, "testdata/*.txtar", *update, reporttest.Described, func(t *testing.T, name string, run *report.Run) string {
		if name != "junit.xml" {
			t.Fatalf("there is no form %s", name)
		}
		var b bytes.Buffer
		if err := Write(&b, []*report.Run{run}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	})
}

func write(t *testing.T, text string) (string, suites) {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, []*report.Run{reporttest.MadeUp(t, text)}); err != nil {
		t.Fatal(err)
	}
	var got suites
	if err := xml.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	return b.String(), got
}

// UnmarshalXMLAttr reads what MarshalXMLAttr wrote.
func (s *seconds) UnmarshalXMLAttr(attr xml.Attr) error {
	v, err := strconv.ParseFloat(attr.Value, 64)
	*s = seconds(v)
	return err
}

// TestWrite holds what becomes of each verdict, and that the counts add up.
func TestWrite(t *testing.T) {
	t.Parallel()
	_, got := write(t, `
plan chat
axes engine! gpu! concurrency
cell vllm h100 1
  ok tok=185 n=200 duration_s=1.5
cell vllm h100 8
  ok tok=900 n=200 duration_s=20.125 miss="fast|p95_ttft_ms < 300|p95_ttft_ms=310" warn="cheap|cost_usd < 1|cost_usd=2"
cell vllm h200 1
  ok tok=900 n=200 duration_s=40 unchecked="cool|max_gpu_temp_c < 80|not measured"
cell vllm h200 2
  ok tok=900 n=200 duration_s=500 warn="cheap|cost_usd < 1|cost_usd=2"
cell sglang h200 1
  invalid tok=1 n=3 duration_s=6000 reason="coalesced|x"
cell sglang h200 8
  pending
`)
	if len(got.Suites) != 3 || got.Suites[0].Name != "chat vllm h100" {
		t.Fatalf("suites: %+v", got.Suites)
	}
	// Each trial's time counts once, though its cell has a case for each objective.
	want := counts{Tests: 7, Failures: 1, Errors: 2, Skipped: 1, Time: 6561.625}
	if got.counts != want {
		t.Errorf("counts %+v, want %+v", got.counts, want)
	}
	for i, want := range []seconds{21.625, 540, 6000} {
		s, sum := got.Suites[i], counts{}
		for _, c := range s.Cases {
			sum.add(counted(c))
		}
		if s.Time != want || sum != s.counts {
			t.Errorf("%s: counts %+v, of its cases %+v, want %.3f s", s.Name, s.counts, sum, want)
		}
	}
	if c := got.Suites[0].Cases[1]; c.Failure == nil || c.Class != "vllm h100 concurrency=8" || !strings.HasPrefix(c.Name, "fast") {
		t.Errorf("a missed objective is %+v", c)
	}
	if c := got.Suites[1].Cases[1]; c.Failure != nil || c.Out == "" {
		t.Errorf("a warning is %+v", c)
	}
}

// TestWrite_hostile holds that what an engine says is text.
func TestWrite_hostile(t *testing.T) {
	t.Parallel()
	text, got := write(t, `
axes engine! concurrency
cell "<failure/>]]>\x1b[31m\x00::error::x" 1
  failed error="spec|</testsuite>"
`)
	if strings.Contains(text, "\x1b") || len(got.Suites) != 1 || got.Errors != 1 {
		t.Errorf("%q", text)
	}
}
