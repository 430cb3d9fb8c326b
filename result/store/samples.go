package store

import (
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/parquet-go/parquet-go"

	"sweep.dev/sweep/result"
)

// sampleRow is one row of samples.parquet.
type sampleRow struct {
	RunID   string `parquet:"run_id,dict"`
	CellID  string `parquet:"cell_id,dict"`
	Trial   int32  `parquet:"trial"`
	Attempt int32  `parquet:"attempt"`

	Anchor  int64  `parquet:"anchor,timestamp(microsecond),dict"`
	Time    int64  `parquet:"time_ns"`
	Source  string `parquet:"source,dict"`
	Role    string `parquet:"role,dict"`
	Replica int32  `parquet:"replica"`
	Name    string `parquet:"name,dict"`
	Labels  string `parquet:"labels,dict"`

	Value float64 `parquet:"value"`
	Unit  *string `parquet:"unit,optional,dict"`
}

// WriteSamples writes the samples of one attempt as a Parquet file.
func WriteSamples(w io.Writer, ids IDs, samples []result.Sample) error {
	return write(w, len(samples), func(row *sampleRow, i int) int {
		row.set(ids, &samples[i])
		return 1
	})
}

// A Sample is one stored sample and the attempt that it belongs to. Of the
// anchor only the wall clock was stored.
type Sample struct {
	IDs
	result.Sample
}

// ReadSamples yields the samples of the Parquet file that r holds, in its
// order. It ends at the first error.
func ReadSamples(r io.ReaderAt, size int64) iter.Seq2[Sample, error] {
	return func(yield func(Sample, error) bool) {
		f, err := parquet.OpenFile(r, size, parquet.SkipBloomFilters(true))
		if err != nil {
			yield(Sample{}, fmt.Errorf("open parquet: %w", err))
			return
		}
		for _, group := range f.RowGroups() {
			c := &cursors{group: group, schema: f.Schema(), want: parquet.SchemaOf(sampleRow{})}
			next := c.samples()
			for range group.NumRows() {
				s := next()
				if c.err != nil {
					break
				}
				if !yield(s, nil) {
					_ = c.close() // read only
					return
				}
			}
			if err := c.close(); err != nil {
				yield(Sample{}, fmt.Errorf("read rows: %w", err))
				return
			}
		}
	}
}

// samples returns what gets one sample after the other.
func (c *cursors) samples() (next func() Sample) {
	run, cell, trial, attempt := c.of("run_id"), c.of("cell_id"), c.of("trial"), c.of("attempt")
	anchor, at, source, role, replica := c.of("anchor"), c.of("time_ns"), c.of("source"), c.of("role"), c.of("replica")
	name, labels, value, unit := c.of("name"), c.of("labels"), c.of("value"), c.of("unit")
	return func() Sample {
		return Sample{
			IDs{run.text(), cell.text(), int(trial.number()), int(attempt.number()), result.Anchor{Start: time.UnixMicro(anchor.number()).UTC()}},
			result.Sample{
				T: time.Duration(at.number()), Source: result.Source(source.text()), Role: role.text(), Replica: int(replica.number()),
				Name: name.text(), Labels: labels.text(), Value: value.float(), Unit: unit.text(),
			},
		}
	}
}

func (row *sampleRow) set(ids IDs, s *result.Sample) {
	*row = sampleRow{
		RunID: ids.Run, CellID: ids.Cell, Trial: int32(ids.Trial), Attempt: int32(ids.Attempt),
		Anchor: ids.Anchor.Start.UnixMicro(), Time: int64(s.T), Source: string(s.Source),
		Role: s.Role, Replica: int32(s.Replica), Name: valid(s.Name), Labels: valid(s.Labels),
		Value: s.Value, Unit: text(s.Unit),
	}
}
