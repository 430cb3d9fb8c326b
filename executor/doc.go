// Package executor runs a plan: it brings the trials of each deployment to their
// outcomes one after another, on the server that package serving keeps up for them,
// and commits those.
//
//	Run ─▶ deployment (its trials in order, each on a server that is up)
//	          └─▶ trial (attempts until one is committed; see package attempt)
//
// # Life and death
//
// The context of [Run] ends the measuring: its cause says why (a signal, a time
// limit, fail-fast). The current trial is then discarded, never committed. Package
// serving terminates what was started, on [Config.Teardown], so that an ended run
// still cleans up.
//
// A server that dies ends its trial at once. The trial is tried again on a new
// launch as often as the plan's retries say; after the last launch that serving
// makes, the remaining trials are failed rows.
package executor
