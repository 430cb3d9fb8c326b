// Package agreement holds what the client measured of a trial against what the
// engine says of the same requests. Both stand in the row; where they differ by
// more than is explained, that is a finding, with both numbers and the likely
// reason.
//
// The client is right about what a user got. The engine is right about what it
// did. A difference says that something stands between the two, that somebody
// else used the server, or that one of them counts something else.
package agreement

import (
	"fmt"
	"math"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
)

// A Figure is one quantity as both sides have it.
type Figure struct {
	Name           string  `json:"name"` // the client's column
	Unit           string  `json:"unit"`
	Client, Server float64 `json:"-"`
	// Code is that of the finding where the two differ by more than is
	// explained, else the zero Code.
	Code finding.Code `json:"code,omitzero"`
	Why  string       `json:"why,omitempty"` // in words, with both numbers
}

// Within what is explained. Latencies: the client's clock starts earlier and
// ends later than the engine's, by the network, the HTTP server in front of the
// engine and its tokenizer.
const (
	maxTokens     = 0.05 // share; an engine may count the last step a moment after it sent it
	maxThroughput = 0.15 // share, of a gauge that is seen now and then
	maxTTFT       = 0.25 // share of the engine's, and what is ahead of it
	maxRate       = 0.10 // share of the engine's TPOT or E2E, and what is ahead or maxGap
	minAhead      = 5.0  // ms that a request is ahead of the engine: server, tokenizer
	roundTrips    = 2    // or so many round trips of its connection, if they are longer
	maxGap        = 1.0  // ms
	below         = 0.03 // share that the client may be below the engine
	minCoalesced  = 1.5  // tokens a chunk
)

// Compare puts the figures that both sides have side by side, in the order in
// which people read them. A trial in which requests failed has none but the
// throughput: the two sides then have different requests. The client's are those of
// the whole trial, as an engine knows no plateau.
func Compare(row result.Row) []Figure {
	c := comparison{row: row}
	ahead := max(minAhead, roundTrips*row.Float(col.P50RTTMs))
	c.count(col.OutputTokens, col.ServerOutputTokens, finding.TokensDisagree)
	c.input()
	c.count(col.Completed, col.ServerRequests, finding.RequestsDisagree)
	c.latency(col.MeanTTFTMsWhole, col.MeanServerTTFTMs, finding.TTFTDisagrees, maxTTFT, ahead)
	if !c.latency(col.MeanTPOTMsWhole, col.MeanServerTPOTMs, finding.TPOTDisagrees, maxRate, maxGap) {
		c.latency(col.MeanITLMsWhole, col.MeanServerITLMs, finding.TPOTDisagrees, maxRate, maxGap)
	}
	c.latency(col.MeanE2EMsWhole, col.MeanServerE2EMs, finding.E2EDisagrees, maxRate, ahead)
	c.reported()
	return c.figures
}

// Findings returns the figures that differ by more than is explained, and what the
// chunks of the requests say of the tokens in them.
func Findings(row result.Row, requests []result.Request) []result.Finding {
	var out []result.Finding
	for _, f := range Compare(row) {
		if f.Code != (finding.Code{}) {
			out = append(out, result.Finding{Code: f.Code, Text: f.Why})
		}
	}
	if f, ok := coalesced(requests); ok {
		out = append(out, f)
	}
	return out
}

type comparison struct {
	row     result.Row
	figures []Figure
}

// both returns the two sides of a figure. They are of the same requests only where
// every one was completed, and no probe was sent beside them.
func (c *comparison) both(client, server string) (a, b float64, ok bool) {
	a, ok = c.row.Number(client)
	b, ok2 := c.row.Number(server)
	done, _ := c.row.Number(col.Completed)
	sent, _ := c.row.Number(col.Requests)
	probes, _ := c.row.Number(col.ProbeRequests)
	return a, b, ok && ok2 && done == sent && done > 0 && probes == 0
}

func (c *comparison) add(f Figure) { c.figures = append(c.figures, f) }

func (c *comparison) count(client, server string, code finding.Code) {
	told, made, ok := c.both(client, server)
	if !ok {
		return
	}
	f := Figure{Name: client, Unit: "tokens", Client: told, Server: made}
	what, bound := "output tokens", maxTokens
	if code == finding.RequestsDisagree {
		f.Unit, what, bound = "requests", "requests", 0
	}
	if math.Abs(told-made) > bound*max(told, made) {
		f.Code = code
		f.Why = fmt.Sprintf("the answers have %.0f %s and the engine counted %.0f: %s", told, what, made, c.otherwise(made > told))
	}
	c.add(f)
}

// otherwise returns the likely reason for counts that differ.
func (c *comparison) otherwise(more bool) string {
	switch {
	case more && c.busier():
		return "another client used the server, so these latencies include its load"
	case more:
		return "it also counts discarded tokens, or another client used the server"
	}
	return "it counts another thing, or one of its processes exposes nothing"
}

// busier reports whether the engine ended more requests than were sent.
func (c *comparison) busier() bool {
	sent, ended, ok := c.both(col.Completed, col.ServerRequests)
	return ok && ended > sent
}

