package pack

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/reporttest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestRun reads the data as the script does.
func TestRun(t *testing.T) {
	t.Parallel()
	run := reporttest.MadeUp(t, `
axes engine! concurrency
cell vllm 1
  ok tok=185.04 ttft=14/15.123 tpot=5/5.4 n=200 p95_ttft_ms_completed=15.123
cell vllm 8
  invalid tok=90712.6 ttft=80/110 tpot=6/6.4 n=200 reason="coalesced|two </script>" p95_ttft_ms_completed=110
cell vllm 9
  pending
`)
	p, found := unpacked(t, run)
	n := len(p.Trials)
	for name, want := range map[string][]any{
		"throughput_tok_s": {185.0, 90713.0, nil}, "p95_ttft_ms": {15.1, 110.0, nil}, "p95_ttft_ms_completed": {15.1, 110.0, nil}, "status": {"ok", "invalid", nil},
	} {
		for i := range want {
			if got := found[name]; len(got) != n || got[i] != want[i] {
				t.Errorf("%s: %v, want %v", name, got, want)
				break
			}
		}
	}
}

// The script counts the trials and columns of each run, also of one that has none.
func TestRun_none(t *testing.T) {
	t.Parallel()
	p, _ := unpacked(t, reporttest.MadeUp(t, "axes engine! concurrency\ncell vllm 1\n  pending\n"))
	if p.Trials == nil || p.Columns == nil {
		t.Errorf("one that is pending: %+v", p)
	}
	run := reporttest.MadeUp(t, "axes engine! concurrency\ncell vllm 1\n  pending\n")
	run.Trials, run.Resolved.Columns = nil, nil
	if p, _ = unpacked(t, run); p.Trials == nil || p.Columns == nil || p.Series == nil || p.Courses == nil {
		t.Errorf("no trials: %+v", p)
	}
}

// unpacked returns the data of a run of a few trials, and the values of each of its columns, as
// the script reads them.
func unpacked(t *testing.T, run *report.Run) (p packed, found map[string][]any) {
	t.Helper()
	text, err := Run(run, "r1-")
	if err != nil {
		t.Fatal(err)
	}
	z, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(flate.NewReader(bytes.NewReader(z)))
	if err != nil {
		t.Fatal(err)
	}
	length := binary.LittleEndian.Uint32(data)
	if err := json.Unmarshal(data[4:4+length], &p); err != nil {
		t.Fatal(err)
	}
	blocks, n, at := data[4+length:], len(p.Trials), 0
	found = map[string][]any{}
	for _, c := range p.Columns {
		var values []any
		for i := range n {
			switch {
			case c.Same > 0:
				values = append(values, found[p.Columns[c.Same-1].Name][i])
			case c.Values != nil:
				if place := int(blocks[at+i]) | int(blocks[at+n+i])<<8; place != none {
					values = append(values, c.Values[place])
				} else {
					values = append(values, nil)
				}
			}
		}
		if c.Values != nil {
			at += 2 * n
		}
		found[c.Name] = values
	}
	if at != len(blocks) {
		t.Errorf("%d bytes of blocks are read, there are %d", at, len(blocks))
	}
	return p, found
}

// TestRun_golden holds each testdata/*.txtar: a run, and the data that its page has: the
// trials, and each column with its unit and a value for each trial.
func TestRun_golden(t *testing.T) {
	t.Parallel()
	reporttest.Golden(t, "testdata/*.txtar", *update, reporttest.Described, func(t *testing.T, name string, run *report.Run) string {
		if name != "data.txt" {
			t.Fatalf("there is no form %s", name)
		}
		p, found := unpacked(t, run)
		var b strings.Builder
		line := func(v any) {
			text, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			b.Write(append(text, '\n'))
		}
		for _, trial := range p.Trials {
			line(trial)
		}
		for _, c := range p.Columns {
			fmt.Fprintf(&b, "%s [%s] core=%t given=%t ", c.Name, c.Unit, c.Core, c.Given)
			line(found[c.Name])
		}
		return b.String()
	})
}

// TestDecimal holds that a number comes back as the script computes it.
func TestDecimal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		v     float64
		width int // the least; 0 if it is no decimal
	}{
		{0, 2}, {8190, 2}, {8191, 3}, {0.123, 2}, {12.3, 2}, {0.00000123, 0}, {0.0000012, 2}, {2097150, 3}, {2097151, 0}, {-1, 0}, {1.0 / 3, 0},
	} {
		for _, width := range []int{2, 3} {
			code, ok := decimal(c.v, width)
			if want := c.width > 0 && c.width <= width; ok != want {
				t.Errorf("%v in %d bytes: %t, want %t", c.v, width, ok, want)
			} else if got := float64(code>>3) / powers[code&7]; ok && got != c.v {
				t.Errorf("%v comes back from %d bytes as %v", c.v, width, got)
			}
		}
	}
	for _, width := range []int{2, 3} {
		if code, ok := decimal(math.NaN(), width); !ok || code != 1<<(8*width)-1 {
			t.Errorf("NaN in %d bytes: %x, %t", width, code, ok)
		}
	}
}

// TestBlock holds in which way values are told.
func TestBlock(t *testing.T) {
	t.Parallel()
	many := func(step float64) []float64 {
		values := make([]float64, 3*maxValues)
		for i := range values {
			values[i] = shown(step * float64(i+1))
		}
		values[7] = math.NaN()
		return values
	}
	for _, c := range []struct {
		about string
		col   column
		width int
		bytes int
	}{
		{"few values", column{numbers: []float64{1, 2, math.NaN(), 1}}, 0, 8},
		{"many decimals of three digits", column{numbers: many(0.01)}, 2, 6 * maxValues},
		{"many decimals of more", column{numbers: many(5)}, 3, 9 * maxValues},
		{"many that float32 has", column{numbers: many(-1)}, 4, 12 * maxValues},
		{"many that it lacks", column{numbers: many(1<<24 + 1)}, 8, 24 * maxValues},
	} {
		if got := len(c.col.block()); got != c.bytes || c.col.Width != c.width {
			t.Errorf("%s: %d bytes, width %d; want %d, %d", c.about, got, c.col.Width, c.bytes, c.width)
		}
	}
	for v, want := range map[float64]float64{0.123456: 0.123, 12.345: 12.3, 1234.5: 1235, 0: 0, -0.0012345: -0.00123} {
		if got := shown(v); got != want {
			t.Errorf("%v is shown as %v, want %v", v, got, want)
		}
	}
}
