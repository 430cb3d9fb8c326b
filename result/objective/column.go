package objective

import (
	"regexp"
	"strconv"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// A Comparison is a column against a number, with the column on the left. The zero
// value is of a part that is something else.
type Comparison struct {
	Column string
	Op     string // <, <=, > or >=
	Limit  float64
}

// A way is how a comparison is decided.
type way struct {
	rule     string
	latency  string  // whose values; "" for requests that are right or not, as window says
	quantile float64 // of a share: that which must be within the limit
	limit    float64 // of the latency's values, in milliseconds
	window   string  // "", or a suffix of columns; of requests failures or goods
}

// upper reports whether the comparison is a bound from above, and strict.
func (c Comparison) upper() bool { return c.Op == "<" || c.Op == "<=" }

// latencyColumn matches the statistics of latencies that requests decide.
var latencyColumn = regexp.MustCompile(`^(mean|p50|p90|p95|p99)_(ttft|ttfo|tpot|itl|icl|e2e|schedule_lag)_ms(_completed|_whole)?$`)

// Rule returns how the comparison can be decided, if there are enough requests.
func (c Comparison) Rule() string { return c.way().rule }

func (c Comparison) way() way {
	point := way{rule: result.RulePoint}
	switch c.Column {
	case "":
		return point
	case col.ErrorRate:
		if !c.upper() || c.Limit <= 0 || c.Limit >= 1 {
			return point // no number of requests would pass a share of 0
		}
		return way{rule: result.RuleShare, quantile: 1 - c.Limit, window: failures}
	case col.GoodShare:
		if c.upper() || c.Limit <= 0 || c.Limit >= 1 {
			return point
		}
		return way{rule: result.RuleShare, quantile: c.Limit, window: goods}
	case col.P50UserTokS:
		if c.upper() || c.Limit <= 0 {
			return point
		}
		return way{rule: result.RuleShare, latency: "tpot", quantile: 0.5, limit: 1000 / c.Limit}
	case col.ThroughputTokS, col.TotalThroughputTokS, col.RequestThroughput, col.GoodputReqS:
		return way{rule: result.RuleRate}
	}
	m := latencyColumn.FindStringSubmatch(c.Column)
	switch {
	case m == nil:
		return point
	case m[1] == "mean":
		return way{rule: result.RuleMean, latency: m[2], limit: c.Limit, window: m[3]}
	case !c.upper():
		return point
	}
	percent, err := strconv.Atoi(m[1][1:])
	if err != nil {
		return point
	}
	return way{rule: result.RuleShare, latency: m[2], quantile: float64(percent) / 100, limit: c.Limit, window: m[3]}
}
