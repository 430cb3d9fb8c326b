package trace

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const (
	s  = time.Second
	ms = time.Millisecond
	us = time.Microsecond
)

func TestRead(t *testing.T) {
	for _, c := range []struct {
		name    string
		format  Format
		limit   int
		text    string
		want    []Row
		skipped int
	}{
		{"seconds", Timestamps, 0, "# when\n10\n10.25\n\n12\n", []Row{{At: 0}, {At: 250 * ms}, {At: 2 * s}}, 0},
		{"since 1970", Timestamps, 0, "1700000000.000001\n1700000000.000002\n", []Row{{At: 0}, {At: us}}, 0},
		{"out of order", Timestamps, 0, "3\n1\n2\n", []Row{{At: 0}, {At: s}, {At: 2 * s}}, 0},
		{"exponent", Timestamps, 0, "0\n1e-3\n", []Row{{At: 0}, {At: ms}}, 0},
		{"dates", Timestamps, 0, "2026-01-01T00:00:00Z\n2026-01-01T01:00:00.5+01:00\n", []Row{{At: 0}, {At: 500 * ms}}, 0},
		{"csv", Timestamps, 0, "\ufeffid,Timestamp\r\na,1\r\n\"b,c\",2.5\r\n", []Row{{At: 0}, {At: 1500 * ms}}, 0},
		{"jsonl", Timestamps, 1, "{\"timestamp\":7}\n{\"timestamp\":8}", []Row{{At: 0}}, 0},
		{"jsonl with dates", Timestamps, 0, "{\"timestamp\":\"2026-01-01 00:00:00\"}\n{\"timestamp\":\"2026-01-01 00:00:03\"}", []Row{{At: 0}, {At: 3 * s}}, 0},
		{
			"mooncake", Mooncake, 0, `{"timestamp": 27482, "input_length": 6755, "output_length": 500, "hash_ids": [46, 47]}
{"timestamp": 27482, "input_length": 513, "output_length": 52, "hash_ids": [46, 900000000000]}
{"timestamp": 30535.5, "input_length": 672, "output_length": 0, "hash_ids": []}
{"timestamp": 30535.5, "input_length": 672, "output_length": 26, "other": 1}`,
			[]Row{{0, 6755, 500, []uint32{0, 1}}, {0, 513, 52, []uint32{0, 2}}, {3053500 * us, 672, 26, nil}},
			1,
		},
		{
			"azure 2023", Azure, 0, "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:04.0319600,3180,8\n",
			[]Row{{0, 4808, 10, nil}, {52 * ms, 3180, 8, nil}},
			0,
		},
		{
			"azure 2024", Azure, 2, "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.009930+00:00,2162,5\n2024-05-10 00:00:00.017335+00:00,2399,6\n2024-05-10 00:00:01+00:00,76,15\n",
			[]Row{{0, 2162, 5, nil}, {7405 * us, 2399, 6, nil}},
			0,
		},
		{
			"burstgpt", BurstGPT, 0, "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,Conversation log\n45,ChatGPT,1087,0,1087,Conversation log\n118,GPT-4,417,276,693,API log\n",
			[]Row{{0, 472, 18, nil}, {113 * s, 417, 276, nil}},
			1,
		},
		{
			"burstgpt with sessions", BurstGPT, 0, "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n19440110.0,1722ac82,43,GPT-4,906.0,446,1352,Conversation log\n",
			[]Row{{0, 906, 446, nil}},
			0,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Read(write(t, c.text), c.format, c.limit)
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(&Trace{c.want, c.skipped}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRead_refuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		format Format
		text   string
		want   string
	}{
		{"format", "weka", "x", `format "weka" is not known`},
		{"empty", Timestamps, "\n# nothing\n", "no request in it"},
		{"only failures", BurstGPT, "Timestamp,Request tokens,Response tokens\n1,2,0", "none of its 1 requests"},
		{"word", Timestamps, "1\n2\nthree\n", ":3: the time is neither"},
		{"no such column", Timestamps, "when,what\n1,2\n", `:1: no column "timestamp"`},
		{"other columns", Azure, "Timestamp,Request tokens,Response tokens\n", `:1: no column "ContextTokens"`},
		{"short row", Azure, "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808\n", ":2: 2 columns where the header has 3"},
		{"no date", Azure, "TIMESTAMP,ContextTokens,GeneratedTokens\n17,4808,3\n", ":2: the time is not a date"},
		{"tokens", BurstGPT, "Timestamp,Request tokens,Response tokens\n1,many,3\n", ":2: a field is not a number of tokens"},
		{"half a token", BurstGPT, "Timestamp,Request tokens,Response tokens\n1,1.5,3\n", ":2: a field is not a number of tokens"},
		{"negative tokens", BurstGPT, "Timestamp,Request tokens,Response tokens\n1,-1,3\n", ":2: an input of -1"},
		{"huge input", Mooncake, `{"timestamp":0,"input_length":9000000,"output_length":1}`, ":1: an input of 9000000"},
		{"huge output", Mooncake, `{"timestamp":0,"input_length":9,"output_length":2000000}`, ":1: an output of 2000000"},
		{"too many blocks", Mooncake, `{"timestamp":0,"input_length":512,"output_length":1,"hash_ids":[1,2]}`, ":1: 2 blocks of 512 tokens do not fit"},
		{"no time", Mooncake, "{\"timestamp\":0,\"input_length\":1,\"output_length\":1}\n{\"input_length\":1,\"output_length\":1}", `:2: no "timestamp"`},
		{"no length", Mooncake, `{"timestamp":0,"output_length":1}`, `:1: no "input_length"`},
		{"kind", Mooncake, `{"timestamp":0,"input_length":"a","output_length":1}`, `:1: "input_length" is a string where a whole number is due`},
		{"no JSON", Mooncake, "hello", ":1: no JSON: invalid character"},
		{"sessions", Mooncake, `{"timestamp":0,"input_length":1,"output_length":1,"session_id":"a","delay":3}`, ":1: \"session_id\" or \"delay\": sessions are not replayed"},
		{"NaN", Timestamps, "NaN\n", ":1: no column"},
		{"overflow", BurstGPT, "Timestamp,Request tokens,Response tokens\n99999999999,1,1\n", ":2: the time is not a number of seconds"},
		{"long line", Timestamps, "1\n" + strings.Repeat("x", maxLine+1), ":2: line over"},
		{"quote", Timestamps, "timestamp,a\n1,\"b\n", ":2: not a line of CSV"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Read(write(t, c.text), c.format, 0)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
		})
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none"), Azure, 0); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("no file: %v", err)
	}
}

// Times keep every digit and their order, whatever they are counted from.
func TestRead_times(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		base := rapid.Int64Range(0, 2e9).Draw(r, "base")
		offsets := rapid.SliceOfN(rapid.Int64Range(0, math.MaxInt32), 1, 30).Draw(r, "us")
		var b strings.Builder
		for _, o := range offsets {
			at := time.Unix(base, 0).Add(time.Duration(o) * us).UTC()
			b.WriteString(at.Format("2006-01-02 15:04:05.000000") + "\n")
		}
		got, _, err := read(strings.NewReader(b.String()), Timestamps, 0)
		if err != nil {
			r.Fatal(err)
		}
		slices.Sort(offsets)
		for i, o := range offsets {
			if want := time.Duration(o-offsets[0]) * us; got.Rows[i].At != want {
				r.Fatalf("row %d at %v, want %v", i, got.Rows[i].At, want)
			}
		}
	})
}

