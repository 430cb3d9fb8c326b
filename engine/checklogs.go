package engine

import (
	"maps"
	"slices"
	"strings"

	"sweep.dev/sweep/engine/loglines"
)

// maxEvents bounds the patterns of a profile's logs, of each kind.
const maxEvents = 200

// needs are the groups that an expression must have for what its event tells.
var needs = map[string]string{loglines.Alias: "alias", loglines.Picked: "decode_worker"}

// logs checks what a profile says of single lines.
func (c *checker) logs() {
	logs := &c.p.Logs
	if len(logs.Events) > maxEvents || len(logs.Compiling) > maxEvents || len(logs.Noise) > maxEvents || len(logs.Times) > maxEvents {
		c.fail(at("logs"), "more than %d patterns of one kind", maxEvents)
		return
	}
	for i, t := range logs.Times {
		if re := c.expression(at("logs", "times", i, "match"), t.Match); re != nil && re.NumSubexp() < 1 {
			c.fail(at("logs", "times", i, "match"), "it has no group for the time")
		}
		if t.Layout == "" {
			c.fail(at("logs", "times", i, "layout"), "layout is missing")
		}
	}
	for kind, list := range map[string][]loglines.Noise{"noise": logs.Noise, "compiling": logs.Compiling} {
		for i, n := range list {
			if n.Match == "" {
				c.fail(at("logs", kind, i, "match"), "it matches every line")
			}
			c.expression(at("logs", kind, i, "match"), n.Match)
		}
	}
	groups, names := map[string]bool{}, map[string]bool{}
	for i := range logs.Events {
		e, where := &logs.Events[i], at("logs", "events", i)
		switch {
		case !roleName.MatchString(e.Name):
			c.fail(under(where, "name"), "%q: want small letters, digits and underscores", e.Name)
		case names[e.Name]:
			c.fail(under(where, "name"), "event %q: every event needs a name of its own", e.Name)
		}
		names[e.Name] = true
		if e.Says == "" {
			c.fail(under(where, "says"), "says is missing")
		}
		if e.Tells != "" && !slices.Contains(loglines.Tellings(), e.Tells) {
			c.fail(under(where, "tells"), "%q: want one of %s", e.Tells, strings.Join(loglines.Tellings(), ", "))
		}
		if len(e.Match) == 0 {
			c.fail(under(where, "match"), "event %q has no expression", e.Name)
		}
		for j, m := range e.Match {
			re := c.expression(under(where, "match", j), m)
			if re == nil {
				continue
			}
			for _, group := range re.SubexpNames() {
				groups[group] = true
			}
			if group := needs[e.Tells]; group != "" && re.SubexpIndex(group) < 0 {
				c.fail(under(where, "match", j), "it tells %s and has no group (?P<%s>...)", e.Tells, group)
			}
			if re.SubexpIndex("request") < 0 && len(e.Near) == 0 {
				c.fail(under(where, "match", j), "it has no group (?P<request>...), and the event is near no other")
			}
		}
	}
	for i := range logs.Events {
		for j, near := range logs.Events[i].Near {
			where := at("logs", "events", i, "near", j)
			if !names[near.Event] {
				c.fail(under(where, "event"), "there is no event %q", near.Event)
			}
			if near.Side != loglines.Before && near.Side != loglines.After {
				c.fail(under(where, "side"), "%q: want before or after", near.Side)
			}
		}
	}
	for i, link := range logs.Links {
		if link == "" || !groups[link] {
			c.fail(at("logs", "links", i), "no event has the group %q", link)
		}
	}
	for _, container := range slices.Sorted(maps.Keys(logs.Containers)) {
		if logs.Containers[container] == "" {
			c.fail(at("logs", "containers", container), "it names no role")
		}
	}
}
