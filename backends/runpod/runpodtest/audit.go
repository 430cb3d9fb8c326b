package runpodtest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"sweep.dev/sweep/backends"
)

// An Event is one request to the API.
type Event struct {
	Received time.Time // of the machine's clock
	At       time.Time // of Options.Now
	Method   string
	Path     string
	Status   int      // 0 if it is not answered, or never was
	Who      string   // "account", "pod ID", or "" for an unknown key
	Pods     []string // the names of the pods that it concerns; not of a list
	Foreign  bool     // one of them is not ours
	deletes  bool     // it is a DELETE or a terminate
	told     bool
}

func (e Event) String() string {
	status := "no answer"
	if e.Status != 0 {
		status = strconv.Itoa(e.Status)
	}
	s := fmt.Sprintf("%s %s %s", e.Method, e.Path, status)
	if e.Who != "" && e.Who != "account" {
		s += " by " + e.Who
	}
	if len(e.Pods) > 0 {
		s += " (" + strings.Join(e.Pods, ", ") + ")"
	}
	return s
}

// A PodCost is one pod and what it has cost.
type PodCost struct {
	ID, Name string
	Status   string // the last one
	Created  time.Time
	Gone     time.Time // zero while it is there
	Expires  time.Time // as its mark SWEEP_EXPIRES says, or else its name; zero is never
	USD      float64
	Restarts int // of its container by itself
}

// Overdue returns how long the pod was there after it had to be gone, until now.
func (h PodCost) Overdue(now time.Time) time.Duration {
	end := h.Gone
	if end.IsZero() {
		end = now
	}
	if h.Expires.IsZero() || !end.After(h.Expires) {
		return 0
	}
	return end.Sub(h.Expires)
}

// An Audit is what an emulator knows of everything so far. Foreign pods are in
// Touched only.
type Audit struct {
	At       time.Time // of Options.Now
	Requests int
	Creates  int       // requests to create
	Pods     []PodCost // that ever were, in the order of their creates
	Deletes  []Event   // DELETE and terminate, by whomever, as they were received
	Touched  []Event   // requests to change or delete a foreign pod
	NoIntent []string
	Fired    map[string]int // faults that happened
	USD      float64
	MostPods int // at the same time
}

// Alive returns the pods that are still there, stopped ones too.
func (a Audit) Alive() []PodCost {
	return slices.DeleteFunc(slices.Clone(a.Pods), func(h PodCost) bool { return !h.Gone.IsZero() })
}

// Overdue returns the pods that were there longer than they were to be by more than
// the slack.
func (a Audit) Overdue(slack time.Duration) []PodCost {
	return slices.DeleteFunc(slices.Clone(a.Pods), func(h PodCost) bool { return h.Overdue(a.At) <= slack })
}

// Err returns what no run may leave behind: pods that are alive or were overdue by
// more than the slack, foreign pods touched, creates without an intent.
func (a Audit) Err(slack time.Duration) error {
	var errs []error
	for _, h := range a.Alive() {
		errs = append(errs, fmt.Errorf("pod %s (%s) is still there: %s", h.ID, h.Name, h.Status))
	}
	for _, h := range a.Overdue(slack) {
		errs = append(errs, fmt.Errorf("pod %s (%s) was there %v too long", h.ID, h.Name, h.Overdue(a.At)))
	}
	for _, ev := range a.Touched {
		errs = append(errs, fmt.Errorf("a foreign pod was touched: %v", ev))
	}
	for _, s := range a.NoIntent {
		errs = append(errs, errors.New(s))
	}
	return errors.Join(errs...)
}

// Audit says what happened so far. It can be called after Close.
func (e *Emulator) Audit() Audit {
	e.mu.Lock()
	defer e.mu.Unlock()
	a := Audit{At: e.now(), Requests: len(e.events), NoIntent: slices.Clone(e.noIntent), Fired: maps.Clone(e.fired)}
	for _, ev := range e.events {
		switch {
		case ev.Method == "POST" && ev.Path == "/v2/pods":
			a.Creates++
		case ev.deletes:
			a.Deletes = append(a.Deletes, *ev)
		}
		if ev.Foreign && ev.Method != "GET" {
			a.Touched = append(a.Touched, *ev)
		}
	}
	for _, p := range e.pods {
		if p.foreign {
			continue
		}
		gpu, disk := p.meter.cost(time.Time{}, a.At.AddDate(100, 0, 0), a.At, e.opts.BillRate)
		h := PodCost{
			ID: p.id, Name: p.name, Status: p.status, Created: p.created, Gone: p.ended,
			Expires: p.expires(), USD: gpu + disk, Restarts: p.restarts,
		}
		a.USD += h.USD
		a.Pods = append(a.Pods, h)
	}
	for _, p := range a.Pods {
		n := 0
		for _, q := range a.Pods {
			if !q.Created.After(p.Created) && (q.Gone.IsZero() || q.Gone.After(p.Created)) {
				n++
			}
		}
		a.MostPods = max(a.MostPods, n)
	}
	return a
}

// Events returns all requests so far, in the order in which they were received.
func (e *Emulator) Events() []Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []Event
	for _, ev := range e.events {
		all = append(all, *ev)
	}
	return all
}

// expires returns when a pod has to be gone.
func (p *pod) expires() time.Time {
	if n, err := strconv.ParseInt(p.env[backends.MarkExpires], 10, 64); err == nil {
		return time.Unix(n, 0)
	}
	if n, ok := backends.ParseName(p.name); ok {
		return n.Expires
	}
	return time.Time{}
}
