package answer

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/quality"
)

// What is not known of answers that sweep did not ask for is null, and 0 of its own.
func TestQualityOf(t *testing.T) {
	t.Parallel()
	for source, want := range map[quality.Source]string{
		quality.FromSweep:  `"quality_n":1,"quality_refused":0,"quality_unknown":0}`,
		quality.FromLMEval: `"quality_n":1,"quality_refused":null,"quality_unknown":null}`,
	} {
		dir := t.TempDir()
		a := quality.Answers{
			Header: quality.Header{Deployment: "d1", Label: "vllm", Server: map[string]string{"gpu": "l4"}, Digest: "s", Source: source},
			List:   []quality.Answer{{Item: "0", Right: new(true)}},
		}
		var b bytes.Buffer
		if err := a.Write(&b); err != nil {
			t.Fatal(err)
		}
		folder := filepath.Join(dir, layout.LaunchDir("d1", 1))
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, layout.Quality), b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(qualityOf(dir))
		if err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%q: %s, %v, want %s", source, got, err, want)
		}
	}
}
