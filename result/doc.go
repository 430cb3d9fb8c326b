// Package result holds the requests, the samples and the outcome of a trial, and the
// one registry of columns from which the cells table, the SLO environment, the stored
// schemas and the documentation are made.
//
// It imports nothing else of this project but [finding]; every other package may
// import it.
//
// # Time
//
// Inside a trial every instant is an offset from the trial's [Anchor] on the
// monotonic clock, so that no step of the wall clock can change a duration.
// The anchor also carries the wall clock read at the same moment, which places
// the trial in the world and nothing more.
package result