func FuzzRead(f *testing.F) {
	for _, format := range []Format{Timestamps, Mooncake, Azure, BurstGPT} {
		f.Add(string(format), "1\n2\n")
	}
	f.Add("mooncake", `{"timestamp":0,"input_length":513,"output_length":1,"hash_ids":[1,2]}`)
	f.Add("azure", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n")
	f.Add("burstgpt", "Timestamp,Request tokens,Response tokens\n1,2,3\n")
	f.Fuzz(func(t *testing.T, format, text string) {
		got, _, err := read(strings.NewReader(text), Format(format), 10)
		if err != nil {
			return
		}
		if len(got.Rows) > 10 {
			t.Fatalf("%d rows of 10", len(got.Rows))
		}
		for i, r := range got.Rows {
			if r.At < 0 || i > 0 && r.At < got.Rows[i-1].At {
				t.Fatalf("row %d at %v", i, r.At)
			}
		}
	})
}

// A plan may name any file of the machine. An error about a file that is no trace
// quotes nothing of it.
func TestRead_quotesNoOtherFile(t *testing.T) {
	for _, text := range []string{
		"root:x:0:0:canary:/root:/bin/canary\n", "canary\n", "1\ncanary\n", "timestamp\ncanary\n", `{"timestamp": "canary"}`,
		`{"timestamp": canary}`, `{"timestamp": 1, "input_length": "canary"}`,
		"TIMESTAMP,ContextTokens,GeneratedTokens\ncanary,1,1\n", "Timestamp,Request tokens,Response tokens\n1,canary,1\n",
	} {
		for _, f := range []Format{Timestamps, Mooncake, Azure, BurstGPT} {
			if _, err := Read(write(t, text), f, 0); err != nil && strings.Contains(err.Error(), "canary") {
				t.Errorf("%s of %s: %v", f, text, err)
			}
		}
	}
}
