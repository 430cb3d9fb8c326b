// Package search finds the greatest load at which a server keeps its objectives.
//
// It is pure: [Next] is given every trial so far and says which trial to run next, and
// [Answers] says what they show. So a search that was interrupted goes on from the
// trials that it has, and ends with the same answer.
//
// Loads are levels, each a given share above the one below. A search
// has two stages.
//
//   - Find: double the load until a trial misses an objective, then bisect between the
//     last level that kept them and the first that did not. One trial a level, decided by
//     its measured figures. The level below the first miss is the point estimate. It is
//     too high in 20 to 40 % of searches, since the highest of several lucky trials wins.
//   - Confirm: run fresh trials of that level and of the one above, in an order by seed,
//     and bound the share of requests over the limit from them (package objective). If
//     the bound does not hold with the confidence asked for, run as many again if that
//     may be enough, else take the next level below.
//
// Each look at a level has its own share of the risk alpha: look j has alpha/(j(j+1)),
// which sums to less than alpha over any number of looks. An objective that another implies
// has the load that is certified for that one at least. So its answer is wrong too if that
// one is, and the looks at both are counted on: the sum is still less than alpha.
//
// A result is of the devices that it was measured on. So a search may ask for several: it
// goes through both stages on each, from the load that is certified so far, with that
// device's own trials alone, and its answer is the least load of all. Each device has an
// equal part of alpha, so that the confidence is that all keep the objective at once.
package search
