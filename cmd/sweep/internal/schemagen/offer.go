package main

import (
	"slices"
	"strings"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/engine/catalog"
	"sweep.dev/sweep/result"
)

// This file is what editors offer to complete and what no check rests on: names of
// engines, of their arguments, of GPUs and of columns. Others stay allowed.

// offered returns names that the values of an axis are often of; nil for none.
func offered(axis string) []string {
	switch axis {
	case "engine":
		return engine.Names()
	case "gpu":
		return catalog.GPUNames()
	}
	return nil
}

// axisExamples are values of the axes whose values are not offered by name.
var axisExamples = map[string]any{
	"model":         []string{"Qwen/Qwen2.5-1.5B-Instruct", "meta-llama/Llama-3.1-8B-Instruct"},
	"gpu_count":     []int{1, 2},
	"concurrency":   []int{1, 8, 64},
	"request_rate":  []int{1, 4, 16},
	"max_tokens":    []int{64, 256},
	"input_tokens":  []any{512, "4k"},
	"shared_prefix": []string{"0%", "50%"},
	"burstiness":    []any{1, 0.25},
}

// offerEngines names the built-in engines below the key engines of a plan, each with
// the arguments that its profile knows.
func offerEngines(root object) {
	engines := root["properties"].(object)["engines"].(object)
	named := object{}
	for _, name := range engine.Names() {
		p, _ := engine.Lookup(name)
		one := object{"allOf": []any{object{"$ref": "#/definitions/engine"}}, "description": name + ": " + p.Doc}
		if arguments := known(p); len(arguments) > 0 {
			properties := object{}
			for _, a := range arguments {
				properties[a] = object{"description": "Argument of " + name + "."}
			}
			one["allOf"] = append(one["allOf"].([]any), object{"properties": object{"args": object{"description": "Arguments of " + name + ", as its documentation has them.", "properties": properties}}})
		}
		named[name] = one
	}
	engines["properties"] = named
}

// known returns the arguments of an engine that a plan may set.
func known(p *engine.Profile) []string {
	return slices.DeleteFunc(slices.Clone(p.Flags.Known), func(a string) bool {
		return slices.Contains(p.Flags.Reserved, a) || a == ""
	})
}

// offerArguments adds an axis for each argument that an engine knows to a matrix.
func offerArguments(properties object) {
	of := map[string][]string{}
	for _, name := range engine.Names() {
		p, _ := engine.Lookup(name)
		for _, a := range known(p) {
			of[a] = append(of[a], name)
		}
	}
	for a, engines := range of {
		properties["args."+a] = object{
			"description": "Argument of " + strings.Join(engines, ", ") + ".",
			"allOf":       []any{object{"$ref": "#/definitions/argument"}},
		}
	}
}

// objectives returns beginnings of an objective, one for each number that a person reads of
// a trial.
func objectives() []any {
	var snippets []any
	for _, c := range result.Columns(result.Extra{}) {
		if c.Tier != result.Core || c.Given || c.Type != result.Float && c.Type != result.Int {
			continue
		}
		snippets = append(snippets, object{"label": c.Name, "description": c.Doc, "body": c.Name + " < ${1:limit}"})
	}
	return snippets
}
