package result

import "time"

// Never is the offset of an instant that did not happen: the first token of a
// request that got none, for example.
const Never = time.Duration(-1)

// Unknown is a count of tokens that is not known.
const Unknown = -1

// Phase says which part of a trial a request belongs to, by the moment it was
// sent. Figures count the ramp, the plateau and the tail; never the warm-up, and
// probes on their own.
type Phase string

// The phases of a trial.
const (
	Warmup  Phase = "warmup"
	Probe   Phase = "probe"   // of the low-rate stream beside the load
	Ramp    Phase = "ramp"    // in flight still rising to its target
	Plateau Phase = "plateau" // in flight at its target
	Tail    Phase = "tail"    // in flight falling for the last time
)

// Status is how a request ended.
type Status string

// The ways a request ends.
const (
	Completed Status = "completed"
	Failed    Status = "failed"
	Cancelled Status = "cancelled" // by us: the trial's time was over, or it was interrupted
)

// Where a number of output tokens is from.
const (
	FromUsage     = "usage"         // the server's count
	FromChunks    = "chunks"        // one token a chunk assumed
	Contradictory = "contradictory" // the server's, which contradicts itself or the chunks
)

// Error classes of requests. A class is a fact about where it broke; the text
// beside it says how.
const (
	ErrConnect   = "connect"   // no connection, or it was refused
	ErrTimeout   = "timeout"   // the request's own deadline
	ErrReset     = "reset"     // the connection broke before the stream was complete
	ErrHTTP      = "http"      // a status other than 200 that is in no class below
	ErrAuth      = "auth"      // 401, 403
	ErrOverload  = "overload"  // 408, 429, 503, 529
	ErrRejected  = "rejected"  // 400, 404, 422: the request itself is wrong for this server
	ErrProxy     = "proxy"     // 502, 520 to 524
	ErrServer    = "server"    // an error inside a 200 stream, a finish_reason that is one, or 5xx
	ErrProtocol  = "protocol"  // not SSE, not JSON, a line over its limit
	ErrTruncated = "truncated" // ended without finish_reason
	ErrNoTokens  = "no_tokens" // finished, but nothing was generated
)

// A Request is one request as the client saw it.
//
// Instants are offsets from the trial's anchor, or [Never].
type Request struct {
	Shard, N   int // identity within the trial: (shard, n) is unique
	Slot, Turn int // the closed-loop slot that sent it, and its turn in a conversation
	Phase      Phase

	Scheduled   time.Duration // when the source wanted it sent
	Sent        time.Duration // immediately before the first byte was written; without a connection, when one was asked for
	FirstByte   time.Duration // first byte of the answer
	FirstToken  time.Duration // first chunk with non-empty content, reasoning or tool-call text
	FirstOutput time.Duration // first chunk with non-reasoning text
	LastToken   time.Duration // last chunk with a choice
	End         time.Duration // the stream was complete, or the request was given up

	PromptTokens     int // Unknown where the server does not say
	CachedTokens     int
	CompletionTokens int
	TokenSource      string // FromUsage, FromChunks, Contradictory or ""
	MaxTokens        int    // what was asked for
	TargetTokens     int    // what the prompt was made for; Unknown if none was asked for

	// ChunkUS holds the receive times of all events with a choice, in whole
	// microseconds: the first counted from Sent, each other from the one
	// before. They are differences of floor(t/1us), so that sums are exact.
	// Empty if the answer was not streamed.
	ChunkUS []int32
	// FirstTokenChunk is the index in ChunkUS of the first token, or -1.
	// TTFT from the send is the sum of ChunkUS up to and with it.
	FirstTokenChunk int
	// ChunkTokens holds the tokens of each event: 0 for a role-only or empty
	// one, Unknown where the server does not say. Nil if no event's is known.
	ChunkTokens []int32

	// Stamp is how this answer's times were taken: StampKernel or StampUser.
	Stamp string
	// Coalesced counts the chunks with a token that came out of the same read as
	// the one before, whose receive time they share; StampError bounds by how
	// much the time of any of them may be too late.
	Coalesced  int
	StampError time.Duration
	// Fresh says that the connection was opened for this request, which had to
	// wait for it: Scheduled to Sent holds the connect.
	Fresh bool

	// Answer is the text of the answer, where the job asked to keep it. It is
	// never stored.
	Answer string

	// Paused is how long the slot waited before Scheduled, beyond its think time,
	// because its previous request failed. 0 in an open loop.
	Paused time.Duration
	// RetryAfter is how long the server asked to be left alone when it refused the
	// request; 0 if it did not.
	RetryAfter time.Duration

	// Way is where it went, as the logs of the servers say; nil if they say nothing of it.
	Way *Way

	FinishReason string
	HTTPStatus   int // 0 if there was no answer
	Status       Status
	// Chosen says that the plan chose the request to be given up after a time, and
	// Planned that this Cancelled one was: others end before.
	Chosen     bool
	Planned    bool
	ErrorClass string
	Error      string
}

// A Way is the servers that a request went to, each by the name that the logs have for it:
// of a pod, or of a worker. "" is not known.
type Way struct {
	Prefill, Decode             string // the servers that say in their own logs that they had it
	PickedPrefill, PickedDecode string // the servers that the router says it chose
	Decision                    string // of the router: PrefillDecode or DecodeOnly
}

// The decisions of a router.
const (
	PrefillDecode = "prefill-decode"
	DecodeOnly    = "decode-only"
)

// Measured reports whether a request counts in the figures of its trial.
func (r *Request) Measured() bool { return r.Phase != Warmup && r.Phase != Probe }

// TokenChunks returns how many events of the answer have a token; where the server
// does not say, all from the first token on.
func (r *Request) TokenChunks() int {
	if r.FirstTokenChunk < 0 {
		return 0
	}
	n := 0
	for i := r.FirstTokenChunk; i < len(r.ChunkUS); i++ {
		if i >= len(r.ChunkTokens) || r.ChunkTokens[i] != 0 {
			n++
		}
	}
	return n
}

// How receive times are taken.
const (
	StampKernel = "kernel" // by the kernel, as a segment came in
	StampUser   = "user"   // by this process, after its read returned
)
