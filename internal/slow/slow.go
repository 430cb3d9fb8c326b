// Package slow lets a test do more under the build tag slow, which CI's step
// task test:slow sets: all grids instead of some, whole plans instead of short ones.
// A test that only the tag has stands in a file with that tag and need not ask.
package slow
