package stack

import (
	"slices"
	"strconv"
	"strings"
)

// metricsNames are names of ports that have metrics, the best first: llm-d's endpoint
// picker and model servers, Dynamo's system server, and the common one.
var metricsNames = []string{"metrics", "http-metrics", "system", "prometheus", "http"}

// metricsFlags name the port of the metrics in arguments, the best first.
var metricsFlags = []string{"metrics-port", "port"}

// MetricsPort returns the port of a container that has its metrics, as far as its manifest
// tells: one that is named for them, else the one that its arguments name, else its
// first that takes requests. It is 0 if the manifest names none.
func (c *Container) MetricsPort() int {
	for _, name := range metricsNames[:len(metricsNames)-1] {
		if n := c.named(name); n > 0 {
			return n
		}
	}
	for _, flag := range metricsFlags {
		if n := c.numberOf(flag); n > 0 {
			return n
		}
	}
	if n := c.named(metricsNames[len(metricsNames)-1]); n > 0 {
		return n
	}
	for _, p := range c.Ports {
		name := strings.ToLower(p.Name)
		if !slices.ContainsFunc(notHTTP, func(not string) bool { return strings.Contains(name, not) }) {
			return p.Number
		}
	}
	return 0
}

// named returns the port of a name, 0 if there is none.
func (c *Container) named(name string) int {
	i := slices.IndexFunc(c.Ports, func(p Port) bool { return strings.EqualFold(p.Name, name) })
	if i < 0 {
		return 0
	}
	return c.Ports[i].Number
}

// FlagPort returns the port of the metrics of a container that has them with a flag alone: the
// value of the flag, which may stand in a file that nobody sees, or else a port that is named
// for them and is not the one that takes requests. It is 0 if the manifest shows neither.
func (c *Container) FlagPort(flag string) int {
	if n := c.numberOf(flag); n > 0 {
		return n
	}
	for _, name := range metricsNames[:2] {
		if n := c.named(name); n > 0 && n != c.numberOf("port") {
			return n
		}
	}
	return 0
}

// numberOf returns the value of a flag of a container, in a list of arguments or in a script;
// 0 if there is none.
func (c *Container) numberOf(flag string) int {
	words := strings.FieldsFunc(strings.Join(c.Line(), " "), func(b rune) bool { return strings.ContainsRune(" =\n\t\"'\\", b) })
	for i, w := range words[:max(len(words)-1, 0)] {
		if strings.HasPrefix(w, "-") && strings.ReplaceAll(strings.TrimLeft(w, "-"), "_", "-") == flag {
			if n, err := strconv.ParseUint(words[i+1], 10, 16); err == nil {
				return int(n)
			}
		}
	}
	return 0
}
