package result

// Verdicts of an objective or of a part of one: the values of slo_<name>.
const (
	SLOPass      = "pass"
	SLOFail      = "fail"
	SLOUndecided = "undecided" // what was measured leaves both open
)

// How a part of an objective is decided.
const (
	RuleShare = "share" // by bounds on the share of requests over the limit
	RuleMean  = "mean"  // by the interval of a mean
	RuleRate  = "rate"  // by the interval of what came per second
	RuleAny   = "any"   // by its sides, of which one must hold
	RulePoint = "point" // by its value alone, whatever that rests on
)

// An SLOResult is one objective held against one trial, or against all trials of a
// cell.
type SLOResult struct {
	Name     string `json:"name"`
	Expr     string `json:"expr"`
	Severity string `json:"severity"` // fail or warn
	// Verdict is pass, fail or undecided; "" if Error says why there is none.
	Verdict string `json:"verdict,omitempty"`
	// Error says why the check could not be made (a column was not measured).
	Error string `json:"error,omitempty"`
	// Values holds the columns that the expression reads, as measured.
	Values Row `json:"values,omitempty"`
	// LowConfidence are those of them that a point reads and that rest on too few
	// requests: another trial may well decide it otherwise.
	LowConfidence []string `json:"low_confidence,omitempty"`
	// Parts are what the expression joins by and, each decided by itself. None: a
	// result of before, which is a point.
	Parts []SLOPart `json:"parts,omitempty"`
}

// An SLOPart is one part of an objective, with what decides it. Of a pooled part the
// counts are those of all trials.
type SLOPart struct {
	Expr    string `json:"expr"`
	Rule    string `json:"rule"`
	Verdict string `json:"verdict,omitempty"`
	Error   string `json:"error,omitempty"`

	// Values holds the columns that a point reads, as measured.
	Values Row `json:"values,omitempty"`

	// The comparison, of every rule but point: the column stands on the left.
	Column string   `json:"column,omitempty"`
	Op     string   `json:"op,omitempty"`
	Limit  float64  `json:"limit,omitempty"`
	Figure *float64 `json:"figure,omitempty"` // the column's value; nil if it is infinite
	// Confidence is that of each bound.
	Confidence float64 `json:"confidence,omitempty"`

	// Of a share: that which may be over the limit, and how many values of so many
	// requests are. Deff is the design effect: so many of them say as much as one
	// independent one.
	Allowed  float64 `json:"allowed,omitempty"`
	Requests int     `json:"requests,omitempty"`
	N        int     `json:"n,omitempty"`
	Over     int     `json:"over,omitempty"`
	Deff     float64 `json:"deff,omitempty"`
	// Of the share of a latency too: the design effect at the limit alone, how far the percentile
	// is below its limit, as ln(limit / percentile), and the standard error of that, of which
	// DF are the degrees of freedom; DF is 0 where that is not known. Far says that this has
	// decided, with Low and High of the design effect at the limit, as Deff leaves it open.
	LimitDeff float64 `json:"limit_deff,omitempty"`
	Away      float64 `json:"away,omitempty"`
	AwayErr   float64 `json:"away_err,omitempty"`
	Far       bool    `json:"far,omitempty"`

	// Of a mean or a rate: its estimate, the standard error and the degrees of freedom
	// of that, and the time that it was measured.
	Mean    float64 `json:"mean,omitempty"`
	StdErr  float64 `json:"std_err,omitempty"`
	DF      float64 `json:"df,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`

	// Any are the sides of an or, each decided by itself.
	Any []SLOPart `json:"any,omitempty"`

	// Ends are the part at both ends of where the truth may lie, as far as the client may have moved
	// it: as if all latencies were the shortest, and the longest. Nil if that changes nothing.
	Ends []SLOPart `json:"ends,omitempty"`

	// Low and High are the bounds on the share, the mean or the rate.
	Low  float64 `json:"low,omitempty"`
	High float64 `json:"high,omitempty"`
	// MoreRequests or MoreSeconds is about how much more would decide an undecided
	// part, if it goes on as it did; 0 if no practical number would.
	MoreRequests int     `json:"more_requests,omitempty"`
	MoreSeconds  float64 `json:"more_seconds,omitempty"`
}
