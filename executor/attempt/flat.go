package attempt

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/executor/observe"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
)

// A warm-up whose prompts begin alike goes on in rounds until the server's caches are
// flat: over the last rounds neither the hit rate of its prefix cache nor its
// KV occupancy differ by more than a bound.
const (
	// flatRounds is of how many rounds the figures must be alike.
	flatRounds = 3
	// flatWithin is by how much they may differ, of 1.
	flatWithin = 0.05
	// mostRounds and LongestWarmup bound the warm-up's rounds.
	mostRounds = 10
	// leastRound is how many requests a round has at least: the hit rate of fewer is
	// that of single prompts.
	leastRound = 8
	// mostPrefixes is to how many prefixes of the plan a round is made longer, so that
	// it sends each of them once: rounds of other prefixes are alike, and the cache
	// knows none of them.
	mostPrefixes = 256
)

// metricsCollector is the kind of the collector that reads the engine's metrics.
const metricsCollector = "prom"

// WarmsUntilFlat reports whether the warm-up of a load goes on until the server's caches
// are flat. The plan leaves the warm-up to sweep, its prompts begin alike or are sent
// again, the server is ours, and its metrics show what is in its caches.
func WarmsUntilFlat(p *plan.Plan, profile *engine.Profile, given bool, l plan.Load) bool {
	prompts := l.Prompts
	again := prompts.Kind != plan.PromptsSynthetic && prompts.Reuse == plan.ReuseAllowed
	alike := prompts.SharedPrefix > 0 || prompts.System != "" || again && !prompts.CacheBust
	endless := prompts.Kind == plan.PromptsSynthetic || again
	return !given && l.Warmup == (plan.Warmup{}) && alike && endless && showsCaches(profile) &&
		slices.ContainsFunc(p.Collect, func(c plan.Plugin) bool { return c.Kind == metricsCollector })
}

// showsCaches reports whether an engine's profile knows where its caches can be seen.
func showsCaches(profile *engine.Profile) bool {
	all := []*engine.Metrics{&profile.Metrics}
	for _, role := range profile.Roles {
		all = append(all, profile.MetricsOf(role.Name))
	}
	return slices.ContainsFunc(all, func(m *engine.Metrics) bool {
		return m != nil && (m.Series[engine.PrefixHits] != nil || m.Series[engine.PrefixHitRate] != nil || m.Series[engine.KVCacheUsage] != nil)
	})
}

// FlatRequests returns how many requests such a warm-up sends at most beyond its first, two
// for each in flight, where slots are.
func FlatRequests(l plan.Load, slots int) int { return mostRounds * roundOf(l, slots) }

// roundOf returns how many requests a round has.
func roundOf(l plan.Load, slots int) int {
	return max(leastRound, slots, min(l.Prompts.PrefixGroups, mostPrefixes))
}

// A cacheLook is what the metrics show of a round: its hit rate and the most of the KV
// cache that was in use, each from 0 to 1 or NaN.
type cacheLook struct{ hits, used float64 }

// known reports whether anything is.
func (c cacheLook) known() bool { return !math.IsNaN(c.hits) || !math.IsNaN(c.used) }

// flat reports whether the last rounds are alike in all that is known of them.
func flat(rounds []cacheLook) bool {
	if len(rounds) < flatRounds {
		return false
	}
	last := rounds[len(rounds)-flatRounds:]
	return spread(last, func(c cacheLook) float64 { return c.hits }) <= flatWithin &&
		spread(last, func(c cacheLook) float64 { return c.used }) <= flatWithin
}

// spread returns the difference between the greatest and the least of the figures that are
// known, 0 for none.
func spread(rounds []cacheLook, of func(cacheLook) float64) float64 {
	low, high := math.Inf(1), math.Inf(-1)
	for _, c := range rounds {
		if v := of(c); !math.IsNaN(v) {
			low, high = min(low, v), max(high, v)
		}
	}
	return max(0, high-low)
}

// untilFlat sends rounds of requests, of which slots are in flight, until the server's
// caches are flat. What it could not reach within its bounds it notes. A server that
// does not show its caches gets one round.
//
// sent are the parts of the warm-up by time that were sent before.
func (a *Attempt) untilFlat(ctx context.Context, d sender, c source.Config, slots int, sent []int) error {
	// By time alone: such a warm-up has prompts of its own, and never enough.
	c.WarmupRequests, c.WarmupDuration, c.WarmupSlots = 0, LongestWarmup, slots
	began, before := time.Now(), a.warmed()
	var rounds []cacheLook
	for range mostRounds {
		s := sending{load: c, most: roundOf(a.trial.Cell.Load, slots), rounds: sent, rec: recorder(a.keep)}
		look, err := a.round(ctx, d, s)
		if err != nil {
			return err
		}
		sent = append(sent, s.most)
		if rounds = append(rounds, look); !look.known() || flat(rounds) && a.warmed()-before >= a.trial.Cell.Load.Prompts.PrefixGroups {
			return nil
		}
		if time.Since(began) > LongestWarmup {
			break
		}
	}
	a.sink.Note(unsettled(rounds, a.warmed()-before, a.trial.Cell.Load.Prompts.PrefixGroups))
	return nil
}

// round sends a round of a warm-up, and looks at the server's metrics beside
// them. Nothing of that is kept in the trial.
func (a *Attempt) round(ctx context.Context, d sender, s sending) (cacheLook, error) {
	watch := observe.Start(ctx, observe.Config{
		Collectors: slices.DeleteFunc(slices.Clone(a.config.Collectors), func(n observe.Named) bool { return n.Kind != metricsCollector }),
		Server:     a.subject.Server, Profile: a.subject.Profile, Backend: a.config.Backend,
		Given: a.config.Given, Columns: a.config.Plan.Columns(), Anchor: a.anchor,
		Asked: func() { a.subject.Extra.Add(1, 0) }, Sink: observe.NewSink(nil, a.config.Mask), Clients: d.processes(),
	})
	h, err := d.send(ctx, s, a.options(nil))
	row := watch(ctx)
	number := func(column string) float64 {
		if v, ok := row.Number(column); ok {
			return v
		}
		return math.NaN()
	}
	return cacheLook{number(col.PrefixCacheHitRate), number(col.MaxKVCacheUsage)}, errors.Join(err, a.lostIn(&h), context.Cause(ctx))
}

// unsettled returns the finding of a warm-up that ended before the caches were flat, or
// before it had sent each of the prefixes that prompts begin with.
func unsettled(rounds []cacheLook, sent, prefixes int) result.Finding {
	if sent < prefixes {
		return result.Finding{Code: finding.CacheUnsettled, Text: fmt.Sprintf("the prompts begin with %d prefixes, and the warm-up ended after %d further requests, before it had sent each of them", prefixes, sent)}
	}
	first, last := rounds[max(0, len(rounds)-flatRounds)], rounds[len(rounds)-1]
	var changed []string
	for _, f := range []struct {
		what     string
		from, to float64
	}{{"the prefix cache's hit rate", first.hits, last.hits}, {"the KV occupancy", first.used, last.used}} {
		if !math.IsNaN(f.from) && !math.IsNaN(f.to) {
			changed = append(changed, fmt.Sprintf("%s from %.0f %% to %.0f %%", f.what, 100*f.from, 100*f.to))
		}
	}
	return result.Finding{Code: finding.CacheUnsettled, Text: fmt.Sprintf("after %d further requests of the warm-up the caches still changed over %d rounds: %s",
		sent, min(flatRounds, len(rounds)), strings.Join(changed, ", "))}
}
