package validity

import (
	"cmp"
	"slices"
	"strings"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/bounds"
	"sweep.dev/sweep/result/finding"
)

// busy are the signs of a client with too much to do. What that does to the figures is
// bounded by what it did late.
var busy = []rule{clientCPU, clientLoop, clientCeiling, clientThrottled}

// Remarks returns what a person should know of the verdict beside its reasons:
// the bounds that the plan has loosened, a client that had too much to do, a calibration
// that is not relied on, a cache of unknown contents, content that cannot answer the
// question.
func Remarks(e Evidence, b bounds.Bounds) []result.Finding {
	return hold(&e, b, slices.Concat(busy, []rule{loosened, disturbedCalibration, serverStalled, coldConnections, clientWallClock, cacheUnknown, unrepresentative, textUnknown}))
}

// loosened names the bounds that the plan has made wider, each with its
// default, and the reasons that the defaults would have given.
func loosened(e *Evidence, b bounds.Bounds) (result.Finding, bool) {
	def := bounds.Defaults()
	wider := b.Wider(def)
	if len(wider) == 0 {
		return fine()
	}
	text := "the plan has wider bounds: " + strings.Join(wider, ", ")
	if hidden := without(Judge(*e, def).Reasons, Judge(*e, b).Reasons); hidden != "" {
		text += "; by the defaults the trial would be INVALID: " + hidden
	} else {
		text += "; by the defaults the verdict would be the same"
	}
	return result.Finding{Code: finding.BoundLoosened, Text: text}, true
}

// judged returns all causes that were found.
func judged(e Evidence, b bounds.Bounds) []result.Finding {
	v := Judge(e, b)
	return slices.Concat(v.Reasons, v.Remarks, hold(&e, b, busy))
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

// disturbedCalibration returns the remark of CalibrationDisturbed.
func disturbedCalibration(e *Evidence, b bounds.Bounds) (result.Finding, bool) {
	if e.Disturbed == "" {
		return fine()
	}
	relied := *e
	relied.Disturbed = ""
	hidden := without(judged(relied, b), judged(*e, b))
	if hidden == "" {
		return fine()
	}
	return found(finding.CalibrationDisturbed, "by the calibration the trial would have the cause %s, but the calibration was disturbed and does not count: %s; run sweep doctor calibrate --fresh on a quiet machine", hidden, e.Disturbed)
}

// cacheUnknown returns the remark of CacheUnknown.
func cacheUnknown(e *Evidence, _ bounds.Bounds) (result.Finding, bool) {
	if !e.MayKnow || e.Shared == nil {
		return fine()
	}
	if _, who := cacheHits(e); who != "" {
		return fine() // it is judged
	}
	return found(finding.CacheUnknown, "the server's prefix cache may hold these prompts from an earlier run: it was not emptied, and the server reports no cached tokens, so TTFT may be of a warm cache; set cache_bust: true, or backend.reset_cache: between_trials if its owner permits that")
}

// unrepresentative returns the remark of finding.ContentUnrepresentative.
func unrepresentative(e *Evidence, _ bounds.Bounds) (result.Finding, bool) {
	return result.Finding{Code: finding.ContentUnrepresentative, Text: e.Unrepresentative}, e.Unrepresentative != ""
}

// textUnknown returns the remark of [finding.TextUnknown]: completed answers in which no text was found.
func textUnknown(e *Evidence, _ bounds.Bounds) (result.Finding, bool) {
	sample := ""
	none, completed, _ := e.among(func(r *result.Request) bool {
		empty := r.FirstTokenChunk < 0 && len(r.ChunkUS) > 0
		if empty {
			sample = cmp.Or(sample, r.Error)
		}
		return empty
	})
	if none == 0 {
		return fine()
	}
	return found(finding.TextUnknown, "in %d completed requests (of %d) the server counts tokens where no text was found, so they have no TTFT: %s",
		none, completed, cmp.Or(sample, "their first chunk was all"))
}
