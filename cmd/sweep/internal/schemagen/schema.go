package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"sweep.dev/sweep/internal/fieldtag"
	"sweep.dev/sweep/internal/manifest"
	"sweep.dev/sweep/internal/secret"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/axes"
)

// An object is one JSON object of the schema. encoding/json sorts its keys,
// which makes the file the same on every machine.
type object map[string]any

// A generator makes the schema of the plan language from the structs that
// plans are decoded into, by the same tags that decoding checks.
type generator struct {
	vocabulary plan.Vocabulary
	shared     map[reflect.Type]string // types that stand in the definitions, by their names there
	names      map[string][]string     // what the keys of a mapping may be, by the key of the mapping
	blank      bool                    // texts may be empty, durations nothing
}

// generate returns the schema as text.
func generate(v plan.Vocabulary) ([]byte, error) {
	g := generator{vocabulary: v}
	settings := g.structure(reflect.TypeFor[plan.Engine]())
	g.shared = map[reflect.Type]string{reflect.TypeFor[plan.Engine](): "engine"}
	root := g.structure(reflect.TypeFor[plan.Plan]())
	offerEngines(root)
	root["definitions"] = object{"engine": settings, "argument": axis(axes.Doc{Ranges: true})}
	root["$schema"] = "http://json-schema.org/draft-07/schema#"
	root["$id"] = "https://sweep.dev/schemas/plan.schema.json"
	root["title"] = "sweep plan"
	root["$comment"] = "The first line of a plan that an editor shall check: # yaml-language-server: $schema=plan.schema.json"
	root["description"] = "One experiment: what to serve, what to send, what must hold."
	root["required"] = []string{"version", "name", "backend"}
	root["oneOf"] = []any{object{"required": []string{"load"}}, object{"required": []string{"loads"}}}
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode schema: %w", err)
	}
	return append(out, '\n'), nil
}

func (g generator) structure(t reflect.Type) object {
	properties := object{}
	for _, f := range fieldtag.Of(t) {
		properties[f.Key] = g.described(f, g.value(f.Type, f))
	}
	return object{"type": "object", "additionalProperties": false, "properties": properties}
}

// described adds what a person wants to know of a key: meaning, default, unit.
func (g generator) described(f fieldtag.Field, s object) object {
	doc := f.Doc
	if f.Unit != "" {
		doc += " Unit: " + f.Unit + "."
	}
	if f.Default != "" {
		doc += " Default: " + f.Default + "."
		var value any
		// Only what is a value of the key is a default to a machine.
		if json.Unmarshal([]byte(f.Default), &value) == nil && reflect.TypeOf(value).Kind() != reflect.Slice {
			s["default"] = value
		} else if len(f.Enum) > 0 && slices.Contains(f.Enum, f.Default) {
			s["default"] = f.Default
		}
	}
	s["description"] = strings.TrimSpace(doc)
	if f.Example != "" {
		s["examples"] = []any{example(f)}
	}
	if hover := markdown(f); hover != s["description"] {
		s["markdownDescription"] = hover
	}
	return s
}

// markdown returns what an editor shows of a key: its meaning, then default, unit, bounds
// and an example, each on a line.
func markdown(f fieldtag.Field) string {
	lines := []string{f.Doc}
	if f.Default != "" {
		lines = append(lines, "Default: `"+f.Default+"`")
	}
	if len(f.Enum) > 0 {
		lines = append(lines, "One of `"+strings.Join(f.Enum, "`, `")+"`")
	}
	if f.Unit != "" {
		lines = append(lines, "Unit: "+f.Unit)
	}
	f.Unit = ""
	if text := bounds(f); text != "" {
		lines = append(lines, upper(text))
	}
	if f.Example != "" && f.Key != "" {
		lines = append(lines, "Example: `"+f.Key+": "+f.Example+"`")
	}
	return strings.TrimSpace(strings.Join(lines, "\n\n"))
}

// example returns the value of a key's example, which is YAML as in a plan. It panics on
// one that is not: the tag is part of the program.
func example(f fieldtag.Field) any {
	var value any
	if err := yaml.Unmarshal([]byte(f.Example), &value); err != nil {
		panic(fmt.Sprintf("example of %s: %v", f.Key, err))
	}
	return value
}

