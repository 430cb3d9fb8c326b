package sim

import (
	"errors"
	"flag"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestParseFlags(t *testing.T) {
	f, err := parseFlags(strings.Fields("some/model --max_num_seqs 64 -tp=2 --no-enable-prefix-caching --enable-chunked-prefill --gpu-memory-utilization=.7 "+
		"--served-model-name a b --trust-remote-code --no-enforce-eager --swap-space 4 --fault every=2,hang-after=0 --fault unavailable=1"), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if f.model != "some/model" || f.maxSeqs != 64 || f.gpus != 2 || f.prefix || !f.chunked || f.util != 0.7 || !slices.Equal(f.served, []string{"a", "b"}) {
		t.Errorf("%+v", f)
	}
	if want := []string{"--trust-remote-code", "--no-enforce-eager", "--swap-space"}; !slices.Equal(f.ignored, want) {
		t.Errorf("without effect: %v, want %v", f.ignored, want)
	}
	if want := "every=2,hang-after=0,unavailable=1"; f.faults.String() != want {
		t.Errorf("faults: %s, want %s", &f.faults, want)
	}
}

func TestParseFlags_mistakes(t *testing.T) {
	for args, want := range map[string]string{
		"--model m extra":                       "unrecognized arguments: extra",
		"--model m --warp 9 --speed":            "unrecognized arguments: --warp 9 --speed",
		"--model":                               "argument --model: expected one argument",
		"--model m --engine ollama":             "argument --engine: invalid choice: 'ollama' (choose from 'vllm', 'sglang', 'trtllm', 'llamacpp', 'tgi')",
		"--model m --dtype int4 --port 1x":      `invalid value "1x" for flag -port`,
		"--model m --time-scale 0":              "argument --time-scale: must be above 0",
		"--model m --port 70000":                "argument --port: must be a port number",
		"--model m --gpu-memory-utilization 80": "argument --gpu-memory-utilization: must be above 0 and at most 1",
		"--model m --fault hang-after":          "fault hang-after=K wants a value",
		"--model m --fault metrics=sick":        "want hang, garbage, huge or gone",
		"--model m --fault die-after=2:999":     "want an exit status or kill, term, segv, abrt",
	} {
		_, err := parseFlags(strings.Fields(args), io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n got %v\nwant %s", args, err, want)
		}
	}
}

func TestHelp(t *testing.T) {
	var b strings.Builder
	if _, err := parseFlags([]string{"--model", "m", "-h"}, &b); !errors.Is(err, flag.ErrHelp) {
		t.Fatal(err)
	}
	golden(t, "help.txt", b.String())
}

func TestMain_exitStatus(t *testing.T) {
	var out, complaint strings.Builder
	if code := Main(t.Context(), []string{"--nonsense"}, &out, &complaint); code != 2 || out.Len() > 0 || !strings.Contains(complaint.String(), "sweep sim: error: unrecognized arguments: --nonsense") {
		t.Errorf("%d %q %q", code, out.String(), complaint.String())
	}
	if _, err := os.Stat("testdata/help.txt"); err != nil {
		t.Error(err)
	}
}
