// Package statistics holds every statistical rule of sweep against loads whose
// truth is known: how often it is wrong, and how often it finds what is there.
//
// A [Rule] makes a table of cases, which package tables writes. Each case runs the
// program's own code, the same that judges a real trial, on some hundred simulated
// loads of package models, and counts. Tables are a pure function of their code: seeds
// are the numbers of the runs, from 1 on.
//
// The full tables take minutes (task statistics). Their figures are kept in
// docs/statistics/figures.json, from which docs/statistics.md is made; what the
// rules were like before stands beside them, from docs/statistics/before.json.
// A reduced form runs as a test.
package statistics

//go:generate go -C ../.. run ./test/statistics/cmd -page
