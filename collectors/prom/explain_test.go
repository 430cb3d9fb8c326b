package prom

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/exposition"
	"sweep.dev/sweep/internal/recordtest"
)

var update = flag.Bool("update", false, "write the golden files")

func profiles() []*engine.Profile {
	var out []*engine.Profile
	for _, name := range engine.Names() {
		p, _ := engine.Lookup(name)
		out = append(out, p)
	}
	return out
}

// summarise returns one line about what is read from a body, and the unknown names.
func summarise(name string, src []byte) string {
	x, err := Read(profiles(), src, true)
	if err != nil {
		if !errors.Is(err, exposition.ErrNoMetrics) {
			return fmt.Sprintf("%s: %v\n", name, err)
		}
		return name + ": no metrics\n"
	}
	var readings []string
	var b strings.Builder
	if len(x.GPUs) > 0 {
		fmt.Fprintf(&b, "%s: %d GPUs", name, len(x.GPUs))
		if x.Tool != "" {
			fmt.Fprintf(&b, " of %s", x.Tool)
		}
		b.WriteByte('\n')
		for _, g := range x.GPUs {
			fmt.Fprintf(&b, "  GPU %s %s %s:", g.Index, g.UUID, g.Name)
			for _, r := range g.Readings {
				fmt.Fprintf(&b, " %s %.6g %s,", r.Quantity, *r.Value, r.Unit)
			}
			fmt.Fprintf(&b, " held down by %v\n", g.Reasons)
		}
	}
	if len(x.Families) == 0 {
		return b.String()
	}
	for _, f := range x.Families {
		for _, r := range f.Readings {
			readings = append(readings, r.Quantity)
		}
	}
	slices.Sort(readings)
	readings = slices.Compact(readings)
	fmt.Fprintf(&b, "%s: %s: %d lines, %d families: %d taken, %d other names, %d explained, %d of the runtime, %d unknown; %d dropped, %d twice, %d _created\n",
		name, strings.Join(x.Engines, "+"), x.Lines, len(x.Families), x.Count(IsQuantity), x.Count(IsOther), x.Count(IsMeaning), x.Count(IsRuntime), x.Count(IsUnknown), x.Dropped, x.Duplicates, x.Created)
	fmt.Fprintf(&b, "  %d quantities: %s\n", len(readings), strings.Join(readings, " "))
	return b.String()
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	file = filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

func TestExplain_recorded(t *testing.T) {
	golden(t, "recorded.golden", summariseAll(t, "recorded__*.txt"))
}

func TestExplain_fixtures(t *testing.T) {
	golden(t, "fixtures.golden", summariseAll(t, "*.txt"))
}

func summariseAll(t *testing.T, pattern string) string {
	t.Helper()
	var b strings.Builder
	for _, name := range recordtest.Names(t, pattern) {
		b.WriteString(summarise(name, recordtest.Read(t, name)))
	}
	return b.String()
}

// LMCache has its series among those of the engine that it extends.
func TestExplain_lmcache(t *testing.T) {
	for _, name := range []string{"vllm", "sglang"} {
		x := Explain(profiles(), parse(t, name+":cached 1\n# TYPE lmcache:num_hit_tokens_total counter\nlmcache:num_hit_tokens_total 12\n"), true)
		if f := x.Families[1]; f.Is != IsMeaning || f.Meaning == "" {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// A sum that overflows is no value: JSON has no number for it.
func TestExplain_overflow(t *testing.T) {
	x := Explain([]*engine.Profile{profile(t, "vllm")}, parse(t, "# TYPE vllm:generation_tokens_total counter\nvllm:generation_tokens_total{engine=\"0\"} 1e308\nvllm:generation_tokens_total{engine=\"1\"} 1e308\n"), true)
	if _, err := json.Marshal(x); err != nil {
		t.Error(err)
	}
	if len(x.Families) != 1 || x.Families[0].Value != nil || x.Families[0].Readings[0].Value != nil {
		t.Errorf("got %+v", x.Families)
	}
}
