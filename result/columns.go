package result

import (
	"slices"
	"sync"

	"sweep.dev/sweep/result/col"
)

// A Type is the type of a column.
type Type string

// The column types, as they stand in Parquet, in expressions and in Row.
const (
	String    Type = "string"
	Int       Type = "int64"
	Float     Type = "float64"
	Bool      Type = "bool"
	Timestamp Type = "timestamp" // UTC, microseconds
)

// A Tier says where a column stands.
type Tier string

// The tiers of columns. Parquet files have all, and cells.csv those of core
// unless the plan asks for others.
const (
	Core Tier = "core" // what a person reads
	Full Tier = "full" // everything else
)

// A Column is one column of the cells table.
type Column struct {
	Name     string
	Type     Type
	Unit     string // "ms", "tokens/s", "ratio", "bytes", ... or ""
	Tier     Tier
	Nullable bool
	// Given says that the column is known without a measurement: the identity of
	// the trial, its load and its outcome. In a trial that measured nothing every
	// other column is null.
	Given bool
	Doc   string // one sentence
}

// Extra names the columns that depend on the plan.
type Extra struct {
	Axes []Column // one for every axis that is not a column already, in the plan's order
	SLOs []string // names; each becomes the nullable column slo_<name>
	// Roles are the roles of engines that have several; each adds the columns of
	// the server for itself: <role>_requests_running_mean.
	Roles []string
}

// Columns returns the registry: the columns of the cells table of one plan, in
// their order. The SLO environment, the CSV header, the Parquet schema and the
// documentation are all made from it.
//
// An axis that has a column of its own already (gpu, concurrency, ...) is not
// added again. Axes and objectives of the plan are of the tier core. No objective may
// be named "pass": its column would be slo_pass, which means all of them.
func Columns(x Extra) []Column {
	before, after := ofAllPlans()
	after = slices.Concat(after, roles(x.Roles))
	objectives := make([]Column, 0, len(x.SLOs))
	for _, name := range x.SLOs {
		objectives = append(objectives, nullable(col.OfSLO(name), String, "", "What the objective "+name+" comes to in this trial: pass, fail or undecided (too few requests to tell); null if it could not be checked."))
	}
	known := make(map[string]bool)
	for _, c := range slices.Concat(before, outcome(), objectives, after) {
		known[c.Name] = true
	}
	axes := given(slices.DeleteFunc(slices.Clone(x.Axes), func(a Column) bool { return known[a.Name] }))

	basic := core()
	for _, a := range x.Axes {
		basic = append(basic, a.Name)
	}
	for _, o := range objectives {
		basic = append(basic, o.Name)
	}
	var cols []Column
	clear(known)
	for _, c := range slices.Concat(before, axes, given(outcome()), given(objectives), after) {
		if !known[c.Name] { // the headline has some of the later ones already
			known[c.Name] = true
			c.Tier = Full
			if slices.Contains(basic, c.Name) {
				c.Tier = Core
			}
			cols = append(cols, c)
		}
	}
	return cols
}

// ofAllPlans returns the columns that every plan has, before and after those of its axes
// and objectives. They are made once: a run asks for its columns several times a trial.
var ofAllPlans = sync.OnceValues(func() (before, after []Column) {
	before = slices.Concat(given(fixedAxes()), headline(), given(identity()), given(loadAxes()))
	after = slices.Concat(load(), latency(), steady(), probe(), quality(), server(), disaggregation(), gpu(), processes(), cost(), client())
	return before, slices.Clip(after)
})

// given marks columns that are known without a measurement.
func given(cols []Column) []Column {
	for i := range cols {
		cols[i].Given = true
	}
	return cols
}

// roles returns the server's columns once more for each role.
func roles(names []string) []Column {
	var cols []Column
	for _, role := range names {
		for _, c := range server() {
			c.Name, c.Doc = col.OfRole(role, c.Name), "Role "+role+": "+c.Doc
			cols = append(cols, c)
		}
	}
	return cols
}

// Lookup finds a column by its name.
func Lookup(cols []Column, name string) (Column, bool) {
	for _, c := range cols {
		if c.Name == name {
			return c, true
		}
	}
	return Column{}, false
}

func required(name string, t Type, unit, doc string) Column {
	return Column{Name: name, Type: t, Unit: unit, Doc: doc}
}

func nullable(name string, t Type, unit, doc string) Column {
	return Column{Name: name, Type: t, Unit: unit, Nullable: true, Doc: doc}
}
