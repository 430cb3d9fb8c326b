// Package size says how many servers of each kind carry a load, from the loads that
// searches have certified. It is pure.
package size

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/judge/search"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/capacity"
	"sweep.dev/sweep/result/col"
)

// An Answer is how many servers carry a load within one objective. Only servers that were
// asked the same (prompts, load, and all axes but those of the server) stand beside each
// other.
type Answer struct {
	Load      float64  `json:"load"` // requests/s
	Objective string   `json:"objective"`
	Expr      string   `json:"expr"`
	About     string   `json:"about"` // the axes that are not of the server, "" for none
	Servers   []Server `json:"servers"`
	Cheapest  *string  `json:"cheapest"` // the Server.Name; null if it cannot be told
	Why       string   `json:"why"`      // why not; "" if it can
	Left      []Left   `json:"left"`

	conditions string
}

// A Server is a kind of server with a certified load.
type Server struct {
	Name       string   `json:"name"`
	Dir        string   `json:"dir"`       // of the run
	Capacity   float64  `json:"capacity"`  // requests/s that one server certainly carries
	Most       *float64 `json:"most"`      // certified on the best of several devices; null for one device
	Devices    int      `json:"devices"`   // that it was measured on; 0 if nobody knows
	Count      int      `json:"count"`     // of servers
	GPUs       *int     `json:"gpus"`      // of all servers; null if nobody knows
	USDPerHour *float64 `json:"usd_hour"`  // of all servers; null without a price
	Simulated  bool     `json:"simulated"` // its trials are

	least *float64 // USD per hour if all devices were as the best
}

// A Left is a kind of server that cannot be sized.
type Left struct {
	Name string `json:"name"`
	Why  string `json:"why"`

	open bool // it may yet be certified
}

// Of sizes each kind of server of some runs for a load in requests/s. objective chooses
// one by its name; "" is all. The answers are in the order in which the runs have them.
func Of(runs []*report.Run, load float64, objective string) []Answer {
	var all []Answer
	for _, run := range runs {
		for _, c := range capacity.Of(run) {
			if objective == "" || c.Objective == objective {
				all = add(all, run, &c, load)
			}
		}
	}
	for i := range all {
		all[i].choose()
	}
	return all
}

// add puts what a search has found to the answer of the same question.
func add(all []Answer, run *report.Run, c *capacity.Answer, load float64) []Answer {
	var server, about []string
	for _, s := range c.Settings {
		if s.Server {
			server = append(server, s.Text)
		} else {
			about = append(about, s.Text)
		}
	}
	name := cmp.Or(strings.Join(server, " "), run.State.Manifest.Plan)
	a := Answer{Load: load, Objective: c.Objective, Expr: c.Expr, About: strings.Join(about, " "), conditions: c.Conditions()}
	i := slices.IndexFunc(all, func(o Answer) bool {
		return o.Objective == a.Objective && o.Expr == a.Expr && o.About == a.About && (o.conditions == a.conditions || a.conditions == "")
	})
	if i < 0 {
		i, all = len(all), append(all, a)
	}
	why := ""
	switch {
	case c.Of.Axis != col.RequestRate:
		why = "its search is of " + c.Of.Axis + ", and users at once are no requests per second"
	case c.Capacity == nil:
		why = "no load is certified: " + cmp.Or(c.Reason, "the search has not ended")
	}
	if why != "" {
		lost := c.Reason == search.BelowRange || c.Reason == search.ServerFails || c.Of.Axis != col.RequestRate
		all[i].Left = append(all[i].Left, Left{name, why, !lost})
		return all
	}
	all[i].Servers = append(all[i].Servers, sized(run, c, name, load))
	return all
}

func sized(run *report.Run, c *capacity.Answer, name string, load float64) Server {
	s := Server{Name: name, Dir: run.Dir, Capacity: *c.Capacity, Devices: len(c.Devices), Count: count(load, *c.Capacity)}
	_, s.Most = c.Spread()
	if gpus, ok := c.Mean(col.GPUCount); ok {
		n := int(math.Round(gpus)) * s.Count
		s.GPUs = &n
	}
	if price, ok := c.Mean(col.USDPerHour); ok {
		all := price * float64(s.Count)
		s.USDPerHour = &all
		if s.Most != nil {
			best := price * float64(count(load, *s.Most))
			s.least = &best
		}
	}
	s.Simulated = c.Simulated()
	return s
}

// count returns how many servers carry a load of which each carries a part. A load that is a
// whole number of parts but for the rounding of floats takes no further one.
func count(load, each float64) int { return int(math.Ceil(load/each - 1e-9)) }

// choose names the cheapest server, if its price with its worst device is below the prices
// of all others with their best.
func (a *Answer) choose() {
	var priced []*Server
	simulated := 0
	for i := range a.Servers {
		if a.Servers[i].Simulated {
			simulated++
		}
		if a.Servers[i].USDPerHour != nil {
			priced = append(priced, &a.Servers[i])
		}
	}
	if len(a.Servers) < 2 {
		a.Why = "there is one kind of server with a certified load"
		return
	}
	if simulated > 0 && simulated < len(a.Servers) {
		a.Why = "some of them are simulated, and others were measured"
		return
	}
	if at := slices.IndexFunc(a.Left, func(l Left) bool { return l.open }); at >= 0 {
		a.Why = "that of " + a.Left[at].Name + " is not decided: " + a.Left[at].Why
		return
	}
	if len(priced) < len(a.Servers) {
		a.Why = "not all have a price: prices in the plan or the configuration sets one"
		return
	}
	for _, s := range priced {
		if s.least == nil {
			a.Why = s.Name + " was not certified on several devices, so that nobody knows how far its cards are apart (find.devices)"
			return
		}
	}
	best := slices.MinFunc(priced, func(x, y *Server) int { return cmp.Compare(*x.USDPerHour, *y.USDPerHour) })
	for _, s := range priced {
		if s != best && *s.least <= *best.USDPerHour {
			a.Why = fmt.Sprintf("the gap between %s and %s is within what differs between devices", best.Name, s.Name)
			return
		}
	}
	a.Cheapest = &best.Name
}

// Title says what the answer is for.
func (a *Answer) Title() string {
	text := fmt.Sprintf("%s req/s within %s (%s)", humanize.Figure(a.Load), a.Objective, a.Expr)
	if a.About != "" {
		text += ", " + a.About
	}
	return text
}

// Rows returns the servers as a table, the first row its head.
func (a *Answer) Rows() [][]string {
	rows := [][]string{{"server", "each carries", "devices", "servers", "GPUs", "$/h"}}
	for _, s := range a.Servers {
		each := humanize.Figure(s.Capacity)
		if s.Most != nil && *s.Most > s.Capacity {
			each += " to " + humanize.Figure(*s.Most)
		}
		name := s.Name
		if s.Simulated {
			name += " SIMULATED"
		}
		rows = append(rows, []string{name, each + " req/s", number(s.Devices), fmt.Sprint(s.Count), "-", "-"})
		last := rows[len(rows)-1]
		if s.GPUs != nil {
			last[4] = fmt.Sprint(*s.GPUs)
		}
		if s.USDPerHour != nil {
			last[5] = humanize.Price(*s.USDPerHour)
		}
	}
	return rows
}

func number(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

// Conclusion returns the sentence below the table.
func (a *Answer) Conclusion() string {
	if a.Cheapest != nil {
		return "cheapest: " + *a.Cheapest
	}
	return "cheapest: cannot tell: " + a.Why
}
