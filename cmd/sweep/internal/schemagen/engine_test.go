package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/schemas"
)

func TestEngine_upToDate(t *testing.T) {
	want, err := generateEngine()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, schemas.Engine) {
		t.Error("schemas/engine.schema.json is not what go generate ./schemas makes")
	}
	if n := bytes.Count(want, []byte(`"description": ""`)); n > 0 {
		t.Errorf("%d keys without a description", n)
	}
}

func compiledEngine(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schemas.Engine))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("engine.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("engine.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestEngine_acceptsEveryProfile(t *testing.T) {
	s := compiledEngine(t)
	files, err := filepath.Glob("../../../../engine/profiles/*.yaml")
	if err != nil || len(files) != len(engine.Names()) {
		t.Fatalf("%d files, %v, for %d profiles", len(files), err, len(engine.Names()))
	}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := yaml.Unmarshal(src, &v); err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(clone(t, v)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// sweep refuses each engine file that the schema refuses.
func TestEngine_rejects(t *testing.T) {
	s := compiledEngine(t)
	for name, src := range map[string]string{
		"unknown key":            `{"name": "x", "heatlh": "/h"}`,
		"unknown key of a role":  `{"name": "x", "roles": [{"name": "a", "command": ["a"], "ports": {}, "prot": 1}]}`,
		"unknown key of metrics": `{"name": "x", "metrics": {"paths": []}}`,
		"in a role's metrics":    `{"name": "x", "roles": [{"name": "a", "command": ["a"], "metrics": {"paths": []}}]}`,
		"no name":                `{"doc": "x"}`,
		"name":                   `{"name": "X y"}`,
		"quantity":               `{"name": "x", "metrics": {"series": {"ttfb": [{"name": "y"}]}}}`,
		"total of no quantity":   `{"name": "x", "roles": [{"name": "a", "command": ["a"]}], "totals": {"ttfb": ["a"]}}`,
		"reduce":                 `{"name": "x", "metrics": {"series": {"ttft": [{"name": "y", "reduce": "median"}]}}}`,
		"a factor's key":         `{"name": "x", "metrics": {"series": {"ttft": [{"name": "y", "times": {"nam": "z"}}]}}}`,
		"tier":                   `{"name": "x", "roles": [{"name": "a", "command": ["a"], "tier": "middle"}]}`,
		"port":                   `{"name": "x", "roles": [{"name": "a", "command": ["a"], "port": 70000}]}`,
		"port by name":           `{"name": "x", "roles": [{"name": "a", "command": ["a"], "ports": {"b": 70000}}]}`,
		"duration":               `{"name": "x", "ready": {"timeout": 30}}`,
		"style":                  `{"name": "x", "flags": {"style": "camel"}}`,
	} {
		var v any
		if err := json.NewDecoder(strings.NewReader(src)).Decode(&v); err != nil {
			t.Fatal(err)
		}
		if s.Validate(clone(t, v)) == nil {
			t.Errorf("%s: the schema takes it", name)
		}
		if _, err := engine.Parse([]byte(src)); err == nil {
			t.Errorf("%s: sweep takes it", name)
		}
	}
}
