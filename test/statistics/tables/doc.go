// Package tables writes what came of rules that were held against truth: figures with
// their errors and bounds, as text, as pictures, and in docs/statistics.md.
package tables
