package serverlog

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The throughput in an engine's log is read from the place where the attempt began.
// Lines of an engine at rest do not count.
func TestClaimedIn(t *testing.T) {
	t.Parallel()
	re := regexp.MustCompile(`Avg generation throughput: ([0-9.]+) tokens/s`)
	before := "INFO loggers.py Avg generation throughput: 9999.0 tokens/s, Running: 1 reqs\n"
	during := strings.Join([]string{
		"INFO loggers.py Avg generation throughput: 0.0 tokens/s, Running: 0 reqs",
		"INFO loggers.py Avg generation throughput: 100.0 tokens/s, Running: 8 reqs", // the load began in between
		"INFO loggers.py Avg generation throughput: 400.0 tokens/s, Running: 8 reqs",
		strings.Repeat("x", 100<<10),
		"\x1b[32mINFO\x1b[0m loggers.py Avg generation \x1b[1mthroughput: 520.0\x1b[0m tokens/s, Running: 8 reqs",
		"INFO loggers.py Avg generation throughput: ... tokens/s",
	}, "\n")
	path := filepath.Join(t.TempDir(), "server-0.log")
	if err := os.WriteFile(path, []byte(before+during), 0o600); err != nil {
		t.Fatal(err)
	}
	got, ok := claimedIn(path, int64(len(before)), re)
	if !ok || got != 460 {
		t.Errorf("claimed %v, %v", got, ok)
	}
	if _, ok := claimedIn(path, int64(len(before+during)), re); ok {
		t.Error("it claims something at rest")
	}
	if _, ok := claimedIn(path+".gone", 0, re); ok {
		t.Error("a log that is not there claims something")
	}
}
