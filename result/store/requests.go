package store

import (
	"io"
	"iter"
	"slices"
	"time"

	"sweep.dev/sweep/result"
)

// IDs say which attempt rows belong to, and what its clock is tied to.
type IDs struct {
	Run     string // that measured it
	Cell    string
	Trial   int
	Attempt int
	Anchor  result.Anchor
}

// requestRow is one row of requests.parquet.
//
// A tag "optional" on anything but a pointer or a slice would store its zero
// as null.
type requestRow struct {
	RunID   string `parquet:"run_id,dict"`
	CellID  string `parquet:"cell_id,dict"`
	Trial   int32  `parquet:"trial"`
	Attempt int32  `parquet:"attempt"`
	Shard   int32  `parquet:"shard"`
	N       int64  `parquet:"n"`
	Slot    int32  `parquet:"slot"`
	Turn    int32  `parquet:"turn"`
	Phase   string `parquet:"phase,dict"`

	Anchor      int64  `parquet:"anchor,timestamp(microsecond),dict"`
	Scheduled   *int64 `parquet:"scheduled_ns,optional"`
	Sent        *int64 `parquet:"sent_ns,optional"`
	FirstByte   *int64 `parquet:"first_byte_ns,optional"`
	FirstToken  *int64 `parquet:"first_token_ns,optional"`
	FirstOutput *int64 `parquet:"first_output_ns,optional"`
	LastToken   *int64 `parquet:"last_token_ns,optional"`
	End         *int64 `parquet:"end_ns,optional"`

	PromptTokens     *int64  `parquet:"prompt_tokens,optional"`
	CachedTokens     *int64  `parquet:"cached_tokens,optional"`
	CompletionTokens *int64  `parquet:"completion_tokens,optional"`
	TokenSource      *string `parquet:"token_source,optional,dict"`
	MaxTokens        *int64  `parquet:"max_tokens,optional"`
	TargetTokens     *int64  `parquet:"target_tokens,optional"`

	ChunkUS         []int32  `parquet:"chunk_us,list" parquet-element:",plain"`
	FirstTokenChunk *int32   `parquet:"first_token_chunk,optional"`
	ChunkTokens     []*int32 `parquet:"chunk_tokens,list,optional" parquet-element:",optional,plain"`
	StampKind       *string  `parquet:"stamp_kind,optional,dict"`
	Coalesced       int32    `parquet:"coalesced"`
	StampError      *int64   `parquet:"stamp_error_ns,optional"`
	Fresh           bool     `parquet:"fresh_connection"`

	PrefillPod    *string `parquet:"prefill_pod,optional,dict"`
	DecodePod     *string `parquet:"decode_pod,optional,dict"`
	PickedPrefill *string `parquet:"picked_prefill,optional,dict"`
	PickedDecode  *string `parquet:"picked_decode,optional,dict"`
	Decision      *string `parquet:"decision,optional,dict"`

	FinishReason *string `parquet:"finish_reason,optional,dict"`
	HTTPStatus   *int32  `parquet:"http_status,optional"`
	Status       string  `parquet:"status,dict"`
	Chosen       bool    `parquet:"chosen"`
	Planned      bool    `parquet:"planned"`
	ErrorClass   *string `parquet:"error_class,optional,dict"`
	Error        *string `parquet:"error,optional,dict"`
}

// WriteRequests writes the requests of one attempt as a Parquet file.
func WriteRequests(w io.Writer, ids IDs, requests []result.Request) error {
	return write[requestRow](w, len(requests), func(row *requestRow, i int) int {
		row.set(ids, &requests[i])
		return len(row.ChunkUS) + len(row.ChunkTokens)
	})
}

// A Request is one stored request and the attempt that it belongs to. Of the
// anchor only the wall clock was stored.
type Request struct {
	IDs
	result.Request
}

// ReadRequests yields the requests of the Parquet file that r holds, in its
// order. It ends at the first error.
func ReadRequests(r io.ReaderAt, size int64) iter.Seq2[Request, error] {
	return convert(read[requestRow](r, size), (*requestRow).get)
}

