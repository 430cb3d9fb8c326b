// Package worker has several clients send one load. The coordinator is the process that
// runs the plan; each client is another process, on this machine or in a pod, that runs
// [Serve].
//
//	coordinator                                       client i of N
//	  │ register (target, i of N)  ────────────────▶  one coordinator, once
//	  │ clock, 12 times            ────────────────▶  its instants
//	  │ run (the whole load)       ────────────────▶  makes its part, opens connections
//	  │ ◀──────────────────────────────── ready ───   and waits
//	  │ begin (at)                 ────────────────▶  sends from that moment on
//	  │ ◀───────── records, progress, records, ... ─
//	  │ ◀──────────────────────────────── end ──────  with what it knows of itself
//	  │ clock, 12 times            ────────────────▶  did its clock change meanwhile?
//
// It is HTTP with JSON; records are gob, each batch with its SHA-256. Every request bears
// the token of this client, which is in no argument, file or log: it comes by standard
// input, or in a pod by the environment. The target is fixed when the coordinator
// registers. A client whose coordinator goes ends: its standard input ends, or nobody asks
// anything of it for its lease, also while it sends: a machine that is gone without a word
// leaves connections that look alive for a quarter of an hour.
//
// All clients begin at one moment of the coordinator's clock. The offset of each client's
// clock is that of the fastest of several round trips, known to within half of it. It moves
// the instants of the client's records onto the trial's clock and changes no latency.
//
// A client that is lost, held back, late, or whose clock changes makes no smaller
// measurement of the rest: [load.ShardHealth] says so, and the verdict is INVALID.
package worker
