// Package schematest holds what the program writes against the JSON Schemas that it
// publishes, for tests.
package schematest

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Name is that of a schema in its compiler, for references to its parts.
const Name = "schema.json"

// Compiler has a schema under Name.
func Compiler(t testing.TB, schema []byte) *jsonschema.Compiler {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(Name, doc); err != nil {
		t.Fatal(err)
	}
	return c
}

// Compile compiles a schema, which also holds it against draft-07's own.
func Compile(t testing.TB, schema []byte) *jsonschema.Schema {
	t.Helper()
	s, err := Compiler(t, schema).Compile(Name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Holds fails the test if a value is not what a schema says, as JSON. A json.RawMessage is
// taken as it is.
func Holds(t testing.TB, s *jsonschema.Schema, value any) {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	got, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(got); err != nil {
		t.Error(err)
	}
}
