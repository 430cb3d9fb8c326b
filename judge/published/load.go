package published

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// unknown is a count that a file does not tell.
const unknown = -1

// A load is one load of a file, as far as the file tells. Times are in seconds.
type load struct {
	tool, version string
	concurrency   int     // requests in flight; 0 in an open loop
	rate          float64 // requests/s asked for; 0 if as fast as answers come
	ramped        bool    // the start was spread over time on purpose
	completed     int
	failed        int // failed or not finished
	duration      float64
	figures       []figure  // that are judged
	all           []figure  // of the file
	requests      []request // nil if the file has none

	// Figures of files without requests; NaN for those that the file does not have.
	delay99, delay  float64 // of the sends: p99 and mean
	e2eMean         float64
	inFlight        float64 // mean, over the whole
	gapMean, gapP1  float64 // between chunks
	tokensPerChunk  float64
	cachedShare     float64 // of the prompt tokens, 0 to 1
	chunksAreNamed  bool    // figures of chunks have a name of their own
	itlMean, tpMean float64 // if both are there, they differ by the tokens of a chunk
	rates           []rate  // that the duration decides
}

// A rate is a throughput with the number that it is of.
type rate struct {
	figure string
	of     float64 // NaN if the file does not say
	word   string
}

func newLoad(tool, version string) *load {
	nan := math.NaN()
	return &load{
		tool: tool, version: version, completed: unknown, failed: unknown, duration: nan,
		delay99: nan, delay: nan, e2eMean: nan, inFlight: nan, gapMean: nan, gapP1: nan, tokensPerChunk: nan, cachedShare: nan, itlMean: nan, tpMean: nan,
	}
}

// A request is one completed request; NaN for what is not known.
type request struct {
	start, end, ttft float64
	delay            float64   // of the send
	gaps             []float64 // between chunks
	tokens, chunks   int
}

// A kind is the quantity of a figure.
type kind int

const (
	other kind = iota
	ttft
	tpot // per request: (last - first) / (tokens - 1)
	gap  // between chunks, called inter-token latency
	chunk
	e2e
	throughput
	peak // of tokens in a second, counted by chunks
)

// A figure is a number of a file.
type figure struct {
	name   string // in the file
	kind   kind
	p      float64 // 0.95 for a p95; 0 for no percentile
	family string  // name without the statistic
	value  float64 // in the file's unit
}

// mean reports whether f is a mean of latencies or a rate.
func (f figure) mean() bool {
	return f.p == 0 && (f.kind == throughput || strings.HasPrefix(f.name, "mean_") || strings.HasSuffix(f.name, " mean") || strings.HasSuffix(f.name, " avg"))
}

// latency reports whether it is the latency of requests.
func (f figure) latency() bool { return f.kind >= ttft && f.kind <= e2e }

// percentileOf returns the p of a name such as p95, p99.9, median or p001 (0.1 %).
func percentileOf(name string) float64 {
	if name == "median" {
		return 0.5
	}
	digits, ok := strings.CutPrefix(name, "p")
	if !ok {
		return 0
	}
	if digits == "001" || digits == "999" { // guidellm's 0.1 and 99.9
		digits = map[string]string{"001": "0.1", "999": "99.9"}[digits]
	}
	v, err := strconv.ParseFloat(digits, 64)
	if err != nil || !(v > 0 && v < 100) {
		return 0
	}
	return v / 100
}

func finite(v float64) bool { return math.Abs(v) < noNumber }

// of returns the values of all requests that have one.
func (l *load) of(value func(request) float64) []float64 {
	var list []float64
	for _, r := range l.requests {
		if v := value(r); finite(v) {
			list = append(list, v)
		}
	}
	slices.Sort(list)
	return list
}

// closed reports whether a fixed number of requests is kept in flight.
func (l *load) closed() bool { return l.concurrency > 0 && l.rate <= 0 }

func number(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e15 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
