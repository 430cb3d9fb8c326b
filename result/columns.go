package result

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

// A Column is one column of the cells table.
type Column struct {
	Name     string
	Type     Type
	Unit     string // "ms", "tokens/s", "ratio", "bytes", ... or ""
	Nullable bool
	Doc      string // one sentence
}

// Extra names the columns that depend on the plan.
type Extra struct {
	Axes []Column // one for every axis that is not a column already, in the plan's order
	SLOs []string // names; each becomes the nullable Bool column slo_<name>
}
