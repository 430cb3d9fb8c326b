package result

// Values of the column pd: whether servers for prefill computed the prompts, and servers
// for decode got their KV caches.
const (
	PDProven  = "proven"  // for all requests, or almost all
	PDPartial = "partial" // for a part of the requests
	PDAbsent  = "absent"  // servers for decode did all of it
	PDUnknown = "unknown" // the counters that would tell are missing
)
