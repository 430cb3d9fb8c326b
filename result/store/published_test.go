package store

// A column is one column of requests.parquet or samples.parquet, in words.
// docs/data.md is made from them; the schemas themselves are requestRow and
// sampleRow.
type column struct {
	Name     string
	Type     string // string, bool, int32, int64, double, timestamp, list<int32>
	Unit     string
	Nullable bool
	Doc      string // one sentence
}

// requestColumns returns the columns of requests.parquet, in their order.
func requestColumns() []column {
	return append(attemptColumns(),
		column{"shard", "int32", "", false, "Which part of a divided load sent it; (shard, n) is unique in an attempt."},
		column{"n", "int64", "", false, "Its number within the shard, in the order in which the source made it."},
		column{"slot", "int32", "", false, "The closed-loop slot that sent it; 0 in an open loop."},
		column{"turn", "int32", "", false, "Its turn in a conversation, from 0."},
		column{"phase", "string", "", false, "warmup, probe (of the low-rate stream beside the load), or ramp, plateau or tail by the moment it was sent; figures never count the warm-up, and probes on their own."},
		anchorColumn(),
		column{"scheduled_ns", "int64", "ns", true, "When it was to be sent, counted from the anchor, as are all instants of the row."},
		column{"sent_ns", "int64", "ns", true, "Immediately before its first byte was written or, where it got no connection, when it asked for one; null if it was never tried."},
		column{"first_byte_ns", "int64", "ns", true, "First byte of the answer."},
		column{"first_token_ns", "int64", "ns", true, "First chunk with content, reasoning or tool-call text; null if the answer was not streamed."},
		column{"first_output_ns", "int64", "ns", true, "First chunk with text that is not reasoning."},
		column{"last_token_ns", "int64", "ns", true, "Last chunk with a choice."},
		column{"end_ns", "int64", "ns", true, "The answer was complete, or the request was given up."},
		column{"prompt_tokens", "int64", "tokens", true, "Tokens of the prompt, as the server counted them."},
		column{"cached_tokens", "int64", "tokens", true, "Those of them that it says it had already: in its prefix cache or, where another server computes prompts, as a KV cache that came from there."},
		column{"completion_tokens", "int64", "tokens", true, "Tokens of the answer; token_source says who counted."},
		column{"token_source", "string", "", true, "usage: the server; contradictory: the server, whose counts contradict one another or the chunks; chunks: one token a chunk was assumed; null: not counted."},
		column{"max_tokens", "int64", "tokens", true, "What was asked for at most."},
		column{"target_tokens", "int64", "tokens", true, "The prompt's target length; null if it has none."},
		column{"chunk_us", "list<int32>", "us", false, "Receive times of all events with a choice, as differences of whole microseconds: the first from sent_ns, each other from the one before. Empty if the answer was not streamed."},
		column{"first_token_chunk", "int32", "", true, "Index in chunk_us, from 0, of the first token: the time to it is the sum of the elements up to and with this one."},
		column{"chunk_tokens", "list<int32>", "tokens", true, "Tokens of each event: 0 for one without content, null if the server does not say; the whole list is null if nothing is known."},
		column{"stamp_kind", "string", "", true, "How the receive times were taken: kernel or user; null if nothing was received."},
		column{"coalesced", "int32", "", false, "Chunks with a token that came out of the same read as the one before, whose receive time they share."},
		column{"stamp_error_ns", "int64", "ns", true, "Bound of how much the time of any of them may be too late; null if none is in doubt."},
		column{"fresh_connection", "bool", "", false, "Whether its connection was opened for it: scheduled_ns to sent_ns holds the connect."},
		column{"prefill_pod", "string", "", true, "Pod that computed the prompt, by that pod's own log; null if no log names the request."},
		column{"decode_pod", "string", "", true, "Pod that computed the answer, by that pod's own log; null if no log names the request."},
		column{"picked_prefill", "string", "", true, "Server that the router chose for the prompt, by the router's log. It may have been computed elsewhere."},
		column{"picked_decode", "string", "", true, "Server that the router chose for the answer, by the router's log."},
		column{"decision", "string", "", true, "What the router decided, by its log: prefill-decode or decode-only."},
		column{"finish_reason", "string", "", true, "Why the server stopped, in its words."},
		column{"http_status", "int32", "", true, "Status of the answer; null if there was none."},
		column{"status", "string", "", false, "completed, failed or cancelled."},
		column{"chosen", "bool", "", false, "Whether the plan chose the request to be given up after a time: it may have ended before. Only its time to the first token counts."},
		column{"planned", "bool", "", false, "Whether a cancelled request was given up because the plan says so."},
		column{"error_class", "string", "", true, "Class of what went wrong: connect, timeout, reset, http, auth, overload, rejected, proxy, server, protocol, truncated, no_tokens."},
		column{"error", "string", "", true, "What went wrong, in words."},
	)
}

// sampleColumns returns the columns of samples.parquet, in their order.
func sampleColumns() []column {
	return append(attemptColumns(),
		anchorColumn(),
		column{"time_ns", "int64", "ns", false, "When the sample was taken, counted from the anchor: the clock of the requests."},
		column{"source", "string", "", false, "server (the engine's own metrics), gpu, host (processes of the server) or client (the measuring process)."},
		column{"role", "string", "", false, "Role of the server in its deployment; empty for the client."},
		column{"replica", "int32", "", false, "Which server of that role, from 0."},
		column{"name", "string", "", false, "Name of the series, as its source has it."},
		column{"labels", "string", "", false, `Its labels, k="v" sorted by key and joined by commas; empty for none.`},
		column{"value", "double", "", false, "The value."},
		column{"unit", "string", "", true, "Its unit, where the source states one."},
	)
}

func attemptColumns() []column {
	return []column{
		{"run_id", "string", "", false, "The run that measured it. With cell_id, trial and attempt it names one row of the cells table; a cell has the same cell_id in every run."},
		{"cell_id", "string", "", false, "The cell."},
		{"trial", "int32", "", false, "Which of the plan's repeats, from 1."},
		{"attempt", "int32", "", false, "Which try at the trial, from 1."},
	}
}

func anchorColumn() column {
	return column{"anchor", "timestamp", "us", false, "The wall clock (UTC) at the zero of the attempt's monotonic clock."}
}