// input compares prompts. An engine may leave out what its cache had.
func (c *comparison) input() {
	told, made, ok := c.both(col.InputTokens, col.ServerInputTokens)
	if !ok {
		return
	}
	f := Figure{Name: col.InputTokens, Unit: "tokens", Client: told, Server: made}
	hits, cached := c.row.Number(col.PrefixCacheHitRate)
	computed := told * (1 - hits)
	near := func(want float64) bool { return math.Abs(want-made) <= maxTokens*max(want, made) }
	switch {
	case near(told):
	case cached && near(computed):
		f.Why = fmt.Sprintf("the engine counts %.0f prompt tokens of %.0f: those that its prefix cache did not have", made, told)
	default:
		f.Code = finding.InputDisagrees
		f.Why = fmt.Sprintf("the answers have %.0f prompt tokens and the engine counted %.0f: %s", told, made, c.otherwise(made > told))
	}
	c.add(f)
}

// latency compares two means: share and slack bound what the client may be
// above the engine.
func (c *comparison) latency(client, server string, code finding.Code, share, slack float64) bool {
	ours, theirs, ok := c.both(client, server)
	if !ok {
		return false
	}
	f := Figure{Name: client, Unit: "ms", Client: ours, Server: theirs}
	switch {
	case ours > theirs*(1+share)+slack:
		f.Code = code
		f.Why = fmt.Sprintf("the client sees a mean %s of %.4g ms, the engine %.4g ms: %s", names[code], ours, theirs, c.slower(code, ours-theirs))
	case ours < theirs*(1-below)-slack/5:
		f.Code = code
		f.Why = fmt.Sprintf("the client sees a mean %s of %.4g ms, the engine %.4g ms, which for the same requests cannot be: %s",
			names[code], ours, theirs, c.faster())
	}
	c.add(f)
	return true
}

var names = map[finding.Code]string{finding.TTFTDisagrees: "TTFT", finding.TPOTDisagrees: "TPOT", finding.E2EDisagrees: "E2E latency"}

// slower returns the likely reason for a client that waits by ms longer than the
// engine says.
func (c *comparison) slower(code finding.Code, ms float64) string {
	proxied := c.row[col.NetworkPath] == "proxy"
	switch {
	case code == finding.TPOTDisagrees && proxied:
		return "the proxy in between holds chunks back"
	case code == finding.TPOTDisagrees:
		return "chunks are held back on their way, or the engine's HTTP server is out of CPU"
	case proxied:
		return "the proxy in between adds latency and may buffer"
	}
	ours, theirs, ok := c.both(col.MeanE2EMsWhole, col.MeanServerE2EMs)
	switch {
	case code == finding.TTFTDisagrees && ok && ours-theirs < ms/2:
		return "the first tokens have no text, or their chunks are held back on their way; the end of the answers is not"
	case code == finding.TTFTDisagrees:
		return "requests wait before the engine's clock starts: in its HTTP server, its tokenizer or a router"
	}
	return "requests wait before the engine's clock starts, or their end after it"
}

func (c *comparison) faster() string {
	if c.busier() {
		return "it also counts slower requests of another client"
	}
	return "its histogram holds other requests, or its clock starts earlier, at a router"
}

// reported holds the output that an engine claims of itself against what was
// delivered: 460 tok/s reported, 361 delivered.
func (c *comparison) reported() {
	delivered, ok := c.row.Number(col.ThroughputTokSWhole)
	claimed, ok2 := c.row.Number(col.ServerReportedThroughputTokS)
	if !ok || !ok2 || delivered <= 0 || claimed <= 0 {
		return
	}
	f := Figure{Name: col.ThroughputTokSWhole, Unit: "tokens/s", Client: delivered, Server: claimed}
	if math.Abs(claimed-delivered) > maxThroughput*max(claimed, delivered) {
		f.Code = finding.ReportedThroughput
		why := "its figure is an average over the times at which it was busy, not over the trial"
		if claimed < delivered {
			why = "its figure is of single moments, most of them with fewer requests, or of one of its processes"
		}
		f.Why = fmt.Sprintf("the engine reports %.4g tok/s and delivered %.4g: %s", claimed, delivered, why)
	}
	c.add(f)
}

// coalesced reports whether chunks carry several tokens: then ICL and ITL are two
// different things.
func coalesced(requests []result.Request) (result.Finding, bool) {
	tokens, chunks := 0, 0
	for i := range requests {
		r := &requests[i]
		if !r.Measured() || r.Status != result.Completed || r.CompletionTokens <= 0 || r.FirstTokenChunk < 0 {
			continue
		}
		tokens += r.CompletionTokens
		chunks += r.TokenChunks()
	}
	if chunks == 0 || float64(tokens) < minCoalesced*float64(chunks) {
		return result.Finding{}, false
	}
	return result.Finding{Code: finding.ChunksCoalesced, Text: fmt.Sprintf(
		"%d tokens came in %d chunks: the gaps between chunks (ICL) are not those between tokens, and ITL spreads each gap over its tokens", tokens, chunks)}, true
}
