// Package source makes loads: what is sent, and when, as a [load.Source] for a
// driver. All of it is decided by the seed, the cell and the trial, before the
// first request or by what the driver says of the requests before.
//
//	New(Config) ─┬─ measured  an open loop's schedule, or a closed loop's
//	             │            conversations, of which a single request is the shortest
//	             ├─ warmup    what is sent before, with prompts of its own
//	             └─ probe     a few requests beside it
//
// Send times are those of an [arrivals.Pace], and texts are made up
// or given. A source of one shard makes its part of the numbers, times and texts
// of the whole.
package source
