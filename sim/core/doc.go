// Package core is the simulated engine without a clock: virtual time goes in,
// tokens come out. It holds the arithmetic of a GPU, the memory of an engine
// that starts, a paged KV cache and a continuous-batching scheduler in the
// manner of vLLM's V1 engine. It reads no clock, starts no
// goroutine and does no I/O, and the same calls give the same results.
//
// # Time of a step
//
// A step computes some tokens of some sequences. It is the sum over three parts
// of the model (body, output matrix, attention) of the larger of
//
//	bytes read and written / (bandwidth x [MemoryEfficiency])
//	operations / (peak rate of the type x [ComputeEfficiency])
//
// plus [StepOverhead], plus two all-reduces a layer where several GPUs share
// the model. This is the roofline model of Williams, Waterman and Patterson,
// "Roofline: an insightful visual performance model" (CACM 52(4), 2009); the
// counts are the usual ones: 2 operations a weight and token, 4 x heads x head
// size a layer for each pair of a token and a token that it attends to, all
// weights read once a step, each sequence's keys and values read once a step.
//
// # Where the constants come from
//
// GPUs and models: package catalog, from data sheets and published
// configurations. [MemoryEfficiency], [ComputeEfficiency], [StepOverhead] and
// those of the memory plan are chosen, each with its reason beside it. They are
// on the optimistic side of what is published for real engines.
//
// # What it is not good for
//
// It does not predict what a real engine will deliver: real ones reach 60 to
// 85 % of a card's bandwidth at batch 1, and less of its operations with small
// batches; kernels, quantisation, speculative decoding, sliding windows,
// mixture of experts, host overhead and thermal limits are not in it. It is for
// rehearsing a plan, for testing everything that measures, and for the shape of
// curves: what saturates first, and why.
package core
