// Package stamp takes the receive times of TCP segments from the kernel.
//
// A client that reads its clock after a read has returned measures its own
// turn at the CPU too: with a thousand streams on one core that is
// milliseconds. The kernel stamps each segment as it comes in (SO_TIMESTAMPING
// with software receive stamps); a read returns the stamp of the last segment
// that it took, also when it took only the first bytes of it.
//
// Stamps are of the wall clock. A [Clock] turns them into offsets on the
// trial's monotonic clock, and watches for the wall clock to jump.
package stamp
