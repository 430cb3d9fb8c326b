package observe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/collectors"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
)

// targets returns the servers of the trial.
func (c *Config) targets() []collectors.Target {
	var list []collectors.Target
	var lost []string
	roles, found := c.Server.Roles, backends.Found(nil)
	if f, ok := c.Server.Deployment.(backends.Found); ok {
		roles, found = f.Roles(), f // by now
	}
	var whys []string
	for _, role := range roles {
		for replica := range role.Replicas {
			t := collectors.Target{
				Role: role.Name, Replica: replica, Tier: engine.TierEngine, Host: c.Server.Host(role.Name, replica),
				Metrics: &c.Profile.Metrics, Args: role.Args,
			}
			if of := c.Profile.Role(role.Name); of != nil {
				t.Tier, t.Metrics = cmp.Or(of.Tier, engine.TierEngine), c.Profile.MetricsOf(role.Name)
			}
			if found != nil {
				if why := locateFound(found, &t, c.Server.Host(c.Profile.EntryRole(), 0).URL()); why != "" {
					whys = append(whys, why)
				}
			} else if !c.locate(&t) {
				// Its own port has no metrics, or those of another role.
				if t.Metrics.Flag == "" {
					lost = append(lost, role.Name)
				}
				t.Metrics = nil
			}
			list = append(list, t)
		}
	}
	for _, role := range c.Profile.Roles {
		known := slices.ContainsFunc(roles, func(r backends.Role) bool { return r.Name == role.Name })
		if metrics := c.Profile.MetricsOf(role.Name); !known && metrics != nil && metrics.Path != "" && metrics.Flag == "" {
			lost = append(lost, role.Name)
			whys = append(whys, role.Name+": there is none")
		}
	}
	if found != nil {
		if len(whys) > 0 {
			c.Sink.Note(result.Finding{Code: finding.MetricsUnreachable, Text: "the metrics of some servers cannot be read, and the columns of their roles are null: " + strings.Join(whys, "; ")})
		}
		return list
	}
	if len(lost) > 0 {
		c.Sink.Note(result.Finding{Code: finding.MetricsUnreachable, Text: fmt.Sprintf(
			"the address of the metrics of %s is not known, and their columns are null; in the plan: backend.roles: {%s: [{metrics: http://HOST:PORT}]}",
			strings.Join(slices.Compact(lost), ", "), lost[0])})
	}
	return list
}

// locateFound finds where the metrics of a target are that was found, or why they cannot
// be read. It stays a target then, so that what the others of its role say is not taken
// for the whole.
func locateFound(found backends.Found, t *collectors.Target, entry string) (why string) {
	if t.Metrics == nil || t.Metrics.Path == "" {
		return ""
	}
	h, why := found.Metrics(t.Role, t.Replica)
	if why != "" {
		t.Host, t.Keyless = unreachable{t.Host, why}, true
		return t.Role + ": " + why
	}
	t.Host, t.Keyless = h, keyless(entry, h.URL())
	return ""
}

// An unreachable host takes no connection.
type unreachable struct {
	host.Host
	why string
}

// Dial implements [host.Host].
func (u unreachable) Dial(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New(u.why)
}

// locate finds where the metrics of a target are; false if that is not known.
func (c *Config) locate(t *collectors.Target) bool {
	if known, ok := c.Backend.(backends.Standing); ok {
		if h, ok := known.Metrics(t.Role, t.Replica); ok {
			t.Host, t.Keyless = h, keyless(c.Server.Host(c.Profile.EntryRole(), 0).URL(), h.URL())
			return true
		}
	}
	switch {
	case t.Metrics == nil:
		return true
	case t.Metrics.Flag != "":
		return false // it was started without it
	case t.Metrics.Port == "":
		return true
	}
	if p, ok := t.Host.(host.Porter); ok {
		t.MetricsAddr = p.Addr(t.Metrics.Port)
	}
	return t.MetricsAddr != ""
}

// keyless reports whether the key of one URL must not be sent to another: to another
// host, or without the TLS that protects it on its way to its own.
func keyless(own, other string) bool {
	from, err := url.Parse(own)
	to, err2 := url.Parse(other)
	return err != nil || err2 != nil || !strings.EqualFold(from.Hostname(), to.Hostname()) ||
		from.Scheme == "https" && to.Scheme != "https"
}
