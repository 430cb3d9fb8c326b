//go:build !bench

package benchmarks

// worker runs the client of the benchmarks, which are not built here.
func worker() bool { return false }
