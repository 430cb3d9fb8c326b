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
	"time"

	"sweep.dev/sweep/internal/fieldtag"
)

// Bounds are the largest values that a valid measurement may have. The tags are
// those of package fieldtag. Every float is a ratio, and every bound a maximum.
type Bounds struct {
	// Beyond it the completed requests are the survivors, and their latencies those
	// of another, lighter load.
	ErrorRate float64 `yaml:"max_error_rate" doc:"Largest share of failed requests." default:"0.05" min:"0" max:"1" unit:"ratio" example:"1%"`
	// Of the p99 of sent - scheduled. A latency that is worth a figure is tens of
	// milliseconds; ten late ones are in it.
	ScheduleLag time.Duration `yaml:"max_schedule_lag" doc:"Largest p99 of the client's lateness in sending." default:"10ms" unit:"s" example:"5ms"`
	// A client that uses all of its CPUs queues its own work, and measures the
	// queue. At 85 % queues begin to show in the p99.
	ClientCPU float64 `yaml:"max_client_cpu" doc:"Largest share of its CPUs that the client may use." default:"0.85" gt:"0" max:"1" unit:"ratio" example:"70%"`
	// 0 is the default, which depends on the gaps and on who took the stamps.
	ClientLag time.Duration `yaml:"max_client_lag" doc:"Largest p99 of the time from the kernel's stamp of a segment to the client's read of it." default:"10ms or half of the median gap between chunks, whichever is more; 1ms or 5 % of it where no kernel stamps receive times" unit:"s" example:"5ms"`
	// A process that stood still for a second has missed a second of the schedule.
	Stall time.Duration `yaml:"max_stall" doc:"Longest time that the client may stand still." default:"1s" unit:"s" example:"200ms"`
	// Of the time in which heat or a hardware limit held a GPU's clocks down.
	Throttled float64 `yaml:"max_throttled" doc:"Largest share of a trial in which heat or a hardware limit may slow a GPU's clocks." default:"0.1" min:"0" max:"1" unit:"ratio" example:"5%"`
	// Of the chunks with a token. Those that share a read share a time, so a gap of
	// zero takes the place of a true one: at 1 % they reach the p99.
	Coalesced float64 `yaml:"max_coalesced" doc:"Largest share of the chunks with content that share a read with the chunk before." default:"1%" min:"0" max:"1" unit:"ratio" example:"5%"`
	// Of the machine's CPU time, by its hypervisor: time in which neither client nor
	// server ran although they wanted to. 2 % reach the p99.
	Steal float64 `yaml:"max_steal" doc:"Largest share of the client's CPUs that the hypervisor gave to others." default:"2%" min:"0" max:"1" unit:"ratio" example:"1%"`
	// Of one event loop. A single loop is one server of a queue: at 70 % its mean
	// wait is 2.3 times its own work (M/M/1), beyond that it grows without bound.
	Loop float64 `yaml:"max_loop" doc:"Largest share of the time in which an event loop of the fast client was busy." default:"70%" gt:"0" max:"1" unit:"ratio" example:"80%"`
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
	DecodeOnly float64 `yaml:"max_decode_only" doc:"Largest share of the requests whose prompts the decode servers may compute themselves, for pd to be proven." default:"5%" min:"0" max:"1" unit:"ratio" example:"50%"`
	// Nil is no bound: processes of others are a finding and no more.
	Foreign *int `yaml:"max_foreign_processes" doc:"Most processes of others on the GPUs." default:"no bound; they are a finding" min:"0" max:"1000" example:"0"`
}

// Defaults are the bounds of a plan that has none of its own. A default in words
// is the zero value.
func Defaults() Bounds {
	var b Bounds
	v := reflect.ValueOf(&b).Elem()
	for _, f := range fieldtag.Of(v.Type()) {
		switch to := v.Field(f.Index).Addr().Interface().(type) {
		case *float64:
			*to = ratio(f.Default)
		case *time.Duration:
			*to, _ = time.ParseDuration(f.Default) // 0 of words
		}
	}
	return b
}

// ratio is a share as the tags have it, 0.05 or 5%. It panics on anything else:
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
		switch got := ours.Field(f.Index).Interface().(type) {
		case float64:
			if want := theirs.Field(f.Index).Float(); got > want {
				wider = append(wider, fmt.Sprintf("%s %.4g %% (default %.4g %%)", f.Key, 100*got, 100*want))
			}
		case time.Duration:
			if want := time.Duration(theirs.Field(f.Index).Int()); got > want {
				wider = append(wider, fmt.Sprintf("%s %s (default %s)", f.Key, got, want))
			}
		}
	}
	return wider
}
