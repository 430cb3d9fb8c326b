// Package executor runs a plan: it launches each deployment once, measures its
// cells one after another, judges every trial, commits it, and gives back what
// was started, whatever happens.
//
//	Run ─▶ deployment (launch, ready, ..., stop)        one LIFO clean-up stack each,
//	          └─▶ trial (reset, warm up, measure, judge, commit)   on contexts of their own
//
// # Life and death
//
// The context of [Run] ends the measuring: its cause says why (a signal, a time
// limit, fail-fast). The trial at hand is then discarded, never committed. What
// was started is stopped on a second context, [Config.Teardown], bounded for
// each deployment by the plan's stop timeout, so that an ended run still cleans
// up; cancelling that one too leaves the pods to the ledger and to the guard.
//
// A server that dies ends its trial at once. The trial is tried again on a new
// launch as often as the plan's retries say, and a deployment is launched again
// at most twice; after that its remaining trials are failed rows.
package executor
