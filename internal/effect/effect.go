// Package effect is the only place that does what matters after a crash:
// create, write, fsync, rename and remove files of a run, start and kill
// processes, call providers. Each operation carries a named fault point from
// one explicit list, so that a test can stop the program at every one of them.
package effect

// A Point names one place at which the program can die or an operation fail.
type Point string

// Effects does the operations. A nil *Effects does them without faults.
type Effects struct{}
