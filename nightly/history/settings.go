package history

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/compare"
)

// Settings are the keys of a run's plan that say what is measured and how, with their values.
type Settings struct {
	Run  string            `json:"run_id"`
	Plan map[string]string `json:"plan"`
}

// The keys of a plan that say what is measured, but for its engines', and how it is.
var (
	ofSubject    = []string{"backend.", "model", "model_revision"}
	ofConditions = []string{"load.", "loads.", "collect", "seed", "timeouts.request", "quality"}
)

const (
	ofEngines = "engines."
	maxValue  = 100 // of a value; of a longer one there is a digest
	maxNamed  = 3   // settings in a sentence
)

// SettingsOf returns the settings of a run, or nil if its plan is of another version.
func SettingsOf(run *report.Run) map[string]string {
	kept := map[string]string{}
	for key, value := range compare.Keys(run.Resolved.Plan) {
		if !under(key, append(slices.Concat(ofSubject, ofConditions), ofEngines)) {
			continue
		}
		if len(value) > maxValue {
			sum := sha256.Sum256([]byte(value))
			value = shortDigest("sha256:" + hex.EncodeToString(sum[:]))
		}
		kept[key] = value
	}
	if len(kept) == 0 {
		return nil
	}
	return kept
}

// under reports whether a key is one of some, or below one.
func under(key string, some []string) bool {
	return slices.ContainsFunc(some, func(s string) bool {
		return key == s || strings.HasPrefix(key, strings.TrimSuffix(s, ".")+".")
	})
}

// Conditions returns in words how the way of measuring differs between two runs: "" if that
// is not known.
func (f *File) Conditions(before, now string) string {
	return f.differ(before, now, ofConditions)
}

// Subject returns in words how what is measured differs between two runs, for cells of an
// engine: "" if that is not known.
func (f *File) Subject(before, now, engine string) string {
	return f.differ(before, now, append(slices.Clone(ofSubject), ofEngines+engine))
}

func (f *File) differ(before, now string, keys []string) string {
	old, fresh := f.Settings[before], f.Settings[now]
	if old == nil || fresh == nil {
		return ""
	}
	all := maps.Clone(old)
	maps.Copy(all, fresh)
	var changes []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if under(key, keys) && old[key] != fresh[key] {
			changes = append(changes, fmt.Sprintf("%s %s -> %s", key, cmp.Or(old[key], "none"), cmp.Or(fresh[key], "none")))
		}
	}
	if n := len(changes) - maxNamed; n > 0 {
		changes = append(changes[:maxNamed], fmt.Sprintf("%d more settings", n))
	}
	return strings.Join(changes, ", ")
}
