// Package attempt makes one attempt at a trial: it measures one load on a server
// that is up, and keeps what was seen. Package outcome concludes from that.
//
//	New ─▶ Run (count tokens, reset, warm up, measure) ─▶ Finish (conclude, write files)
//
// It knows no other trial. Which attempt is made, on which server, whether it is
// tried again, and its commit are the executor's.
package attempt
