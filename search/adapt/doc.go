// Package adapt chooses which levels of a load axis to measure, so that the curve of a
// metric over the load is known from few of them.
//
// It is pure: [Next] is given every trial so far, in any order, and says which trial to
// run next. So a run that was interrupted goes on with the same levels. When nothing is
// left to run, [Between] says from which neighbours each other level is interpolated.
//
// The interpolation is a line between two measured neighbours, in the logarithms of the
// load and of the metric: there a metric that grows with any power of the load is a line.
// Its possible error is how far the lines through two other pairs of measured levels are
// from it: those of the pairs next to it on both sides, or at an end of the axis of the
// two next pairs on one side. A curve that bends in one direction lies between the first
// line and those, so for such a curve the error is a bound (the sandwich algorithm: Rote,
// Computing 48, 1992). One measured level that happens to lie on the line shows nothing:
// without two such pairs no level is left out.
//
// First come the ends of the axis and its middle, and then always the middle of the
// interval with the greatest possible error, until all are at most the tolerance. An error
// that the scatter of the trials explains is none: within two standard errors, more levels
// would tell no more.
package adapt
