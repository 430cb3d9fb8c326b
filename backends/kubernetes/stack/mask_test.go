package stack

import (
	"slices"
	"testing"
)

func TestMasked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want []string }{
		{[]string{"--api-key", "sk-1", "--port", "8"}, []string{"--api-key", "***", "--port", "8"}},
		{[]string{"--api-key=sk-1", "--max-tokens=8", "--tokenizer", "m"}, []string{"--api-key=***", "--max-tokens=8", "--tokenizer", "m"}},
		{[]string{"--api-key", "--port", "8"}, []string{"--api-key", "--port", "8"}},
		{[]string{"HF_TOKEN=hf_1", "HF_TOKEN=$(HF_TOKEN)"}, []string{"HF_TOKEN=***", "HF_TOKEN=$(HF_TOKEN)"}},
		{[]string{"--url=http://u:pw@h/x"}, []string{"--url=http://***@h/x"}},
		{[]string{"a=1 HF_TOKEN='x y' b --api-key 'k' \\\n --api-key=\"$K\" --seed 1"}, []string{"a=1 HF_TOKEN=*** b --api-key *** \\\n --api-key=\"$K\" --seed 1"}},
		{[]string{"the key is under the mat"}, []string{"the key is under the mat"}},
	} {
		if got := masked(c.in); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.in, got, c.want)
		}
	}
}
