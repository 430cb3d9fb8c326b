package exposition

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sweep.dev/sweep/internal/recordtest"
)

var update = flag.Bool("update", false, "write the golden files")

// describe returns a body as the golden files show it.
func describe(e *Exposition, err error) string {
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	var b strings.Builder
	for _, p := range e.Flat() {
		fmt.Fprintf(&b, "%s %s{%s} %s\n", p.Kind, p.Name, LabelString(p.Labels), FormatValue(p.Value))
	}
	fmt.Fprintf(&b, "dropped %d, twice %d\n", e.Dropped, e.Duplicates)
	return b.String()
}

func TestParse_quirks(t *testing.T) {
	files, err := filepath.Glob("testdata/quirks/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no quirks: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			body, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := describe(Parse(body, true))
			golden := strings.TrimSuffix(file, ".txt") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

var (
	// sampleRE is what a well-formed line is, read independently of the parser.
	sampleRE = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{((?:\s*[a-zA-Z_][a-zA-Z0-9_]*\s*=\s*"(?:[^"\\]|\\.)*"\s*,?)*)\})?\s+(\S+)(?:\s+[-+0-9.eE]+)?\s*$`)
	labelRE  = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"`)
	decimal  = regexp.MustCompile(`^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$|^[-+]?(Inf|inf|NaN|nan)$`)
)

// oracle reads a body line by line with regular expressions.
func oracle(body []byte) map[string]string {
	out := make(map[string]string)
	unescape := strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n")
	for line := range strings.Lines(string(body)) {
		line = strings.TrimSpace(line)
		m := sampleRE.FindStringSubmatch(line)
		if m == nil || strings.HasPrefix(line, "#") || !decimal.MatchString(m[4]) {
			continue
		}
		v, err := strconv.ParseFloat(m[4], 64)
		if err != nil {
			continue
		}
		var labels []Label
		for _, l := range labelRE.FindAllStringSubmatch(m[3], -1) {
			value := unescape.Replace(l[2])
			if l[1] == "le" || l[1] == "quantile" {
				if f, err := strconv.ParseFloat(value, 64); err == nil {
					value = FormatValue(f)
				}
			}
			labels = append(labels, Label{l[1], value})
		}
		slices.SortFunc(labels, func(a, b Label) int { return strings.Compare(a.Name, b.Name) })
		out[m[1]+"{"+LabelString(labels)+"}"] = FormatValue(v)
	}
	return out
}

func flatMap(e *Exposition) map[string]string {
	out := make(map[string]string)
	for _, p := range e.Flat() {
		out[p.Name+"{"+LabelString(p.Labels)+"}"] = FormatValue(p.Value)
	}
	return out
}

// sameAsRepaired reports whether a body needs no repair, and fails if it says another
// thing without than with.
func sameAsRepaired(t *testing.T, body []byte) bool {
	t.Helper()
	e := direct(body)
	if e == nil {
		return false
	}
	want, err := repaired(body)
	if err != nil {
		t.Fatalf("only without a repair: %v\n%s", err, body)
	}
	if diff := cmp.Diff(describe(want, nil), describe(e, nil)); diff != "" {
		t.Fatalf("(-repaired +direct):\n%s\nof\n%s", diff, body)
	}
	return true
}

// Lines that expfmt would read without an error, but not as they are meant, are repaired.
func TestParse_direct(t *testing.T) {
	const good = "# HELP c What it counts.\n# TYPE c counter\nc{a=\"b\\\\\",} 1 1700000000000\nc 2\n\n# a word\n# TYPE h histogram\n" +
		"h_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 2\nh_sum 3\nh_count 2\n# TYPE s summary\ns{quantile=\"0.5\"} NaN\ns_sum 1\ns_count 1\n# TYPE g gauge\ng{} -1e3\n# EOF\n"
	if !sameAsRepaired(t, []byte(good)) {
		t.Errorf("this needs no repair:\n%s", good)
	}
	for name, body := range map[string]string{
		"no TYPE":                   "g 1\n",
		"no newline":                "# TYPE g gauge\ng 1",
		"CRLF":                      "# TYPE g gauge\r\ng 1\r\n",
		"twice":                     "# TYPE g gauge\ng{a=\"1\",b=\"2\"} 1\ng{b=\"2\",a=\"1\"} 2\n",
		"a bucket twice":            "# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"1.0\"} 2\n",
		"a count twice":             "# TYPE h histogram\nh_count 1\nh_count 2\n",
		"a bucket without a bound":  "# TYPE h histogram\nh_bucket 1\n",
		"a bucket of NaN":           "# TYPE h histogram\nh_bucket{le=\"1\"} NaN\n",
		"two bounds":                "# TYPE h histogram\nh_bucket{le=\"1\",le=\"2\"} 1\n",
		"a histogram with a value":  "# TYPE h histogram\nh 1\nh_count 1\n",
		"a bucket under no name":    "# TYPE h histogram\nh{le=\"1\"} 1\n",
		"a summary counts below 0":  "# TYPE s summary\ns_count -1\ns_sum 1\n",
		"a summary without a share": "# TYPE s summary\ns 1\ns_sum 1\n",
		"a kind of OpenMetrics":     "# TYPE g info\ng_info{a=\"b\"} 1\n",
		"a counter of OpenMetrics":  "# TYPE c counter\nc_total 1\n",
		"HELP of a part":            "# HELP s_sum x\n# TYPE s summary\ns_sum 1\n",
		"a name in quotes":          "# TYPE g gauge\n{\"g\"} 1\n",
		"a quote within a name":     "# TYPE g gauge\ng{a\"b\"=\"c\"} 1\n",
		"a bad escape":              "# TYPE g gauge\ng{a=\"C:\\Windows\"} 1\n",
		"a long line":               "# TYPE g gauge\ng{a=\"" + strings.Repeat("x", maxLine) + "\"} 1\n",
	} {
		if sameAsRepaired(t, []byte(body)) {
			t.Errorf("%s: this needs a repair:\n%s", name, body)
		}
	}
}

// Every file that an engine, an exporter or a GPU tool printed parses without
// losing a valid series or inventing a value.
func TestParse_recorded(t *testing.T) {
	checkAllAgainstOracle(t, "recorded__*")
}

func TestParse_fixtures(t *testing.T) {
	checkAllAgainstOracle(t, "*")
}

func checkAllAgainstOracle(t *testing.T, pattern string) {
	for _, name := range recordtest.Names(t, pattern) {
		checkAgainstOracle(t, name, strings.Contains(name, "metric") && strings.HasSuffix(name, ".txt"))
	}
}

func checkAgainstOracle(t *testing.T, name string, isExposition bool) {
	t.Run(name, func(t *testing.T) {
		body := recordtest.Read(t, name)
		want := oracle(body)
		e, err := Parse(body, true)
		if err != nil {
			if len(want) > 0 || !errors.Is(err, ErrNoMetrics) {
				t.Fatalf("%d series, but: %v", len(want), err)
			}
			return
		}
		if isExposition && len(want) == 0 {
			t.Fatal("the oracle sees nothing")
		}
		if diff := cmp.Diff(want, flatMap(e)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if sameAsRepaired(t, body) {
			t.Log("it needs no repair")
		}
		// CRLF says the same.
		crlf, err := Parse(bytes.ReplaceAll(body, []byte("\n"), []byte("\r\n")), true)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, flatMap(crlf)); diff != "" {
			t.Errorf("with CRLF (-want +got):\n%s", diff)
		}
	})
}

// A body that was cut off has fewer series, and never another value.
func TestParse_cutAtEveryByte(t *testing.T) {
	body := recordtest.Read(t, "recorded__llamacpp-b11549__metrics.txt")
	vllm := recordtest.Read(t, "recorded__vllm-0.32.0__metrics.txt")
	i := bytes.Index(vllm, []byte("# TYPE vllm:time_to_first_token_seconds histogram"))
	body = append(body, vllm[i:i+3000]...)
	body = body[:bytes.LastIndexByte(body, '\n')+1]
	full, err := Parse(body, true)
	if err != nil {
		t.Fatal(err)
	}
	want := flatMap(full)
	for cut := range body {
		e, err := Parse(body[:cut], false)
		if err != nil {
			if !errors.Is(err, ErrTruncated) && !errors.Is(err, ErrNoMetrics) {
				t.Fatalf("cut at %d: %v", cut, err)
			}
			continue
		}
		if body[cut-1] != '\n' {
			t.Fatalf("cut at %d: a body with half a line was read", cut)
		}
		for series, v := range flatMap(e) {
			if want[series] != v {
				t.Fatalf("cut at %d: %s is %s, want %s", cut, series, v, want[series])
			}
		}
	}
}

func TestParse_bounds(t *testing.T) {
	var many bytes.Buffer
	for i := range maxSeries + 10 {
		fmt.Fprintf(&many, "g{i=\"%d\"} 1\n", i)
	}
	e, err := Parse(many.Bytes(), true)
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Points) != maxSeries || e.Dropped != 10 {
		t.Errorf("%d series, %d dropped", len(e.Points), e.Dropped)
	}
	e, err = Parse([]byte("g{a=\""+strings.Repeat("x", maxLine)+"\"} 1\ng 2\n"), true)
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Points) != 1 || e.Dropped != 1 {
		t.Errorf("a line over its bound: %d series, %d dropped", len(e.Points), e.Dropped)
	}
	many.Reset()
	for i := range maxLabels + 1 {
		fmt.Fprintf(&many, "l%d=\"\",", i)
	}
	if _, err = Parse([]byte("# TYPE g gauge\ng{"+many.String()+"} 1\n"), true); !errors.Is(err, ErrNoMetrics) {
		t.Errorf("a series of %d labels: %v", maxLabels+1, err)
	}
	var bomb bytes.Buffer
	zw := gzip.NewWriter(&bomb)
	for range MaxBody/(1<<20) + 1 {
		if _, err := zw.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Parse(bomb.Bytes(), true); err == nil || !strings.Contains(err.Error(), "larger than 10 MiB") {
		t.Errorf("a gzip bomb: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/quirks/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Add(recordtest.Read(f, "recorded__llamacpp-b11549__metrics.txt"))
	f.Fuzz(func(t *testing.T, body []byte) {
		e, err := Parse(body, true)
		if err != nil {
			return
		}
		if body, err = unwrap(body); err != nil {
			t.Fatal(err)
		}
		sameAsRepaired(t, body)
		// A body that was read can be read again, with the same values.
		clean := sanitize(body)
		again, err := Parse(text(clean.families), false)
		if err != nil {
			t.Fatalf("the cleaned body does not parse: %v\n%s", err, text(clean.families))
		}
		if again.Dropped != 0 {
			t.Fatalf("%d lines of the cleaned body are dropped:\n%s", again.Dropped, text(clean.families))
		}
		if diff := cmp.Diff(flatMap(e), flatMap(again)); diff != "" {
			t.Fatalf("(-first +second):\n%s", diff)
		}
		if len(e.Flat()) > clean.lines {
			t.Fatalf("%d values out of %d lines", len(e.Flat()), clean.lines)
		}
		for _, h := range e.Histograms {
			for _, b := range h.Buckets {
				if b.Count < 0 || math.IsNaN(b.Count) {
					t.Fatalf("a bucket of %v", b.Count)
				}
			}
		}
	})
}

// The same body goes to expfmt as it is, and by way of the repair.
func BenchmarkParse(b *testing.B) {
	body := recordtest.Read(b, "recorded__vllm-0.32.0__metrics.txt")
	for name, parse := range map[string]func([]byte) (*Exposition, error){
		"direct":   func(body []byte) (*Exposition, error) { return Parse(body, true) },
		"repaired": repaired,
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := parse(body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
