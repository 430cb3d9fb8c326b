// Package col has the name of every column of the cells table that code names, as a
// constant made from the registry in package result. Code names a column by these alone:
// a name that is misspelt, or is no column any more, does not compile. After a use of
// another one, go generate adds it.
//
// The columns that a plan adds (arg_*, slo_*, and those of a role) have names
// that are known only when it runs.
package col

//go:generate go run ../../result/colgen ../.. col.go
