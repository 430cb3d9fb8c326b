// Package sinktest is the contract that every sink keeps.
package sinktest

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/store"
	"sweep.dev/sweep/sinks"
)

// A Suite tests one sink.
type Suite struct {
	New func(columns []result.Column) (sinks.Sink, error)
	// Files are all that the sink writes, for any table.
	Files []string
	// Cells is the one among Files that holds the rows of the table, and Read
	// reads it back, with the types of the columns.
	Cells string
	Read  func(data []byte, columns []result.Column) ([]result.Row, error)
}

// Run runs the contract.
func Run(t *testing.T, s Suite) {
	t.Run("reader is writer", s.readerIsWriter)
	t.Run("an empty table is one", s.emptyTable)
	t.Run("again is the same", s.againIsTheSame)
	t.Run("half a file is an error", s.halfAFileIsAnError)
	t.Run("stops with its context", s.stops)
	t.Run("a bad row is an error", s.badRow)
}

func (s Suite) readerIsWriter(t *testing.T) {
	table := Table(t, 150)
	files, err := s.build(t, t.Context(), table, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s.names(), slices.Sorted(maps.Keys(files))); diff != "" {
		t.Error(diff)
	}
	got, err := s.Read(files[s.Cells], table.Columns)
	if err != nil {
		t.Fatal(err)
	}
	var want []result.Row
	for row := range table.Rows {
		row, err := row.Conform(table.Columns)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, row)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func (s Suite) emptyTable(t *testing.T) {
	table := sinks.NewTable(result.Columns(result.Extra{}), slices.Values([]result.Row(nil)), nil)
	files, err := s.build(t, t.Context(), table, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s.names(), slices.Sorted(maps.Keys(files))); diff != "" {
		t.Error(diff)
	}
	rows, err := s.Read(files[s.Cells], table.Columns)
	if err != nil || len(rows) != 0 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}

func (s Suite) againIsTheSame(t *testing.T) {
	table := Table(t, 20)
	before, err := s.build(t, t.Context(), table, nil)
	if err != nil {
		t.Fatal(err)
	}
	after, err := s.build(t, t.Context(), table, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name := range before {
		if !bytes.Equal(before[name], after[name]) {
			t.Errorf("%s differs", name)
		}
	}
}

// halfAFileIsAnError cuts every file short, after each of some numbers of
// bytes: the sink must return an error, or half a file is kept.
func (s Suite) halfAFileIsAnError(t *testing.T) {
	table := Table(t, 20)
	whole, err := s.build(t, t.Context(), table, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range s.Files {
		size := len(whole[name])
		for _, room := range []int{0, 1, size / 2, size - 1} {
			files, err := s.build(t, t.Context(), table, map[string]int{name: room})
			if !errors.Is(err, errFull) {
				t.Errorf("%s with room for %d of %d bytes: %v", name, room, size, err)
			}
			if _, ok := files[name]; ok {
				t.Errorf("%s with room for %d of %d bytes was taken for complete", name, room, size)
			}
		}
	}
}

func (s Suite) stops(t *testing.T) {
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stopped)
	files, err := s.build(t, ctx, Table(t, 20), nil)
	if !errors.Is(err, stopped) {
		t.Errorf("got %v, want the cause", err)
	}
	if len(files) != 0 {
		t.Errorf("complete all the same: %v", slices.Collect(maps.Keys(files)))
	}
}

func (s Suite) badRow(t *testing.T) {
	table := Table(t, 3)
	slices.Collect(table.Rows)[1]["concurrency"] = "eight"
	files, err := s.build(t, t.Context(), table, nil)
	if err == nil {
		t.Error("no error")
	}
	if _, ok := files[s.Cells]; ok {
		t.Errorf("%s was taken for complete", s.Cells)
	}
}

func (s Suite) names() []string { return slices.Sorted(slices.Values(s.Files)) }

var errFull = errors.New("no space left")

// A full is a writer that has room for so many bytes.
type full struct {
	bytes.Buffer
	room int
}

func (f *full) Write(p []byte) (int, error) {
	if len(p) > f.room {
		return 0, errFull
	}
	f.room -= len(p)
	return f.Buffer.Write(p)
}

// build builds a table and returns the files that were completed; room limits
// the bytes of those that it names.
func (s Suite) build(t *testing.T, ctx context.Context, table sinks.Table, room map[string]int) (map[string][]byte, error) {
	t.Helper()
	sink, err := s.New(table.Columns)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex // of files
	files := map[string][]byte{}
	err = sink.Build(ctx, table, func(name string, write func(sinks.Writer) error) error {
		w := full{room: 1 << 30}
		if n, ok := room[name]; ok {
			w.room = n
		}
		if err := write(&w); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if _, ok := files[name]; ok {
			t.Errorf("%s was written twice", name)
		}
		files[name] = w.Bytes()
		return nil
	})
	return files, err
}

// Table returns a table of n trials, two of each cell, with the Parquet files of
// their requests and samples: all types, nulls in every column that may be
// null, texts that are hard to write.
func Table(t *testing.T, n int) sinks.Table {
	t.Helper()
	columns := result.Columns(result.Extra{
		Axes: []result.Column{
			{Name: "arg_max_num_seqs", Type: result.Int, Nullable: true, Doc: "An axis."},
			{Name: "arg_dtype", Type: result.String, Nullable: true, Doc: "Another."},
		},
		SLOs: []string{"smooth"},
	})
	at := time.Date(2026, 3, 4, 23, 59, 59, 999_999_000, time.UTC)
	texts := []string{
		"plain", "with, a comma", `with "quotes"`, "two\nlines", "üñí → 漢字 🙂", "tab\there", `back\slash`, " spaces ",
		"null", "NaN", "0123", "1e5", "true", `\.`, "semi;colon",
	}
	dir := t.TempDir()
	var rows []result.Row
	var requests, samples []string
	for i := range n {
		row := result.Row{}
		for k, c := range columns {
			if c.Nullable && (i+k)%3 == 0 {
				row[c.Name] = nil
				continue
			}
			switch c.Type {
			case result.String:
				row[c.Name] = texts[(i+k)%len(texts)]
			case result.Int:
				row[c.Name] = int64(i*1000 + k - 50)
				if (i+k)%7 == 0 {
					row[c.Name] = int64(1<<53 + 1 + i)
				}
			case result.Float:
				row[c.Name] = []float64{0, 0.1, -1.5, 1.0 / 3, 1e-9, 123456.789, 5e17, 2}[(i+k)%8]
			case result.Bool:
				row[c.Name] = (i+k)%2 == 0
			case result.Timestamp:
				row[c.Name] = at.Add(time.Duration(i) * 1001 * time.Microsecond)
			}
		}
		row["cell_id"] = "c" + strconv.Itoa(i/2)
		row["trial"], row["attempt"] = int64(1+i%2), int64(1)
		rows = append(rows, row)

		ids := store.IDs{Run: RunID, Cell: "c" + strconv.Itoa(i/2), Trial: 1 + i%2, Attempt: 1, Anchor: result.Anchor{Start: at}}
		requests = append(requests, write(t, filepath.Join(dir, strconv.Itoa(i)+".requests"),
			func(b *bytes.Buffer) error { return store.WriteRequests(b, ids, Requests()) }))
		samples = append(samples, write(t, filepath.Join(dir, strconv.Itoa(i)+".samples"),
			func(b *bytes.Buffer) error { return store.WriteSamples(b, ids, Samples()) }))
	}
	table := sinks.NewTable(columns, slices.Values(rows), nil)
	table.Requests, table.Samples = requests, samples
	return table
}

func write(t *testing.T, path string, encode func(*bytes.Buffer) error) string {
	t.Helper()
	var b bytes.Buffer
	if err := encode(&b); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// RunID is the run of every attempt in the tables of requests and samples.
const RunID = "r1"

// Requests returns the requests of each trial of Table: one that was streamed with
// its tokens stated, one without, one that was not streamed, one that failed.
func Requests() []result.Request {
	const ms = time.Millisecond
	return []result.Request{
		{
			Shard: 1, N: 0, Slot: 3, Turn: 1, Phase: result.Ramp, Scheduled: 0, Sent: 30 * time.Microsecond, FirstByte: 99 * ms, FirstToken: 100 * ms,
			FirstOutput: 120 * ms, LastToken: 140 * ms, End: 141 * ms, PromptTokens: 200, CachedTokens: 16, CompletionTokens: 5,
			TokenSource: "usage", MaxTokens: 64, ChunkUS: []int32{99_000, 970, 20_000, 20_000}, FirstTokenChunk: 1,
			ChunkTokens: []int32{0, 1, result.Unknown, 3}, FinishReason: "stop", HTTPStatus: 200, Status: result.Completed,
		},
		{
			N: 1, Phase: result.Plateau, Scheduled: ms, Sent: ms, FirstByte: 2 * ms, FirstToken: 2 * ms, FirstOutput: 2 * ms, LastToken: 3 * ms, End: 3 * ms,
			PromptTokens: result.Unknown, CachedTokens: result.Unknown, CompletionTokens: 2, TokenSource: "chunks", MaxTokens: 64,
			ChunkUS: []int32{1000, 1000}, FirstTokenChunk: 0, FinishReason: "length", HTTPStatus: 200, Status: result.Completed,
			Way: &result.Way{Prefill: "prefill-0", Decode: "decode-1", PickedDecode: "decode-1", Decision: result.PrefillDecode},
		},
		{
			N: 2, Phase: result.Warmup, Scheduled: ms, Sent: 2 * ms, FirstByte: 9 * ms, FirstToken: result.Never, FirstOutput: result.Never, LastToken: result.Never,
			End: 10 * ms, PromptTokens: 7, CachedTokens: 0, CompletionTokens: 8, TokenSource: "usage", MaxTokens: 64, FirstTokenChunk: -1,
			FinishReason: "length", HTTPStatus: 200, Status: result.Completed,
		},
		{
			N: 3, Phase: result.Tail, Scheduled: 5 * ms, Sent: 5 * ms, FirstByte: result.Never, FirstToken: result.Never, FirstOutput: result.Never,
			LastToken: result.Never, End: 6 * ms, PromptTokens: result.Unknown, CachedTokens: result.Unknown, CompletionTokens: result.Unknown,
			MaxTokens: 64, FirstTokenChunk: -1, Status: result.Failed, ErrorClass: result.ErrConnect, Error: "connexion refusée: \"漢字\",\n=1+1",
		},
	}
}

// Samples returns the samples of each trial of Table.
func Samples() []result.Sample {
	return []result.Sample{
		{T: 0, Source: result.FromServer, Role: "server", Replica: 0, Name: "vllm:num_requests_running", Labels: `model_name="a/b"`, Value: 3},
		{T: time.Second, Source: result.FromGPU, Role: "server", Replica: 1, Name: "power_draw", Value: 71.25, Unit: "W"},
		{T: 2 * time.Second, Source: result.FromClient, Name: "cpu", Value: 1.0 / 3, Unit: "s"},
	}
}
