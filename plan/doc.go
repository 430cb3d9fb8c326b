// Package plan is a plan that is right: its keys with their defaults, its cells and
// deployments, and what may be asked of them. The language is described in
// docs/plan.md and docs/keys.md; package planfile reads it. A [*Plan] from there is right: its
// expressions compile, its names exist, its matrix has a bounded size, and nothing
// that the file says is silently ignored.
//
// # How a file is read
//
// Package syntax turns bytes into a tree whose nodes know their places; it
// bounds what a hostile file can cost before the YAML library sees it. --set
// changes that tree. Package strict decodes it over the defaults into the types
// of this package, by reflection over their tags, and goes on after an error.
// planfile fills in the defaults that depend on other keys and finds what the plan
// names. Then every rule of package rules looks at the whole, and only reads; the
// faults of all of them are one [*Diagnostics]. Package cells expands the matrix by
// the table of package axes, and the rules of the cells follow. The tags are the one
// source of bounds, units, defaults and meanings: cmd/sweep/internal/schemagen makes the JSON
// Schema and the reference of the documentation from them.
//
// # Secrets
//
// ${VAR} expands only what is on a list, and credentials only into fields of
// type [secret.String], which no encoder prints. A credential in clear text is
// an error, and is masked in every snippet: the plan is copied into the run
// directory.
//
// # Identity
//
// Cell.ID says what a cell is, [Plan.SpecDigest] what else could change its
// measurement; both are the same on every machine and survive any reordering
// of the file. See digest.go.
package plan
