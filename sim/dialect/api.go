package dialect

import "sweep.dev/sweep/sim/core"

// Start is how an engine starts on a GPU.
type Start struct {
	Division core.Division
	Share    float64 // of the memory, where it is not told
	Seqs     int     // sequences in a step, where it is not told; 0 goes by the card
	Shrinks  bool    // it starts with a cache for less than one longest sequence
}

// API is how an engine answers.
type API struct {
	CachedTokens bool
	Metrics      bool
	Concurrent   int
	Ping         int
}
