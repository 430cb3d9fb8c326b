// Package plan is the plan language: it reads a YAML file, says everything
// that is wrong with it, and expands it into deployments, cells and trials.
// The language itself is described in docs/plan.md.
//
// [Open] and [Parse] do all of it at once. Their error is a [*Diagnostics]
// that holds every fault with its place, what was expected and the nearest
// valid name. A [*Plan] that they return is right: its expressions compile, its
// names exist, its matrix has a bounded size, and nothing that the file says is
// silently ignored.
//
// # How a file is read
//
// Package syntax turns bytes into a tree whose nodes know their places; it
// bounds what a hostile file can cost before the YAML library sees it. --set
// changes that tree. Package strict decodes it over the defaults into the types
// of this package, by reflection over their tags, and goes on after an error.
// The defaults that depend on other keys are filled in (defaults.go), and what the
// plan names is found (resolve.go). Then every rule looks at the whole (rules.go):
// rules only read. The expansion follows, and the rules of the cells. The tags
// are the one source of bounds, units, defaults and meanings: internal/schemagen
// makes the JSON Schema and the reference of the documentation from them.
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
