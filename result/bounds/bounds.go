// Package bounds is the one table of the bounds that a valid measurement keeps:
// each has its key of the plan, its default and its meaning in the tags of its
// field. Plans are decoded into it, the schema and the documentation are made from
// it, and package validity judges by it.
package bounds

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"sweep.dev/sweep/internal/fieldtag"
)

// Bounds are the largest values that a valid measurement may have. The tags are
// those of package fieldtag. Every float is a ratio, and every bound a maximum.
type Bounds struct {
	// Beyond it the completed requests are the survivors, and their latencies those
	// of another, lighter load.
	ErrorRate float64 `yaml:"max_error_rate" doc:"Largest share of failed requests." default:"0.05" min:"0" max:"1" unit:"ratio" example:"1%"`
	// Of each figure, by all that the client did late, together. From 100 on nothing of
	// that counts, also what has no bound.
	Moved float64 `yaml:"max_moved" doc:"Largest share of a figure by which a client that sent or read late may have moved it; of TTFT and E2E 2 ms in any case." default:"5%" gt:"0" max:"1000" unit:"ratio" example:"2%"`
	// Of the time in which heat or a hardware limit held a GPU's clocks down.
	Throttled float64 `yaml:"max_throttled" doc:"Largest share of a trial in which heat or a hardware limit may slow a GPU's clocks." default:"0.1" min:"0" max:"1" unit:"ratio" example:"5%"`
	// Of the machine's CPU time, by its hypervisor: time in which neither client nor
	// server ran although they wanted to. 2 % reach the p99.
	Steal float64 `yaml:"max_steal" doc:"Largest share of the client's CPUs that the hypervisor gave to others." default:"2%" min:"0" max:"1" unit:"ratio" example:"1%"`
	// Of the change over the plateau: twice of what repeats of a steady cell commonly
	// differ by.
	Drift float64 `yaml:"max_drift" doc:"Largest relative change of TTFT, TPOT or throughput over the plateau." default:"20%" gt:"0" max:"100" unit:"ratio" example:"10%"`
	// Of the completed requests, where the output length is exact: beyond 1 %
	// throughput and E2E are of another load.
	OutputOff float64 `yaml:"max_output_off" doc:"Largest share of completed requests whose output has another length than requested, if output is exact." default:"1%" min:"0" max:"1" unit:"ratio" example:"5%"`
	// Of the prompt tokens that a prefix cache knew beyond what the plan shares: so
	// much of the prefill was not measured.
	CacheHitExcess float64 `yaml:"max_cache_hit_excess" doc:"Most by which the prefix cache's hit rate may exceed what the plan's own sharing explains." default:"5%" min:"0" max:"1" unit:"ratio" example:"10%"`
	// Of the requests to an engine that has servers for prompts. Some prompts are too
	// short for its router, or in the decode server's own cache.
	DecodeOnly float64 `yaml:"max_decode_only" doc:"Largest share of the requests, and of the prompt tokens, that the decode servers may compute themselves, for pd to be proven." default:"5%" min:"0" max:"1" unit:"ratio" example:"50%"`
	// Of prompts that no cache has. A router's threshold, and not a bound of this tool: what
	// it leaves to decode servers by its own decision is counted apart.
	DecodeOnlyBelow *int `yaml:"decode_only_below" doc:"Threshold of a router that leaves prompts with fewer tokens outside of every cache to decode servers on purpose. The requests that it counts so are not held against pd, with at most so many tokens each." default:"none; all prompts are for prefill servers" min:"0" max:"1000000" unit:"tokens" example:"256"`
	// Of the tokens that the server made or read in the trial. Such load is part of every
	// latency.
	ForeignLoad float64 `yaml:"max_foreign_load" doc:"Largest share of the server's output or prompt tokens that may be of requests of others." default:"5%" min:"0" max:"1" unit:"ratio" example:"20%"`
	// Nil is no bound: processes of others are a finding and no more.
	Foreign *int `yaml:"max_foreign_processes" doc:"Most processes of others on the GPUs." default:"no bound; they are a finding" min:"0" max:"1000" example:"0"`
}

// Defaults returns the bounds of a plan that has none of its own. A default in words
// is the zero value.
func Defaults() Bounds {
	var b Bounds
	v := reflect.ValueOf(&b).Elem()
	for _, f := range fieldtag.Of(v.Type()) {
		if to, ok := reflect.TypeAssert[*float64](v.Field(f.Index).Addr()); ok {
			*to = ratio(f.Default)
		}
	}
	return b
}

// ratio returns a share as the tags have it, 0.05 or 5%. It panics on anything else:
// the tag is part of the program.
func ratio(text string) float64 {
	number, percent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(number, 64)
	if err != nil {
		panic(fmt.Sprintf("validity: default: %v", err))
	}
	if percent {
		v /= 100
	}
	return v
}

// Wider names the bounds of b that are wider than those of def, each by its key
// with both values. One that def does not have is not wider.
func (b Bounds) Wider(def Bounds) []string {
	var wider []string
	ours, theirs := reflect.ValueOf(b), reflect.ValueOf(def)
	for _, f := range fieldtag.Of(ours.Type()) {
		if got, ok := reflect.TypeAssert[float64](ours.Field(f.Index)); ok {
			if want := theirs.Field(f.Index).Float(); got > want {
				wider = append(wider, fmt.Sprintf("%s %.4g %% (default %.4g %%)", f.Key, 100*got, 100*want))
			}
		}
	}
	return wider
}
