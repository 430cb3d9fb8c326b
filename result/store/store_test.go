package store

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sweep.dev/sweep/result"
)

var at = time.Date(2026, 3, 4, 5, 6, 7, 891_011_000, time.UTC)

var ids = IDs{Run: "0011223344", Cell: "0123456789ab", Trial: 2, Attempt: 3, Anchor: result.Anchor{Start: at}}

// requestsOf draws requests with everything that may be missing missing at
// times.
func requestsOf() *rapid.Generator[[]result.Request] {
	instant := rapid.OneOf(rapid.Just(result.Never), rapid.Map(rapid.Int64Range(0, math.MaxInt64), func(n int64) time.Duration { return time.Duration(n) }))
	count := rapid.IntRange(result.Unknown, 1<<40)
	word := rapid.OneOf(rapid.Just(""), rapid.String())
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) result.Request {
		r := result.Request{
			Shard: rapid.IntRange(0, 9).Draw(t, "shard"), N: rapid.IntRange(0, 1<<40).Draw(t, "n"),
			Slot: rapid.IntRange(0, 9).Draw(t, "slot"), Turn: rapid.IntRange(0, 9).Draw(t, "turn"),
			Phase:     rapid.SampledFrom([]result.Phase{result.Warmup, result.Probe, result.Ramp, result.Plateau, result.Tail}).Draw(t, "phase"),
			Scheduled: instant.Draw(t, "scheduled"), Sent: instant.Draw(t, "sent"), FirstByte: instant.Draw(t, "byte"),
			FirstToken: instant.Draw(t, "token"), FirstOutput: instant.Draw(t, "output"), LastToken: instant.Draw(t, "last"),
			End: instant.Draw(t, "end"), PromptTokens: count.Draw(t, "prompt"), CachedTokens: count.Draw(t, "cached"),
			CompletionTokens: count.Draw(t, "completion"), TokenSource: word.Draw(t, "source"), MaxTokens: rapid.IntRange(0, 1<<40).Draw(t, "max"),
			TargetTokens: count.Draw(t, "target"),
			Stamp:        rapid.SampledFrom([]string{"", result.StampKernel, result.StampUser}).Draw(t, "stamp"),
			Coalesced:    rapid.IntRange(0, 9).Draw(t, "coalesced"), StampError: time.Duration(rapid.Int64Range(0, 1<<40).Draw(t, "stamp error")),
			Fresh: rapid.Bool().Draw(t, "fresh"), Planned: rapid.Bool().Draw(t, "planned"), Chosen: rapid.Bool().Draw(t, "chosen"),
			FirstTokenChunk: rapid.IntRange(-1, 9).Draw(t, "first"),
			FinishReason:    word.Draw(t, "finish"), HTTPStatus: rapid.IntRange(0, 599).Draw(t, "http"),
			Status:     rapid.SampledFrom([]result.Status{result.Completed, result.Failed, result.Cancelled}).Draw(t, "status"),
			ErrorClass: word.Draw(t, "class"), Error: word.Draw(t, "error"),
		}
		way := result.Way{
			Prefill: word.Draw(t, "prefill"), Decode: word.Draw(t, "decode"), PickedPrefill: word.Draw(t, "picked prefill"),
			PickedDecode: word.Draw(t, "picked decode"), Decision: word.Draw(t, "decision"),
		}
		if way != (result.Way{}) {
			r.Way = &way
		}
		if us := rapid.SliceOfN(rapid.Int32(), 0, 20).Draw(t, "us"); len(us) > 0 {
			r.ChunkUS = us
		}
		if rapid.Bool().Draw(t, "stated") {
			r.ChunkTokens = rapid.SliceOfN(rapid.Int32Range(result.Unknown, 9), 0, 20).Draw(t, "k")
		}
		return r
	}), 0, 200)
}

func TestRequests_comeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := requestsOf().Draw(t, "requests")
		var b bytes.Buffer
		if err := WriteRequests(&b, ids, want); err != nil {
			t.Fatal(err)
		}
		i := 0
		for got, err := range ReadRequests(bytes.NewReader(b.Bytes()), int64(b.Len())) {
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(Request{ids, want[i]}, got); diff != "" {
				t.Fatal(diff)
			}
			i++
		}
		if i != len(want) {
			t.Fatalf("%d of %d rows came back", i, len(want))
		}
	})
}