// value returns the schema of one value.
func (g generator) value(t reflect.Type, f fieldtag.Field) object {
	if s, ok := g.reference(t); ok {
		return s
	}
	switch t {
	case reflect.TypeFor[time.Duration]():
		// A unit is required, and nothing is no duration.
		return object{"type": "string", "pattern": `^[0-9.hmsunµ]*[1-9][0-9.hmsunµ]*[hms]$`}
	case reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case reflect.TypeFor[[]byte]():
		return object{"type": "string", "contentEncoding": "base64"}
	case reflect.TypeFor[secret.String]():
		return object{"type": []string{"string", "number", "boolean"}}
	case reflect.TypeFor[manifest.File]():
		return object{"type": "string", "minLength": 1}
	case reflect.TypeFor[[]plan.NamedLoad]():
		one := g.structure(reflect.TypeFor[plan.NamedLoad]())
		maps.Copy(one["properties"].(object), g.structure(reflect.TypeFor[plan.Load]())["properties"].(object))
		one["required"] = []string{"name"}
		return object{"type": "array", "items": one, "minItems": 1, "maxItems": plan.MaxLoads}
	case reflect.TypeFor[plan.Matrix]():
		return g.matrix()
	case reflect.TypeFor[plan.Plugin]():
		return g.backend()
	case reflect.TypeFor[[]plan.SLO]():
		long := g.structure(reflect.TypeFor[plan.SLOKeys]())
		long["required"] = []string{"expr"}
		return object{
			"type": "object", "propertyNames": object{"pattern": "^[a-z][a-z0-9_]{0,40}$"},
			"additionalProperties": object{"anyOf": []any{object{"type": "string", "minLength": 1, "defaultSnippets": objectives()}, long}},
		}
	case reflect.TypeFor[[]plan.Plugin]():
		if strings.HasPrefix(f.Key, "sink") {
			return g.plugins(g.vocabulary.Sinks)
		}
		return g.plugins(g.vocabulary.Collectors)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return g.value(t.Elem(), f)
	case reflect.Struct:
		whole := g.structure(t)
		if key := fieldtag.Short(t); key != "" {
			return object{"anyOf": []any{short(whole, key), whole}}
		}
		return whole
	case reflect.Slice:
		list := object{"type": "array", "items": g.value(t.Elem(), f)}
		if words := fieldtag.Words(t); words != nil {
			return object{"anyOf": []any{object{"enum": words}, list}}
		}
		return list
	case reflect.Map:
		elem := fieldtag.Field{Min: f.Min, Max: f.Max}
		return object{"type": "object", "additionalProperties": g.value(t.Elem(), elem), "propertyNames": g.keys(f)}
	case reflect.Interface:
		return object{} // an engine argument, a field of a body: whatever it is
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.String:
		s := object{"type": "string"}
		if !g.blank {
			s["minLength"] = 1
		}
		if f.Pattern != "" {
			s["pattern"] = f.Pattern
		}
		if len(f.Enum) > 0 {
			delete(s, "minLength")
			s["enum"] = f.Enum
		}
		if f.Scalar {
			s["type"] = []string{"string", "number", "boolean"}
		}
		return s
	case reflect.Float32, reflect.Float64:
		return number("number", f)
	default:
		return number("integer", f)
	}
}

// short returns the schema of the one key of a mapping whose value may stand in its place.
func short(mapping object, key string) object {
	one := maps.Clone(mapping["properties"].(object)[key].(object))
	delete(one, "description")
	delete(one, "default")
	return one
}

// number returns a number within f's bounds, or its spelling with a unit.
func number(typ string, f fieldtag.Field) object {
	s := object{"type": typ}
	for key, bound := range map[string]*float64{"minimum": f.Min, "maximum": f.Max, "exclusiveMinimum": f.Above, "exclusiveMaximum": f.Below} {
		if bound != nil {
			s[key] = *bound
		}
	}
	if f.Word != "" {
		return object{"anyOf": []any{s, object{"const": f.Word}}}
	}
	switch f.Unit {
	case "tokens":
		return object{"anyOf": []any{s, object{"type": "string", "pattern": `^[0-9]+(\.[0-9]+)?(k|ki|M|Mi)$`}}}
	case "ratio":
		return object{"anyOf": []any{s, object{"type": "string", "pattern": `^[0-9]+(\.[0-9]+)?%$`}}}
	}
	return s
}

