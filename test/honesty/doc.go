// Package honesty holds whole runs of sweep to its word, both ways: what goes
// wrong on purpose is flagged with the right reason, and nothing is where
// nothing went wrong. Its tests stand behind the build tag honesty and are run
// by `task honesty`: real processes, real run directories, both drivers.
package honesty
