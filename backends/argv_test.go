package backends

import (
	"errors"
	"strings"
	"testing"
)

func TestCheckArgv(t *testing.T) {
	for _, c := range []struct {
		argv, entrypoint string
		replaced         bool
		want             string
	}{
		{"vllm serve org/model --port 8000", "vllm serve", true, ""},
		{"vllm serve org/model --port 8000", "vllm serve", false, ""},
		{"vllm serve vllm serve org/model", "vllm serve", true, "repeats"},
		{"vllm serve python -m vllm.entrypoints.openai.api_server", "vllm serve", true, "repeats"},
		{"vllm serve /usr/bin/python3 -m vllm", "vllm serve", false, "repeats"},
		{"vllm serve python-model --x", "vllm serve", true, ""},
		{"python3 -m sglang.launch_server", "", false, ""},
		{"python3 -m vllm", "vllm serve", true, ""}, // exec form: the image's own does not matter
		{"python3 -m vllm", "vllm serve", false, "entrypoint"},
		{"", "", true, "empty"},
	} {
		err := CheckArgv(strings.Fields(c.argv), strings.Fields(c.entrypoint), c.replaced)
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || !errors.Is(err, ErrSpec)) {
			t.Errorf("%q with %q: got %v, want %q", c.argv, c.entrypoint, err, c.want)
		}
	}
}