// set makes row the stored form of r, of which it keeps slices.
func (row *requestRow) set(ids IDs, r *result.Request) {
	*row = requestRow{
		RunID: ids.Run, CellID: ids.Cell, Trial: int32(ids.Trial), Attempt: int32(ids.Attempt),
		Shard: int32(r.Shard), N: int64(r.N), Slot: int32(r.Slot), Turn: int32(r.Turn), Phase: string(r.Phase),

		Anchor:    ids.Anchor.Start.UnixMicro(),
		Scheduled: instant(r.Scheduled), Sent: instant(r.Sent), FirstByte: instant(r.FirstByte),
		FirstToken: instant(r.FirstToken), FirstOutput: instant(r.FirstOutput),
		LastToken: instant(r.LastToken), End: instant(r.End),

		PromptTokens: count(r.PromptTokens), CachedTokens: count(r.CachedTokens),
		CompletionTokens: count(r.CompletionTokens), TokenSource: text(r.TokenSource), MaxTokens: positive(r.MaxTokens),
		TargetTokens: count(r.TargetTokens),

		ChunkUS: r.ChunkUS, StampKind: text(r.Stamp), Coalesced: int32(r.Coalesced), Fresh: r.Fresh,

		FinishReason: text(r.FinishReason), Status: string(r.Status), Chosen: r.Chosen, Planned: r.Planned,
		ErrorClass: text(r.ErrorClass), Error: text(r.Error),
	}
	if w := r.Way; w != nil {
		row.PrefillPod, row.DecodePod = text(w.Prefill), text(w.Decode)
		row.PickedPrefill, row.PickedDecode, row.Decision = text(w.PickedPrefill), text(w.PickedDecode), text(w.Decision)
	}
	if r.StampError != 0 {
		row.StampError = new(int64(r.StampError))
	}
	if r.HTTPStatus != 0 {
		row.HTTPStatus = new(int32(r.HTTPStatus))
	}
	if r.FirstTokenChunk >= 0 {
		row.FirstTokenChunk = new(int32(r.FirstTokenChunk))
	}
	if r.ChunkTokens != nil {
		row.ChunkTokens = make([]*int32, len(r.ChunkTokens))
		for i := range r.ChunkTokens {
			if r.ChunkTokens[i] != result.Unknown {
				row.ChunkTokens[i] = &r.ChunkTokens[i]
			}
		}
	}
}

// get returns the request of a row: it is the inverse of set.
func (row *requestRow) get() Request {
	r := result.Request{
		Shard: int(row.Shard), N: int(row.N), Slot: int(row.Slot), Turn: int(row.Turn), Phase: result.Phase(row.Phase),

		Scheduled: toInstant(row.Scheduled), Sent: toInstant(row.Sent), FirstByte: toInstant(row.FirstByte),
		FirstToken: toInstant(row.FirstToken), FirstOutput: toInstant(row.FirstOutput),
		LastToken: toInstant(row.LastToken), End: toInstant(row.End),

		PromptTokens: toCount(row.PromptTokens), CachedTokens: toCount(row.CachedTokens),
		CompletionTokens: toCount(row.CompletionTokens), TokenSource: orZero(row.TokenSource), MaxTokens: max(0, toCount(row.MaxTokens)),
		TargetTokens: toCount(row.TargetTokens),

		FirstTokenChunk: -1,
		Stamp:           orZero(row.StampKind), Coalesced: int(row.Coalesced), StampError: time.Duration(orZero(row.StampError)), Fresh: row.Fresh,

		FinishReason: orZero(row.FinishReason), HTTPStatus: int(orZero(row.HTTPStatus)), Status: result.Status(row.Status),
		Chosen: row.Chosen, Planned: row.Planned,
		ErrorClass: orZero(row.ErrorClass), Error: orZero(row.Error),
	}
	way := result.Way{
		Prefill: orZero(row.PrefillPod), Decode: orZero(row.DecodePod),
		PickedPrefill: orZero(row.PickedPrefill), PickedDecode: orZero(row.PickedDecode), Decision: orZero(row.Decision),
	}
	if way != (result.Way{}) {
		r.Way = &way
	}
	if len(row.ChunkUS) > 0 {
		r.ChunkUS = slices.Clone(row.ChunkUS)
	}
	if row.FirstTokenChunk != nil {
		r.FirstTokenChunk = int(*row.FirstTokenChunk)
	}
	if row.ChunkTokens != nil {
		r.ChunkTokens = make([]int32, len(row.ChunkTokens))
		for i, k := range row.ChunkTokens {
			r.ChunkTokens[i] = result.Unknown
			if k != nil {
				r.ChunkTokens[i] = *k
			}
		}
	}
	return Request{row.ids(), r}
}

func (row *requestRow) ids() IDs {
	return IDs{row.RunID, row.CellID, int(row.Trial), int(row.Attempt), result.Anchor{Start: time.UnixMicro(row.Anchor).UTC()}}
}
