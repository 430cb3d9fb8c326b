package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"sweep.dev/sweep/cmd/sweep/internal/vocabulary"
	"sweep.dev/sweep/internal/manifest"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/planfile"
)

const page = "../../../../docs/keys.md"

func readPage(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestPage_upToDate(t *testing.T) {
	text := readPage(t)
	want, err := document(text, vocabulary.All())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, want) {
		t.Error("docs/keys.md is not what go generate ./schemas makes")
	}
	for _, k := range everyKey() {
		if name := k.path[len(k.path)-1]; !bytes.Contains(text, []byte("| `"+name+"` |")) {
			t.Errorf("the page says nothing of %s", name)
		}
	}
}

// fragment is what the blocks of the page that are no whole plan stand in for.
const fragment = `version: 1
name: fragment
model: org/model
backend: sim
matrix: {engine: vllm, gpu: [l4, rtx-2000-ada], concurrency: [1, 8, 16]}
load: {requests: 32, max_tokens: 128, prompts: {input_tokens: 200}}
`

// TestDocs_blocks checks every YAML block of every page: a whole plan as it is,
// a part of one in the place of the same parts of a plan that is right.
func TestDocs_blocks(t *testing.T) {
	pages, err := filepath.Glob("../../../../docs/*.md")
	if err != nil || len(pages) < 4 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	s := compiled(t)
	count := map[string]int{}
	for _, page := range pages {
		name := filepath.Base(page)
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for i, block := range strings.Split(string(text), "```yaml\n")[1:] {
			count[name]++
			block, _, _ = strings.Cut(block, "```")
			if !strings.HasPrefix(block, "version:") {
				block = stand(t, block)
			}
			opts := planfile.Options{
				Vocabulary: vocabulary.All(),
				LookupEnv:  func(string) (string, bool) { return "x", true },
				Manifests:  manifestsOf(string(text)),
			}
			if _, err := planfile.Parse("docs/"+name, "../../../../docs", []byte(block), opts); err != nil {
				if d, ok := plan.IsDiagnostics(err); ok {
					t.Errorf("%s, block %d: %s\n%s", name, i+1, d.Pretty(), block)
					continue
				}
				t.Errorf("%s, block %d: %v", name, i+1, err)
			}
			var v any
			if err := yaml.Unmarshal([]byte(block), &v); err != nil {
				t.Fatal(err)
			}
			if err := s.Validate(clone(t, v)); err != nil {
				t.Errorf("%s, block %d: %v", name, i+1, err)
			}
		}
	}
	if count["plan.md"] < 6 || count["runpod.md"] < 3 {
		t.Errorf("blocks found: %v", count)
	}
}

// manifestsOf returns the files of manifests on a page, which are no plans.
func manifestsOf(page string) (files []manifest.File) {
	for _, m := range regexp.MustCompile("(?s)<!-- file: (\\S+) -->\n```text\n(.*?)```").FindAllStringSubmatch(page, -1) {
		files = append(files, manifest.File{Name: m[1], Text: []byte(m[2])})
	}
	return files
}

// stand puts the sections of a block in the place of the fragment's. Keys of
// load that the block's matrix has as axes are left out.
func stand(t *testing.T, block string) string {
	t.Helper()
	var base, part map[string]any
	for text, into := range map[string]*map[string]any{fragment: &base, block: &part} {
		if err := yaml.Unmarshal([]byte(text), into); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	}
	maps.Copy(base, part)
	load, _ := base["load"].(map[string]any)
	if load["prompts"] == nil && load["trace"] == nil {
		load["prompts"] = map[string]any{"input_tokens": 200}
	}
	axes, _ := base["matrix"].(map[string]any)
	for axis := range axes {
		delete(load, axis)
		if prompts, ok := load["prompts"].(map[string]any); ok {
			delete(prompts, axis)
		}
	}
	out, err := json.Marshal(base)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
