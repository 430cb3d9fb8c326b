package report

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/result"
	summarize "sweep.dev/sweep/result/summary"
	"sweep.dev/sweep/rundir"
)

func FuzzEscape(f *testing.F) {
	f.Add("\x1b]52;c;x\x07\u009b31m\r\n::x ##[y")
	f.Fuzz(func(t *testing.T, s string) {
		got := escape(s)
		if control.MatchString(got) || workflow.MatchString(got) || html.MatchString(got) || strings.Contains(got, "\n") {
			t.Errorf("%q became %q", s, got)
		}
	})
}

func TestEscape(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"max_tokens=32, p95 < 200": "max_tokens=32, p95 < 200",
		"_start_ and __dunder__":   `\_start\_ and \_\_dunder\_\_`,
		"<b>bold</b> &amp;":        "&lt;b>bold&lt;/b> &amp;amp;",
		"a|b `c` *d* [e](f) ~~g~~": "a\\|b \\`c\\` \\*d\\* \\[e\\](f) \\~\\~g\\~\\~",
		"# heading":                `\# heading`,
		"- item":                   `\- item`,
		"12. item":                 `12\. item`,
		"12.5 ms":                  `12\.5 ms`,
		"> quote":                  `\> quote`,
		`back\slash`:               `back\\slash`,
	} {
		if got := escape(in); got != want {
			t.Errorf("escape(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestFigure(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		v    any
		want string
	}{
		{nil, "-"},
		{1234.56, "1235"},
		{99.96, "100.0"},
		{87.46, "87.5"},
		{3.14159, "3.14"},
		{0.05123, "0.0512"},
		{-12.34, "-12.3"},
		{2.0, "2"},
		{0.0, "0"},
		{1e300, "1" + strings.Repeat("0", 0)}, // only its beginning is held
		{math.Inf(1), "+Inf"},
		{math.NaN(), "NaN"},
		{int64(1 << 40), "1099511627776"},
		{true, "true"},
		{time.Unix(0, 0), "1970-01-01T00:00:00Z"},
	} {
		if got := Figure(c.v); got != c.want && !(c.v == 1e300 && strings.HasPrefix(got, c.want)) {
			t.Errorf("Figure(%v) = %q, want %q", c.v, got, c.want)
		}
	}
}

// TestP95Samples holds the constant to what marks a row's percentiles.
func TestP95Samples(t *testing.T) {
	t.Parallel()
	low := func(n int) string {
		reqs := make([]result.Request, n)
		for i := range reqs {
			reqs[i] = result.Request{
				Phase: result.Plateau, Status: result.Completed, FirstTokenChunk: 0,
				ChunkUS: []int32{1000, 1000}, ChunkTokens: []int32{1, 1}, CompletionTokens: 2, TokenSource: "usage", End: 2e6,
			}
		}
		row, _ := summarize.Of(reqs, summarize.Options{})
		text, _ := row["low_confidence"].(string)
		return text
	}
	if got := low(P95Samples - 1); !strings.Contains(got, "p95_ttft_ms") {
		t.Errorf("%d requests: low confidence %q, want p95_ttft_ms in it", P95Samples-1, got)
	}
	if got := low(P95Samples); strings.Contains(got, "p95_ttft_ms") {
		t.Errorf("%d requests: low confidence %q, want no p95_ttft_ms in it", P95Samples, got)
	}
}

// TestJudge holds the bounds of the rules, on both of their sides.
func TestJudge(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		trial string
		want  Verdict
	}{
		{"p95 at twice the p50", "ok ttft=100/200 tpot=5/6", Acceptable},
		{"p95 above twice the p50", "ok ttft=100/200.1 tpot=5/6", Unstable},
		{"the same for TPOT", "ok ttft=100/110 tpot=5/10.1", Unstable},
		{"below the floor nobody notices", "ok ttft=1/8 tpot=2/7.9", Acceptable},
		{"an objective counts first", `ok ttft=100/900 tpot=5/6 miss="a|b|c=1"`, Missed},
		{"an unchecked objective is no pass", `ok ttft=100/110 unchecked="a|b|not measured: c"`, Undecided},
		{"a miss is one whatever else is not known", `ok ttft=100/110 unchecked="a|b|not measured: c" miss="d|e|f=1"`, Missed},
		{"a warning is told only", `ok ttft=100/110 tpot=5/6 warn="a|b|c=1"`, Acceptable},
		{"validity comes before objectives", `invalid reason="client_cpu|x" miss="a|b|c=1"`, Invalid},
		{"a start failure", `failed start error="exit|x"`, NoStart},
		{"a failure", `failed error="exit|x"`, FailedRun},
		{"nothing", "pending", Pending},
	} {
		run := madeUp(t, "axes engine! concurrency\ncell vllm 1\n  "+c.trial)
		if got := Judge(run.Trials[0]); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	if _, err := Open(t.TempDir()); !errors.Is(err, rundir.ErrNoRun) {
		t.Errorf("Open of an empty folder: %v, want ErrNoRun", err)
	}
	run := madeUp(t, "repeats 2\naxes engine! concurrency\ncell vllm 1\n  ok tok=1\n  pending\ncell vllm 2\n  pending\n  ok tok=2")
	if got := len(run.Trials); got != 4 {
		t.Errorf("%d trials, want the planned 4", got)
	}
	if got := len(run.Rows()); got != 2 {
		t.Errorf("%d rows, want 2", got)
	}
	if got := run.Attempts(); len(got) != 2 || !strings.HasSuffix(got[1], "cells/c001/t02/a01") {
		t.Errorf("attempts %q", got)
	}
}

func TestNext(t *testing.T) {
	t.Parallel()
	const head = "axes engine! concurrency\ncell vllm 1\n  "
	for run, want := range map[string]string{
		head + "ok tok=1":                                  "sweep cells DIR",
		head + `ok tok=1 miss="a|b|c=1"`:                   "sweep cells DIR",
		head + "pending":                                   "sweep resume DIR",
		head + `invalid reason="x|y"`:                      "sweep resume --retry invalid,failed DIR",
		head + `failed start error="x|y"`:                  "sweep resume --retry invalid,failed DIR",
		"record\n" + head + `failed start error="x|y"`:     "sweep cells DIR",
		head + "invalid reason=\"x|y\"\nowed pod 1":        "sweep resume DIR",
		"record\n" + head + `failed error="signal|killed"`: "sweep resume --retry invalid,failed DIR",
	} {
		r := madeUp(t, run)
		if got := strings.ReplaceAll(r.Next(), r.Dir, "DIR"); got != want {
			t.Errorf("%s\n next %q, want %q", run, got, want)
		}
	}
}

// TestClaims_zeroRate holds that cells that carry nothing are acceptable all the
// same.
func TestClaims_zeroRate(t *testing.T) {
	t.Parallel()
	run := madeUp(t, "axes engine! concurrency\ncell vllm 1\n  ok req=0\ncell vllm 4\n  ok req=0")
	for _, c := range run.Claims() {
		if c.Question == AskSweetSpot && c.Answer != Decided {
			t.Errorf("%+v", c)
		}
	}
}

// TestSummary_writeError holds that a full disk is told.
func TestSummary_writeError(t *testing.T) {
	t.Parallel()
	full := errors.New("no space left on device")
	run := madeUp(t, "axes engine! concurrency\ncell vllm 1\n  ok tok=1")
	if err := run.Summary(writerFunc(func([]byte) (int, error) { return 0, full }), Style{}); !errors.Is(err, full) {
		t.Errorf("error %v, want %v", err, full)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
