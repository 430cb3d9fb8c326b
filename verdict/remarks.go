package verdict

import (
	"fmt"
	"strings"
	"time"

	"sweep.dev/sweep/result"
)

// BoundLoosened is the finding that the plan's bounds are wider than the
// defaults.
const BoundLoosened = "bound_loosened"

// CacheUnknown is the finding that the prefix cache may have known the prompts
// from an earlier run, and that nothing says whether it did.
const CacheUnknown = "cache_unknown"

// loosened names the bounds that the plan has made wider, each with its
// default, and the reasons that the defaults would have given.
func loosened(e *Evidence, b Bounds) (result.Finding, bool) {
	def := Defaults()
	var wider []string
	ratio := func(name string, got, want float64) {
		if got > want {
			wider = append(wider, fmt.Sprintf("%s %.4g %% (default %.4g %%)", name, 100*got, 100*want))
		}
	}
	length := func(name string, got, want time.Duration) {
		if got > want {
			wider = append(wider, fmt.Sprintf("%s %s (default %s)", name, got, want))
		}
	}
	ratio("max_error_rate", b.ErrorRate, def.ErrorRate)
	length("max_schedule_lag", b.ScheduleLag, def.ScheduleLag)
	ratio("max_client_cpu", b.ClientCPU, def.ClientCPU)
	ratio("max_loop", b.Loop, def.Loop)
	length("max_stall", b.Stall, def.Stall)
	if b.ClientLag > 0 {
		length("max_client_lag", b.ClientLag, lagBound(e, def))
	}
	ratio("max_coalesced", b.Coalesced, def.Coalesced)
	ratio("max_steal", b.Steal, def.Steal)
	ratio("max_drift", b.Drift, def.Drift)
	ratio("max_output_off", b.OutputOff, def.OutputOff)
	ratio("max_cache_hit_excess", b.CacheHitExcess, def.CacheHitExcess)
	ratio("max_throttled", b.Throttled, def.Throttled)
	if len(wider) == 0 {
		return result.Finding{}, false
	}
	def.Foreign = b.Foreign
	passed := map[string]bool{}
	for _, f := range Judge(*e, b) {
		passed[f.Code] = true
	}
	var hidden []string
	for _, f := range Judge(*e, def) {
		if !passed[f.Code] {
			hidden = append(hidden, f.Code)
		}
	}
	text := "the plan has wider bounds: " + strings.Join(wider, ", ")
	if len(hidden) > 0 {
		text += "; by the defaults the trial would be INVALID: " + strings.Join(hidden, ", ")
	} else {
		text += "; by the defaults the verdict would be the same"
	}
	return result.Finding{Code: BoundLoosened, Text: text}, true
}

// harmlessLag is the remark on a lag that would have spoiled the receive times,
// had not the kernel taken them.
func harmlessLag(e *Evidence, b Bounds) (result.Finding, bool) {
	lag, how := e.lag()
	strict := e.strictLag()
	if e.Health.StampKind != result.StampKernel || how == "" || lag <= strict || lag > lagBound(e, b) {
		return fine()
	}
	return found(ClientLag, "%s is %s, above %s: receive times are the kernel's and stand; the client was late in reading them", how, short(lag), short(strict))
}

// cacheUnknown is the remark that nothing says whether prompts that may have been
// sent before were answered from the prefix cache.
func cacheUnknown(e *Evidence, _ Bounds) (result.Finding, bool) {
	if !e.MayKnow || e.Shared == nil {
		return fine()
	}
	if _, who := cacheHits(e); who != "" {
		return fine() // it is judged
	}
	return found(CacheUnknown, "the server may have been asked these prompts by an earlier run, its prefix cache was not emptied, and it does not say what it had cached: TTFT may be of a warm cache; say cache_bust: true, or backend.reset_cache: between_trials if its owner permits that")
}
