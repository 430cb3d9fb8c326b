// Package load sends requests and measures the answers.
//
// A [Source] says what is sent when; a [Driver] sends it and records what came
// back. The seam is the driver, not the single request, because a driver may
// own many connections in one event loop. Nothing above knows which one ran.
//
//	source.Config ──source.New──▶ Source ──Next──▶ Driver ──Record──▶ requests
//	(seed, shape, prompts)        (no clock)       (clock, sockets)
//
// # What is timed, and from which instant
//
// Every instant is an offset on the monotonic clock from the trial's anchor.
//
//   - Scheduled is when the source wanted the request sent. In a closed loop
//     that is the end of the slot's last request plus the think time, or plus
//     the pause after a request that failed; in an open loop the start of the
//     load plus the arrival's offset.
//   - Sent is read immediately before the first byte is written, on a
//     connection that is open: connecting is no part of any latency. A request
//     that got no connection counts as sent when it asked for one.
//   - A chunk's time is when the kernel received the segment with the last byte
//     of its event (package stamp), so that neither a busy client nor a late
//     wake-up is in it. A read that took several segments has the time of the
//     last: events that came out of one read share it, are counted, and bear
//     the bound of the error, which is the time since the connection was last
//     empty. If the kernel gives no stamp (another system than Linux, a tunnel
//     inside this process), it is when the read returned, and the row says so.
//   - FirstByte and End are of the same kind; the end of a request that failed or
//     was given up is when we noticed.
//   - The first token is the first chunk with non-empty content, reasoning or
//     tool-call text. A chunk that only names the role does not count, although
//     some clients count it.
//
// Sent - Scheduled is our own lag, in both loops, and is recorded for each
// request: a client that could not keep up shows it, and the trial is then
// INVALID. In an open loop latencies are counted from Scheduled. If the server
// stalls for a second, the requests that were due in that second wait too, and
// leaving their wait out (coordinated omission) would make the stall look like
// one slow request among thousands.
//
// The time between a stamp and the return of its read is kept beside the results
// ([Health]'s Lag): it is the error of a client without stamps. The round trip of
// the connections is kept too, and is never subtracted from anything. Stamps are of
// the wall clock, which is compared with the monotonic one ten times a second: a
// jump is counted in ClockSteps, and the times between the jump and its discovery
// cannot be trusted.
//
// Requests are encoded before they are due, connections are opened before the
// load begins, and JSON is looked at only for the few facts that are needed
// while a stream runs. Nothing is ever sent again by itself: a request that
// failed is a failed request.
//
// # The same load every time
//
// A source has no clock and does no I/O. Ids, prompts and arrival times follow
// from the seed, the cell and the trial alone, so that the same plan makes the
// same load, and its shards together make exactly the load that one source
// would.
package load
