// Package gate says whether tonight's figure of a cell is worse than its nights before.
// It is a pure function of those figures: no clock, no file.
//
// All repeats of one night share its host, pod and temperature. So the night is the unit:
// a figure is compared with the spread of the nights before it, and never with the repeats
// of one night. The rules:
//
//   - The band is the mean of the last 20 good nights, and around it as much as one more
//     night is off with the chance [Level] on one side (Student's t with the prediction
//     factor 1 + 1/n); at least 3 %, and at least the metric's floor.
//   - A regression is two nights running that are worse than the band, or one that is
//     worse by 6 standard deviations, more of them if few nights say how large one is.
//   - A night that is the first to be worse than its band can be measured again
//     ([Series.Again]). Not worse than the band again, it is withdrawn and no part of the
//     band. Worse again, it is a regression at once if the mean of both is worse by 4.5
//     standard deviations; else the next night decides, since both measurements share what
//     is of the night.
//   - A night outside the band is no part of it. While a suspicion is open the band
//     stays as it is, and after a regression too, until a night is back within it or the
//     new level is accepted.
//   - Two nights running that are better begin a new level.
//   - With fewer than 10 good nights there is no band, unless a noise file says how far
//     nights are apart. A night that turns out to be far from all others of its level (a
//     chance of 1e-5, and 3 %) is none of them.
//
// The variances of the series of one metric are shrunk towards their mean, the more the
// less they differ beyond chance (Smyth, Linear models and empirical Bayes methods,
// 2004): a band does not rest on 20 nights of one cell alone. docs/statistics.md has what
// the rules find and how often they are wrong.
package gate
