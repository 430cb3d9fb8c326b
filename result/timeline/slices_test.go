package timeline

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sweep.dev/sweep/result"
)

func TestOf(t *testing.T) {
	const ms = time.Millisecond
	requests := []result.Request{
		{ // two in the first second, one after it
			Scheduled: 400 * ms, Sent: 500 * ms, FirstToken: 700 * ms, LastToken: 1600 * ms, End: 1600 * ms, Status: result.Completed,
			ChunkUS: []int32{200_000, 100_000, 800_000}, CompletionTokens: 3, TokenSource: "usage",
		},
		{ // a role before, and four tokens in one chunk
			Scheduled: 1000 * ms, Sent: 1000 * ms, FirstToken: 1100 * ms, LastToken: 1300 * ms, End: 2900 * ms, Status: result.Failed,
			ChunkUS: []int32{50_000, 50_000, 200_000}, ChunkTokens: []int32{0, 1, 4}, FirstTokenChunk: 1, CompletionTokens: result.Unknown,
		},
		{Sent: 600 * ms, End: 9000 * ms, Phase: result.Probe},
		{Sent: 10 * ms, End: 9000 * ms, Phase: result.Warmup},
		{Sent: result.Never, End: 600 * ms, Status: result.Cancelled},
	}
	got := Of(requests, time.Second, true)
	want := []Slice{
		{
			Start: 500 * ms, Length: time.Second, InFlight: 1.5, Started: 2, Tokens: 2 + 5,
			TTFT50: 200 * ms, TTFTMax: 300 * ms, TPOT: 60 * ms, ICL50: 150 * ms,
		},
		{
			Start: 1500 * ms, Length: 100 * ms, InFlight: 2, Completed: 1, Tokens: 1,
			TTFT50: result.Never, TTFTMax: result.Never, TPOT: 800 * ms, ICL50: 800 * ms,
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	series := map[string][]float64{}
	for _, s := range Samples(got) {
		if s.Source != result.FromClient || s.Name == InFlight && s.T != got[len(series[s.Name])].Start+got[len(series[s.Name])].Length {
			t.Errorf("sample %+v", s)
		}
		series[s.Name] = append(series[s.Name], s.Value)
	}
	if diff := cmp.Diff(map[string][]float64{
		InFlight: {1.5, 2}, Started: {2, 0}, Completed: {0, 1}, Failed: {0, 0}, OutputRate: {7, 10},
		TTFT50: {200}, TTFTMax: {300}, TPOT: {60, 800}, ICL50: {150, 800},
	}, series); diff != "" {
		t.Error(diff)
	}
	if got := Of(nil, time.Second, false); got != nil {
		t.Errorf("of nothing: %v", got)
	}
}

// TestArrivals holds that all that the server counted arrives.
func TestArrivals(t *testing.T) {
	for name, c := range map[string]struct {
		r    result.Request
		want []float64
	}{
		"a token without text": {result.Request{ChunkUS: []int32{1, 1}, CompletionTokens: 3, TokenSource: "usage"}, []float64{1.5, 1.5}},
		"stated":               {result.Request{ChunkUS: []int32{1, 1, 1}, ChunkTokens: []int32{1, 0, 3}, CompletionTokens: 4, TokenSource: "usage"}, []float64{1, 3}},
		"not streamed":         {result.Request{Status: result.Completed, FirstTokenChunk: -1, CompletionTokens: 8, TokenSource: "usage"}, []float64{8}},
		"not counted":          {result.Request{ChunkUS: []int32{1, 1}, CompletionTokens: result.Unknown}, []float64{1, 1}},
		"nothing":              {result.Request{Status: result.Failed, FirstTokenChunk: -1}, nil},
	} {
		var got []float64
		Arrivals(&c.r, func(_ time.Duration, k float64) { got = append(got, k) })
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestTrend(t *testing.T) {
	series := func(n int, f func(i int) float64) (at, v []float64) {
		for i := range n {
			at, v = append(at, float64(i)), append(v, f(i))
		}
		return at, v
	}
	at, v := series(12, func(i int) float64 { return 100 + float64(i) })
	d := Trend(at, v)
	if d.P != 0 || d.P >= Level {
		t.Errorf("of a line: %+v", d)
	}
	if want := 110.0/101 - 1; math.Abs(d.Change-want) > 1e-12 { // the medians of the last three and the first three
		t.Errorf("change %v, want %v", d.Change, want)
	}
	if d := Trend(series(12, func(int) float64 { return 5 })); !d.Known() || d.P != 1 || d.Change != 0 {
		t.Errorf("of what does not change: %+v", d)
	}
	if d := Trend(series(minSlices-1, func(i int) float64 { return float64(1 + i) })); d.Known() || d.P < Level {
		t.Errorf("of too few: %+v", d)
	}
	if d := Trend(series(12, func(i int) float64 { return float64(i / 6) })); d.Known() {
		t.Errorf("from nothing: %+v", d)
	}
	if got := rank([]float64{3, 1, 3, 2}); !cmp.Equal(got, []float64{3.5, 1, 3.5, 2}) {
		t.Errorf("ranks %v", got)
	}
}