func TestSamples_comeBack(t *testing.T) {
	want := []result.Sample{
		{T: -5, Source: result.FromClient, Name: "process_cpu_seconds", Value: 1.25, Unit: "s"},
		{T: time.Hour, Source: result.FromServer, Role: "decode", Replica: 3, Name: "vllm:num_requests_running", Labels: `model_name="a,\"b\""`, Value: math.Inf(1)},
		{T: 1, Source: result.FromGPU, Role: "server", Name: "power", Value: math.Copysign(0, -1), Unit: "W"},
	}
	var b bytes.Buffer
	if err := WriteSamples(&b, ids, want); err != nil {
		t.Fatal(err)
	}
	var got []result.Sample
	for s, err := range ReadSamples(bytes.NewReader(b.Bytes()), int64(b.Len())) {
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(ids, s.IDs); diff != "" {
			t.Error(diff)
		}
		got = append(got, s.Sample)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestReadSamples_ofAnotherTable(t *testing.T) {
	var b bytes.Buffer
	if err := WriteTable(&b, []result.Column{{Name: "value", Type: result.String}}, slices.Values([]result.Row{{"value": "x"}})); err != nil {
		t.Fatal(err)
	}
	var errs []error
	for _, err := range ReadSamples(bytes.NewReader(b.Bytes()), int64(b.Len())) {
		errs = append(errs, err)
	}
	if len(errs) != 1 || errs[0] == nil || !strings.Contains(errs[0].Error(), "the column value is of the type STRING") {
		t.Errorf("got %v, want that value is a text", errs)
	}
}

func TestReadSamples_manyTexts(t *testing.T) {
	want := make([]result.Sample, 3*cursorValues)
	for i := range want {
		want[i] = result.Sample{T: time.Duration(i), Source: result.FromServer, Name: fmt.Sprint("name", i), Value: float64(i)}
	}
	var b bytes.Buffer
	if err := WriteSamples(&b, ids, want); err != nil {
		t.Fatal(err)
	}
	n := 0
	for s, err := range ReadSamples(bytes.NewReader(b.Bytes()), int64(b.Len())) {
		if err != nil || s.Sample != want[n] {
			t.Fatalf("row %d is %v, %v", n, s.Sample, err)
		}
		if n++; n == len(want)-1 { // it can be left
			break
		}
	}
}

func TestRead_stopsAtWhatIsNoParquet(t *testing.T) {
	var b bytes.Buffer
	if err := WriteRequests(&b, ids, make([]result.Request, 3)); err != nil {
		t.Fatal(err)
	}
	whole := b.Bytes()
	for _, data := range [][]byte{nil, []byte("PAR1"), whole[:len(whole)-9], whole[9:], []byte(strings.Repeat("x", 100))} {
		n := 0
		var last error
		for _, err := range ReadRequests(bytes.NewReader(data), int64(len(data))) {
			n, last = n+1, err
		}
		if n != 1 || last == nil {
			t.Errorf("%d bytes: %d rows, then %v", len(data), n, last)
		}
	}
}

func TestWrite_isDeterministic(t *testing.T) {
	requests, _ := engineSteps(300, 100, true)
	var a, b bytes.Buffer
	for _, w := range []*bytes.Buffer{&a, &b} {
		if err := WriteRequests(w, ids, requests); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Error("the same requests made different files")
	}
}

func TestRead_canBeLeft(t *testing.T) {
	var b bytes.Buffer
	if err := WriteRequests(&b, ids, make([]result.Request, 1000)); err != nil {
		t.Fatal(err)
	}
	for _, err := range ReadRequests(bytes.NewReader(b.Bytes()), int64(b.Len())) {
		if err != nil {
			t.Fatal(err)
		}
		break
	}
}

func TestTexts_areUTF8(t *testing.T) {
	var b bytes.Buffer
	if err := WriteRequests(&b, ids, []result.Request{{FinishReason: "st\xffop", Error: "\xc3(", ErrorClass: "ok é"}}); err != nil {
		t.Fatal(err)
	}
	for r, err := range ReadRequests(bytes.NewReader(b.Bytes()), int64(b.Len())) {
		if err != nil {
			t.Fatal(err)
		}
		if r.FinishReason != "st\uFFFDop" || r.Error != "\uFFFD(" || r.ErrorClass != "ok é" {
			t.Errorf("got %q, %q and %q", r.FinishReason, r.Error, r.ErrorClass)
		}
	}
	b.Reset()
	if err := WriteSamples(&b, ids, []result.Sample{{Name: "a\xff", Labels: "b\xff"}}); err != nil {
		t.Fatal(err)
	}
	for s, err := range ReadSamples(bytes.NewReader(b.Bytes()), int64(b.Len())) {
		if err != nil || s.Name != "a\uFFFD" || s.Labels != "b\uFFFD" {
			t.Errorf("got %q and %q, %v", s.Name, s.Labels, err)
		}
	}
}
