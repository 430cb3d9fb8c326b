package summary

import (
	"strings"
	"testing"

	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/report/reporttest"
)

// An engine whose trials were not all made with the same software is named for all
// figures and with the comparison that has them; two engines may differ.
func TestSummary_namesOtherSoftware(t *testing.T) {
	text := `axes engine! concurrency
repeats 2
cell vllm 1
  ok tok=10 engine=vllm model=m engine_version=v1 image_digest=sha256:0123456789abcdef
  ok tok=10 engine=vllm model=m engine_version=v1 image_digest=sha256:0123456789abcdef
cell vllm 8
  ok tok=20 engine=vllm model=m engine_version=v1 image_digest=sha256:0123456789abcdef
  ok tok=20 engine=vllm model=m engine_version=VERSION image_digest=IMAGE
cell sglang 8
  ok tok=15 engine=sglang model=m engine_version=v7
  ok tok=15 engine=sglang model=m engine_version=v7
`
	of := func(version, image string) string {
		var b strings.Builder
		s := strings.NewReplacer("VERSION", version, "IMAGE", image).Replace(text)
		if err := Write(&b, reporttest.MadeUp(t, s), draw.Style{}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	const version = "vllm with m has more than one engine version (v1, v2): a difference between these figures may be that of the software."
	const image = "vllm with m has more than one image digest (sha256:0123456789ab, sha256:fedcba987654)"
	same := of("v1", "sha256:0123456789abcdef")
	if strings.Contains(same, "more than one") {
		t.Errorf("nothing differs:\n%s", same)
	}
	other := of("v2", "sha256:fedcba9876543210")
	for _, want := range []string{version, image} {
		if n := strings.Count(other, want); n != 2 {
			t.Errorf("%q is there %d times, want once for all figures and once with the comparison:\n%s", want, n, other)
		}
	}
}

// Trials that an earlier run has measured are counted and named.
func TestSummary_namesReused(t *testing.T) {
	var b strings.Builder
	err := Write(&b, reporttest.MadeUp(t, `axes concurrency
cell 1
  ok tok=10 reused_from=first
cell 2
  ok tok=10 reused_from=first
cell 4
  ok tok=10
`), draw.Style{})
	if err != nil {
		t.Fatal(err)
	}
	if want := "2 of 3 trials were measured by an earlier run, and taken over from first."; !strings.Contains(b.String(), want) {
		t.Errorf("not said: %q\n%s", want, b.String())
	}
}
