// Package serving owns the servers of a run: it launches the server of a
// deployment, waits until that may be measured, says why one could not be used,
// and gives back each server that was started, also after an error.
//
//	Manager ─▶ Servers (of one deployment, at most one is up) ─▶ Server (one launch)
//	   │                                                            └─▶ pod (its ledger, its cost)
//	   └─▶ Reclaim (what an earlier run of the directory left)
//
// # Life and death
//
// The context of a launch ends the waiting for it. What was started is ended on a
// second context, [Config.Teardown], bounded for each server by the plan's stop
// timeout and the time that the provider needs; cancelling that one too leaves the
// pods to the ledger and to the guard. When the run is ended, all its servers are
// terminated at once, in every state.
//
// A server that dies is launched again at most twice; after that the deployment's
// failure is that of the last one. A server that could not be ended gives its
// deployment up: nothing more is started there.
//
// A [Measurer] uses the servers; this package does not know for what. The folders
// below are render (the backend's spec), ready (waiting), ask (requests to a server)
// and budget (money); none of them imports this package.
package serving
