// Package quality says whether one setting of a server answers worse than another: it
// reads a set of prompts, scores answers, and compares the answers that two servers
// gave to the same prompts. It asks no server.
//
//	Set ──▶ Item.Score(text) ──▶ Answer ──▶ Summarize: the score of one server
//	                                   └──▶ Compare: two servers, item by item
//
// Two servers answer the same items, so the items are pairs, and only those on which
// the two differ say which is better. Every interval and test is exact or a score
// interval; the sources stand at the functions.
package quality
