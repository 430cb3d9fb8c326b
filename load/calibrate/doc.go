// Package calibrate measures the measuring client: against a server that says
// in each chunk when it was sent, in a process of its own, at the load that a
// plan is about to put on it.
package calibrate
