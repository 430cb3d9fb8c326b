package fitted

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/engine/catalog"
	"sweep.dev/sweep/sim/core"
)

// A profile gives any card its rates, and those of a card come back.
func TestProfile(t *testing.T) {
	t.Parallel()
	g, _ := catalog.GPUByName("l4")
	k := core.Constants{Memory: 0.5, Compute: 0.25, Step: time.Millisecond, Start: 3 * time.Millisecond}
	p := Profile{Version: Version}
	p.Of(k, g)
	if back := p.On(g); math.Abs(back.Memory-0.5) > 1e-9 || math.Abs(back.Compute-0.25) > 1e-9 || back.Step != k.Step || back.Start != k.Start {
		t.Errorf("%+v", back)
	}
	other, _ := catalog.GPUByName("h100")
	if got := p.On(other).Memory * other.Bandwidth; math.Abs(got-p.Bandwidth) > 1e-6 {
		t.Errorf("%v GB/s on another card, want %v", got, p.Bandwidth)
	}
	text, err := p.Text()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "p.json")
	for _, c := range []struct{ name, text, want string }{
		{"whole", string(text), ""},
		{"another version", strings.Replace(string(text), `"version": 1`, `"version": 2`, 1), "has version 2"},
		{"no rate", strings.Replace(string(text), `"bandwidth_gb_s": 150`, `"bandwidth_gb_s": 0`, 1), "a rate is not above 0"},
		{"a key too many", strings.Replace(string(text), `"engine"`, `"motor"`, 1), "is no file of sweep sim fit"},
		{"no JSON", "version: 1", "is no file of sweep sim fit"},
		{"too large", strings.Repeat(" ", maxFile+1), "larger than a file of sweep sim fit"},
	} {
		if err := os.WriteFile(name, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Read(name)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
