// Package oracle tests the conclusions of a summary: it makes random grids, and derives
// every conclusion a second time from the rows alone, by code that shares nothing with
// package report.
package oracle
