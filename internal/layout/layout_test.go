package layout

import (
	"io/fs"
	"testing"
	"testing/fstest"
)

func TestMetricsLog(t *testing.T) {
	t.Parallel()
	for engine, want := range map[string]string{
		"vllm": "metrics-vllm.log", "dynamo-trtllm": "metrics-dynamo-trtllm.log", "../../etc/passwd": "metrics-etc-passwd.log", "": "metrics-.log",
	} {
		if got := MetricsLog(engine); got != want {
			t.Errorf("MetricsLog(%q) = %q, want %q", engine, got, want)
		}
	}
}

// Each pattern finds the files that it is of.
func TestPatterns(t *testing.T) {
	t.Parallel()
	for pattern, name := range map[string]string{
		AnyAttempt:    AttemptDir("c", 1, 120),
		AnyLaunch:     LaunchDir("d", 3),
		AnyServerLog:  LaunchDir("d", 3) + "/" + ServerLog("server", 0),
		ServerLogs:    ServerLog("server", 12),
		AnyMetricsLog: MetricsLog("vllm"),
		Scrapes:       Scrape("server", 1),
	} {
		files := fstest.MapFS{name: {}, "other/x.log": {}}
		found, err := fs.Glob(files, pattern)
		if err != nil || len(found) != 1 || found[0] != name {
			t.Errorf("%s finds %q (%v), want %s", pattern, found, err, name)
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{
		"t01": 1, Trial(120): 120, "t1": 0, "t00": 0, "a01": 0, "t01.tmp": 0, "t1234567890": 0, "t-1": 0,
	} {
		if got, ok := ParseTrial(name); ok != (want > 0) || ok && got != want {
			t.Errorf("ParseTrial(%q) = %d, %v, want %d", name, got, ok, want)
		}
	}
	if server, ok := Scraped(Scrape("decode", 2)); !ok || server != "decode-2" {
		t.Errorf("Scraped = %q, %v", server, ok)
	}
	for _, name := range []string{EngineLog, Raw("decode-2", "amd-smi.json")} {
		if server, ok := Scraped(name); ok {
			t.Errorf("%s is the metrics of %q", name, server)
		}
	}
}
