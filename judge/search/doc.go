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
//     its measured figures; one that keeps them and was too short to settle is repeated
//     twice as long. The level below the first miss is the point estimate, which is often
//     too high, since the highest of several lucky trials wins.
//   - Confirm: run fresh trials of the highest level that is likely decided soon, and decide
//     the objective by all of them (package objective). If that leaves it open, run as many
//     more as are likely to decide it, also longer ones, as long as the level has not had
//     what one may have. Then go down, or up from the level that is certified.
//
// A level that is open is not one that fails. It fails if its trials, those that found it
// included, leave no doubt that it misses the objective. The loads between the one that is
// certified and the one that fails are open, and the answer says what would decide the least.
//
// Each look at a level is of the trials that were there when it was taken, and has its own
// share of the risk alpha: look j has alpha/(j(j+1)), which sums to less than alpha over any
// number of looks. An objective that another implies has the load that is certified for that
// one at least. So its answer is wrong too if that one is, and the looks at both are counted
// on: the sum is still less than alpha.
//
// A result is of the devices that it was measured on. So a search may ask for several: it
// goes through both stages on each, from the load that is certified so far, with that
// device's own trials alone, and its answer is the least load of all. Each device has an
// equal part of alpha, so that the confidence is that all keep the objective at once.
package search
