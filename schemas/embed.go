// Package schemas holds the JSON Schemas of what sweep reads, for editors and
// for sweep list schema, generated from the structs that it is decoded into, and that of the
// answer which it writes.
package schemas

import _ "embed"

//go:generate go run ../cmd/sweep/internal/schemagen plan.schema.json ../docs/keys.md engine.schema.json ../docs/run.md provider.schema.json ../docs/providers.md

// Plan is the JSON Schema (draft-07) of the plan language.
//
//go:embed plan.schema.json
var Plan []byte

// Engine is the JSON Schema (draft-07) of engine profiles.
//
//go:embed engine.schema.json
var Engine []byte

// Provider is the JSON Schema (draft-07) of what the backend command and its
// program say to each other.
//
//go:embed provider.schema.json
var Provider []byte

// Answer is the JSON Schema (draft-07) of answer.json. It is written by hand; a test of
// package answer holds the two together.
//
//go:embed answer.schema.json
var Answer []byte

// Compare is the JSON Schema (draft-07) of what sweep compare --json prints; a test of
// package compare holds the two together.
//
//go:embed compare.schema.json
var Compare []byte

// Noise is the JSON Schema (draft-07) of a noise file; a test of package compare holds the
// two together.
//
//go:embed noise.schema.json
var Noise []byte

// Gate is the JSON Schema (draft-07) of what sweep night gate --json prints; a test of package
// nightly holds the two together.
//
//go:embed gate.schema.json
var Gate []byte

// Trend is the JSON Schema (draft-07) of what sweep night trend --json prints; a test of package
// nightly holds the two together.
//
//go:embed trend.schema.json
var Trend []byte
