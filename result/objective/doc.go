// Package objective decides whether objectives are met, by what of the requests of
// trials bears on them and not by a figure alone: a p95 that was seen just under its
// limit is over it in truth as often as not.
//
// A percentile keeps its limit if few enough of all requests are over it. How many are
// is known from those that were measured, within the exact bounds of a share; a part of
// an objective passes or fails if the bounds leave no doubt, and is undecided
// otherwise. Requests that share a server share its luck too, so that they say less
// than as many independent ones: their number is divided by a design effect. A mean or a
// rate is decided by the interval of its batch means. Everything else has its value
// alone, a point.
//
// The counts that decide a part are kept with the trial (result.SLOPart). The trials of a
// cell are pooled into one bound: more trials never make a pass harder.
package objective
