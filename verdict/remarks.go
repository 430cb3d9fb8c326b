package verdict

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
)

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
	text := "the plan has wider bounds: " + strings.Join(wider, ", ")
	if hidden := without(Judge(*e, def), Judge(*e, b)); hidden != "" {
		text += "; by the defaults the trial would be INVALID: " + hidden
	} else {
		text += "; by the defaults the verdict would be the same"
	}
	return result.Finding{Code: finding.BoundLoosened, Text: text}, true
}

// without names the codes of the findings that are not among others.
func without(all, others []result.Finding) string {
	var codes []string
	for _, f := range all {
		if !slices.ContainsFunc(others, func(o result.Finding) bool { return o.Code == f.Code }) {
			codes = append(codes, f.Code.String())
		}
	}
	return strings.Join(codes, ", ")
}

// disturbedCalibration is the remark of CalibrationDisturbed.
func disturbedCalibration(e *Evidence, b Bounds) (result.Finding, bool) {
	if e.Disturbed == "" {
		return fine()
	}
	relied := *e
	relied.Disturbed = ""
	hidden := without(Judge(relied, b), Judge(*e, b))
	if hidden == "" {
		return fine()
	}
	return found(finding.CalibrationDisturbed, "by the calibration the trial would be INVALID (%s), and it does not count: %s; sweep calibrate --fresh on a quiet machine measures again", hidden, e.Disturbed)
}

// harmlessLag is the remark on a lag that would have spoiled the receive times,
// had not the kernel taken them.
func harmlessLag(e *Evidence, b Bounds) (result.Finding, bool) {
	lag, how := e.lag()
	strict := e.strictLag()
	if e.Health.StampKind != result.StampKernel || how == "" || lag <= strict || lag > lagBound(e, b) {
		return fine()
	}
	return found(finding.ClientLag, "%s is %s, above %s: receive times are the kernel's and stand; the client was late in reading them", how, short(lag), short(strict))
}

// cacheUnknown is the remark of CacheUnknown.
func cacheUnknown(e *Evidence, _ Bounds) (result.Finding, bool) {
	if !e.MayKnow || e.Shared == nil {
		return fine()
	}
	if _, who := cacheHits(e); who != "" {
		return fine() // it is judged
	}
	return found(finding.CacheUnknown, "the server may have been asked these prompts by an earlier run, its prefix cache was not emptied, and it does not say what it had cached: TTFT may be of a warm cache; say cache_bust: true, or backend.reset_cache: between_trials if its owner permits that")
}

// unrepresentative is the remark of finding.ContentUnrepresentative.
func unrepresentative(e *Evidence, _ Bounds) (result.Finding, bool) {
	return result.Finding{Code: finding.ContentUnrepresentative, Text: e.Unrepresentative}, e.Unrepresentative != ""
}
