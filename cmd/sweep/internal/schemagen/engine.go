package main

import (
	"encoding/json"
	"fmt"
	"reflect"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/fieldtag"
)

// generateEngine returns the schema of engine profiles as text.
func generateEngine() ([]byte, error) {
	quantities := []string{}
	for _, q := range engine.Quantities() {
		quantities = append(quantities, q.Name)
	}
	g := generator{
		shared: map[reflect.Type]string{reflect.TypeFor[engine.Metrics](): "metrics", reflect.TypeFor[engine.Series](): "series"},
		names:  map[string][]string{"series": quantities, "totals": quantities},
		// A profile that is like another takes things away by saying nothing.
		blank: true,
	}
	root := g.structure(reflect.TypeFor[engine.Profile]())
	root["$schema"] = "http://json-schema.org/draft-07/schema#"
	root["$id"] = "https://sweep.dev/schemas/engine.schema.json"
	root["title"] = "sweep engine profile"
	root["description"] = "One inference engine: how it is started, when it is ready, what it may be sent, what its metrics mean."
	root["required"] = []string{"name"}
	definitions := object{}
	for t, name := range g.shared {
		definitions[name] = g.structure(t)
	}
	root["definitions"] = definitions
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode schema: %w", err)
	}
	return append(out, '\n'), nil
}

// reference returns the schema of a type that stands in the definitions.
func (g generator) reference(t reflect.Type) (object, bool) {
	name, ok := g.shared[t]
	if !ok {
		return nil, false
	}
	// Draft 7 takes no description beside a $ref.
	return object{"allOf": []any{object{"$ref": "#/definitions/" + name}}}, true
}

// keys says what the keys of a mapping may be.
func (g generator) keys(f fieldtag.Field) object {
	if names := g.names[f.Key]; names != nil {
		return object{"enum": names}
	}
	return object{"minLength": 1}
}
