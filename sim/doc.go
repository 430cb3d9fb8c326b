// Package sim is the simulated engine as a program: an OpenAI server in the
// dialect of vLLM, SGLang, TensorRT-LLM, llama.cpp or TGI in front of the virtual
// GPU of package sim/core, paced in real time. Package sim/dialect holds the
// differences between them; the computation is the same for all. `sweep sim` runs it,
// always as a process of its own, so that it never shares a scheduler or a garbage
// collector with the client that measures it.
//
// # What is simulated
//
// Start-up (with the real engine's failures), continuous batching, paged cache,
// preemption and prefix cache are those of sim/core, whose documentation says
// where every constant comes from and what the figures are not good for. The HTTP
// front end adds no simulated time: a request is queued the moment its body has been
// read.
//
// # Text and tokens
//
// A token is a run of at most eight letters with the space before it, up to
// three digits, one other character, or a run of white space; the template of a
// chat costs a few more. The output is common English words, one token each. The
// words, and the length at which the model stops by itself, follow from the seed,
// the prompt and the request's own seed alone, so the same request gets the same
// answer in any order and at any load. See package text.
//
// # Time
//
// Steps end at times that follow from each other, not from when the timer
// fired, so that a late timer never adds up. How late it fired is exported as
// sim_timer_error_seconds and logged: a sleep alone is half a millisecond late,
// this pacer tens of microseconds. After a pause of more than [live.MaxLag] (a
// stopped process, a starved machine) the clock is set anew instead of running
// the missed steps in a burst, and sim_clock_resyncs_total counts it.
//
// With a time scale of 10 everything is ten times as fast, for client and
// metrics alike. The version says so (+sim.x10), since no figure is then that of
// the GPU.
package sim
