package export

import (
	"testing"

	"sweep.dev/sweep/judge/published"
)

// TestPlausible: sweep judge finds no figure of an export that cannot be.
func TestPlausible(t *testing.T) {
	for format, c := range map[string]struct {
		file  string
		facts map[string]string
	}{
		"vllm":       {"summary.json", nil},
		"inferencex": {"agg_", map[string]string{"MODEL_PREFIX": "m", "IMAGE": "i", "PRECISION": "fp8", "SPEC_DECODING": "none", "TP": "2", "EP_SIZE": "1", "DP_ATTENTION": "false"}},
	} {
		list, err := published.Of(exported(t, open(t, plain()), format, Options{Facts: c.facts}).data(t, c.file), published.Options{})
		if err != nil || len(list) != 1 {
			t.Errorf("%s: %d loads, %v", format, len(list), err)
			continue
		}
		for _, f := range list[0].Findings {
			if f.Code == "implausible" && f.State != published.OK || f.State == published.Remark {
				t.Errorf("%s: %s: %s", format, f.Code, f.Text)
			}
		}
	}
}
