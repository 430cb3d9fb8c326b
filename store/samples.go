package store

import (
	"io"
	"iter"
	"time"

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
	return convert(read[sampleRow](r, size), (*sampleRow).get)
}

func (row *sampleRow) set(ids IDs, s *result.Sample) {
	*row = sampleRow{
		RunID: ids.Run, CellID: ids.Cell, Trial: int32(ids.Trial), Attempt: int32(ids.Attempt),
		Anchor: ids.Anchor.Start.UnixMicro(), Time: int64(s.T), Source: string(s.Source),
		Role: s.Role, Replica: int32(s.Replica), Name: valid(s.Name), Labels: valid(s.Labels),
		Value: s.Value, Unit: text(s.Unit),
	}
}

// get is the inverse of set.
func (row *sampleRow) get() Sample {
	return Sample{
		IDs{row.RunID, row.CellID, int(row.Trial), int(row.Attempt), result.Anchor{Start: time.UnixMicro(row.Anchor).UTC()}},
		result.Sample{
			T: time.Duration(row.Time), Source: result.Source(row.Source), Role: row.Role, Replica: int(row.Replica),
			Name: row.Name, Labels: row.Labels, Value: row.Value, Unit: orZero(row.Unit),
		},
	}
}
