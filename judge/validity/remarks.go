package validity

import (
	"slices"
	"strings"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/bounds"
	"sweep.dev/sweep/result/finding"
)

// loosened names the bounds that the plan has made wider, each with its
// default, and the reasons that the defaults would have given.
func loosened(e *Evidence, b bounds.Bounds) (result.Finding, bool) {
	def := bounds.Defaults()
	def.ClientLag = lagBound(e, def)
	wider := b.Wider(def)
	if len(wider) == 0 {
		return fine()
	}
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
func disturbedCalibration(e *Evidence, b bounds.Bounds) (result.Finding, bool) {
	if e.Disturbed == "" {
		return fine()
	}
	relied := *e
	relied.Disturbed = ""
	hidden := without(Judge(relied, b), Judge(*e, b))
	if hidden == "" {
		return fine()
	}
	return found(finding.CalibrationDisturbed, "by the calibration the trial would be INVALID (%s), but the calibration was disturbed and does not count: %s; run sweep doctor calibrate --fresh on a quiet machine", hidden, e.Disturbed)
}

// harmlessLag is the remark on a lag that would have spoiled the receive times,
// had not the kernel taken them.
func harmlessLag(e *Evidence, b bounds.Bounds) (result.Finding, bool) {
	lag, how := e.lag()
	strict := e.strictLag()
	if e.Health.StampKind != result.StampKernel || how == "" || lag <= strict || lag > lagBound(e, b) {
		return fine()
	}
	return found(finding.ClientLag, "%s is %s, above %s: the receive times are right, since the kernel stamped them; the client only read them late", how, short(lag), short(strict))
}

// cacheUnknown is the remark of CacheUnknown.
func cacheUnknown(e *Evidence, _ bounds.Bounds) (result.Finding, bool) {
	if !e.MayKnow || e.Shared == nil {
		return fine()
	}
	if _, who := cacheHits(e); who != "" {
		return fine() // it is judged
	}
	return found(finding.CacheUnknown, "the server's prefix cache may hold these prompts from an earlier run: it was not emptied, and the server reports no cached tokens, so TTFT may be of a warm cache; set cache_bust: true, or backend.reset_cache: between_trials if its owner permits that")
}

// unrepresentative is the remark of finding.ContentUnrepresentative.
func unrepresentative(e *Evidence, _ bounds.Bounds) (result.Finding, bool) {
	return result.Finding{Code: finding.ContentUnrepresentative, Text: e.Unrepresentative}, e.Unrepresentative != ""
}
