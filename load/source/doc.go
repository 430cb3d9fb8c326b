// Package source makes loads: the requests and their times, as a [load.Source] for a
// driver. They follow from the seed, the cell and the trial; in a closed loop also
// from the results of the requests before.
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
