// Package fit finds the few constants of the simulated engine with which it does best what a
// real server did, and says how far off it is on cells that it has not seen.
//
// Each cell is replayed: its requests, with the lengths that they had, go through the
// engine of package sim/core on virtual time; a closed loop sends its next request when the
// simulated one has ended. The constants are those with the least squares of the logarithms
// of simulated / measured, over the medians of TTFT and TPOT and the 95th percentile of
// TTFT, found by Levenberg and Marquardt's method (Marquardt, J. SIAM 11, 1963). Every
// third cell is left out of that.
//
// It is pure: no clock, no I/O.
package fit
