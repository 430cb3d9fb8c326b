// Package oracle is a test of what a summary says: random grids, and for each a
// second derivation of every conclusion from the rows alone, by code that shares
// nothing with package report.
package oracle
