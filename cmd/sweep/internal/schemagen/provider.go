package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"sweep.dev/sweep/backends/command/protocol"
	"sweep.dev/sweep/internal/fieldtag"
)

// A message is one thing that the backend command and a program say.
type message struct {
	name string // of its definition in the schema
	of   any
	must []string // keys that are always there
}

// messages returns all of them: what stands alone, then what is part of that.
func messages() []message {
	return []message{
		{"create", protocol.Create{}, []string{"version", "name", "marks", "role", "replica", "argv", "env", "gpus", "port", "expires", "grace_s"}},
		{"find", protocol.Find{}, []string{"version", "name"}},
		{"delete", protocol.Delete{}, []string{"version", "id", "name", "grace_s"}},
		{"attach", protocol.Attach{}, []string{"version", "id", "name", "offset"}},
		{"answer", protocol.Answer{}, []string{"version"}},
		{"line", protocol.Line{}, nil},
		{"instance", protocol.Instance{}, []string{"id"}},
		{"exit", protocol.Exit{}, []string{"code"}},
		{"error", protocol.Problem{}, []string{"class", "message"}},
	}
}

// generateProvider returns the schema of the protocol as text: of every message
// that stands alone, whichever side says it.
func generateProvider() ([]byte, error) {
	g := generator{shared: map[reflect.Type]string{}, blank: true}
	for _, m := range messages() {
		g.shared[reflect.TypeOf(m.of)] = m.name
	}
	definitions := object{}
	var whole []any
	for _, m := range messages() {
		s := g.structure(reflect.TypeOf(m.of))
		if m.must != nil {
			s["required"] = m.must
		}
		if v, ok := s["properties"].(object)["version"].(object); ok {
			v["const"] = protocol.Version
		}
		definitions[m.name] = s
		if m.name != "instance" && m.name != "exit" && m.name != "error" {
			whole = append(whole, object{"$ref": "#/definitions/" + m.name})
		}
	}
	out, err := json.MarshalIndent(object{
		"$schema":     "http://json-schema.org/draft-07/schema#",
		"$id":         "https://sweep.dev/schemas/provider.schema.json",
		"title":       "sweep provider",
		"description": fmt.Sprintf("What the backend command and a provider's program say to each other, version %d.", protocol.Version),
		"definitions": definitions,
		"anyOf":       whole,
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode schema: %w", err)
	}
	return append(out, '\n'), nil
}

// documentProvider returns page with the tables of the protocol made anew.
func documentProvider(page []byte) ([]byte, error) {
	var b bytes.Buffer
	for _, m := range messages() {
		fmt.Fprintf(&b, "\n### `%s`\n\n| key | meaning |\n| --- | --- |\n", m.name)
		for _, f := range fieldtag.Of(reflect.TypeOf(m.of)) {
			doc := f.Doc
			if len(f.Enum) > 0 {
				doc += " One of `" + strings.Join(f.Enum, "`, `") + "`."
			}
			fmt.Fprintf(&b, "| `%s` | %s |\n", f.Key, doc)
		}
	}
	return between(page, "keys", b.Bytes())
}