func (g generator) matrix() object {
	properties, patterns := object{}, object{}
	for _, a := range axes.Docs() {
		s := g.described(a.Field, axis(a))
		if names := offered(a.Name); names != nil {
			s["examples"] = names
		} else if e, ok := axisExamples[a.Name]; ok {
			s["examples"] = []any{e}
		}
		if a.Pattern != "" {
			patterns[a.Pattern] = s
		} else {
			properties[a.Name] = s
		}
	}
	offerArguments(properties)
	names := object{"type": "string", "minLength": 1}
	properties["zip"] = object{
		"description": "Groups of axes that change together instead of being multiplied. All axes of a group have the same number of values. Default: none.",
		"examples":    []any{[]any{[]string{"engine", "model"}}},
		"type":        "array", "items": object{"type": "array", "items": names, "minItems": 2},
	}
	properties["include"] = object{
		"description": "Cells to add to the product, each with a value for every axis that has several. Default: none.",
		"examples":    []any{[]any{object{"concurrency": 64}}},
		"type":        "array", "items": object{"type": "object", "minProperties": 1, "additionalProperties": object{"type": []string{"string", "number", "boolean"}}},
	}
	properties["exclude"] = object{
		"description": "Expressions over the axes. A cell of the product for which one is true is left out. Default: none.",
		"examples":    []any{[]string{`gpu == "l4" && concurrency > 16`}},
		"type":        "array", "items": names,
	}
	return object{"type": "object", "additionalProperties": false, "properties": properties, "patternProperties": patterns}
}

// axis returns a list, one value or a range.
func axis(a axes.Doc) object {
	var one object
	switch {
	case a.Text:
		one = object{"type": "string", "minLength": 1}
	case a.Whole:
		one = number("integer", a.Field)
	case a.Number:
		one = number("number", a.Field)
	default:
		one = object{"type": []string{"string", "number", "boolean"}}
	}
	forms := []any{one, object{"type": "array", "items": one, "minItems": 1, "uniqueItems": true}}
	if a.Ranges {
		end := one
		if !a.Whole && !a.Number {
			end = object{"type": "number"}
		}
		forms = append(forms, object{
			"type": "object", "additionalProperties": false, "required": []string{"from", "to"},
			"properties": object{
				"from":   describe("First value.", end),
				"to":     describe("The values go no further than this.", end),
				"factor": object{"type": "number", "exclusiveMinimum": 1, "description": "Each value is this many times the one before; or step."},
				"step":   object{"anyOf": []any{object{"type": "number", "exclusiveMinimum": 0}, object{"type": "string"}}, "description": "Each value is this much more than the one before; or factor."},
			},
			"oneOf": []any{object{"required": []string{"factor"}}, object{"required": []string{"step"}}},
		})
	}
	return object{"anyOf": forms}
}

func describe(doc string, s object) object {
	out := object{"description": doc}
	maps.Copy(out, s)
	return out
}

// config returns the schema of a plug-in's own keys.
func (g generator) config(d plan.PluginDoc) object {
	if d.Config == nil {
		return object{"type": "object", "additionalProperties": false}
	}
	t := reflect.TypeOf(d.Config)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	s := g.structure(t)
	for key, property := range s["properties"].(object) {
		// A plug-in whose fields have no doc tags is still told apart.
		if p := property.(object); p["description"] == "" {
			p["description"] = strings.ReplaceAll(key, "_", " ") + " of " + d.Kind + ": " + d.Doc + "."
		}
	}
	return s
}

func (g generator) backend() object {
	kinds := []string{}
	forms := []any{}
	for _, d := range g.vocabulary.Backends {
		kinds = append(kinds, d.Kind)
		s := g.config(d)
		properties, _ := s["properties"].(object)
		if properties == nil {
			properties = object{}
		}
		properties["kind"] = object{"const": d.Kind, "description": "Kind of the backend: " + d.Doc + "."}
		s["properties"], s["required"], s["description"] = properties, []string{"kind"}, d.Doc
		forms = append(forms, s)
	}
	return object{"anyOf": append([]any{object{"enum": kinds}}, forms...)}
}

func (g generator) plugins(docs []plan.PluginDoc) object {
	kinds := []string{}
	properties := object{}
	for _, d := range docs {
		kinds = append(kinds, d.Kind)
		properties[d.Kind] = describe(d.Doc, g.config(d))
	}
	return object{"type": "array", "uniqueItems": true, "items": object{"anyOf": []any{
		object{"enum": kinds},
		object{"type": "object", "additionalProperties": false, "minProperties": 1, "maxProperties": 1, "properties": properties},
	}}}
}
