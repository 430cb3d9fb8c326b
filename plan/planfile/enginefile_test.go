package planfile

import (
	"os"
	"path/filepath"
	"testing"

	"sweep.dev/sweep/plan"
)

const ownEngine = `version: 1
name: own
model: m
backend: process
matrix: {engine: vllm, concurrency: 4, max_tokens: 64}
load: {requests: 8, prompts: {input_tokens: 200}}
`

func parseOwn(t *testing.T, dir, src string, change func(*Options)) *plan.Plan {
	t.Helper()
	opts := testOptions()
	if change != nil {
		change(&opts)
	}
	p, err := Parse("p.yaml", dir, []byte(src), opts)
	if d, ok := plan.IsDiagnostics(err); ok {
		t.Fatal(d.Pretty())
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A file of a built-in name takes its place, and its content is part of what a
// server and a measurement are, wherever it came from.
func TestEngineFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "vllm.yaml")
	write := func(doc string) {
		t.Helper()
		if err := os.WriteFile(path, []byte("name: vllm\nlike: vllm\ndoc: "+doc+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	plain := parseOwn(t, dir, ownEngine, nil)
	one := parseOwn(t, dir, ownEngine+"engine_files: [vllm.yaml]\n", nil)
	flag := parseOwn(t, t.TempDir(), ownEngine, func(o *Options) { o.EngineFiles = []string{path} })
	kept := one.EngineTexts()
	write("two")
	two := parseOwn(t, dir, ownEngine+"engine_files: [vllm.yaml]\n", nil)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	resumed := parseOwn(t, dir, ownEngine+"engine_files: [vllm.yaml]\n", func(o *Options) { o.EngineTexts = kept })

	for name, p := range map[string]*plan.Plan{"one": one, "flag": flag, "two": two, "resumed": resumed} {
		profile, ok := p.Profile("vllm")
		if want := map[string]string{"two": "two"}[name]; !ok || want != "" && profile.Doc != want || want == "" && profile.Doc != "one" {
			t.Errorf("%s: got profile %+v", name, profile)
		}
		if len(p.EngineTexts()) != 1 {
			t.Errorf("%s: it keeps %d files", name, len(p.EngineTexts()))
		}
	}
	if plain.EngineTexts() != nil || plain.Deployments()[0].Server.ProfileSHA256 != "" {
		t.Error("a plan without engine files has one")
	}
	ids := func(p *plan.Plan) [3]string {
		return [3]string{p.Digest(), p.Deployments()[0].ID, p.SpecDigest(p.Cells()[0])}
	}
	if ids(one) != ids(resumed) {
		t.Errorf("a resumed run is another: %v, %v", ids(one), ids(resumed))
	}
	for i := range ids(one) {
		if ids(one)[i] == ids(two)[i] || ids(one)[i] == ids(plain)[i] {
			t.Errorf("digest %d does not tell the files apart", i)
		}
	}
	if ids(one)[1] != ids(flag)[1] || ids(one)[2] != ids(flag)[2] {
		t.Error("the flag makes another server than the plan's key")
	}
	if one.Cells()[0].ID != plain.Cells()[0].ID {
		t.Error("the cell has another id")
	}
}

func TestEngineFiles_tooLarge(t *testing.T) {
	path := filepath.Join(t.TempDir(), "large.yaml")
	if err := os.WriteFile(path, make([]byte, 256<<10+1), 0o600); err != nil {
		t.Fatal(err)
	}
	opts := testOptions()
	opts.EngineFiles = []string{path}
	_, err := Parse("p.yaml", ".", []byte(ownEngine), opts)
	if d, ok := plan.IsDiagnostics(err); !ok || d.List[0].Rule != "file" {
		t.Errorf("got %v", err)
	}
}
