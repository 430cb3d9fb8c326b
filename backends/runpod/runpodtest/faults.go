package runpodtest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Fault is one thing that goes wrong. See [FaultKinds].
type Fault struct {
	Name  string
	Value string // a duration, a count, a factor or a word; "" is the kind's default
	// Count is how often it happens: 0 is as often as its kind does by itself,
	// negative is without end.
	Count int
	// Probability is how likely it is each time that it could happen; 0 is 1.
	Probability float64
}

func (f Fault) String() string {
	s := f.Name
	if f.Value != "" {
		s += "=" + f.Value
	}
	switch {
	case f.Count > 0:
		s += ":" + strconv.Itoa(f.Count)
	case f.Count < 0:
		s += ":*"
	}
	if f.Probability != 0 {
		s += ":" + strconv.FormatFloat(f.Probability*100, 'g', -1, 64) + "%"
	}
	return s
}

// A FaultKind is one fault as it is given and explained.
type FaultKind struct {
	Name, Doc string
	value     string // none, duration, count, factor, or the words that it may be
	byDefault string
	once      bool // happens once where no count is given; else without end
}

// FaultKinds are all faults, for parsing and for help. Where one says count, its
// value is how often it happens.
var FaultKinds = []FaultKind{
	{"create-500-but-creates", "the create answers 500 and has made the pod", "none", "", true},
	{"create-hangs", "the create makes the pod and never answers", "none", "", true},
	{"create-drops-connection", "the create makes the pod and the connection is reset", "none", "", true},
	{"create-late", "the create answers 500; the pod is made that much later", "duration", "2s", true},
	{"create-500", "that many creates answer 500 and make nothing", "count", "1", false},
	{"double-create", "the create makes two pods of the same name", "none", "", true},
	{"no-capacity", "that many creates are answered with no instances available", "count", "1", false},
	{"stock-gone", "every create finds no instance, whatever the catalogue says", "none", "", false},
	{"balance-gone", "creates are answered with 402", "none", "", false},
	{"price-rise", "pods cost that many times the catalogue's price", "factor", "1.5", false},
	{"list-lag", "a pod is listed only that long after its create", "duration", "2s", false},
	{"get-404-after-create", "a pod is not found for that long after its create", "duration", "2s", false},
	{"slow-provision", "a pod needs that much longer", "duration", "5s", false},
	{"zero-gpu", "a pod comes without GPUs", "none", "", true},
	{"runtime-null-forever", "a pod is RUNNING and its container never starts, for want of cuda or disk", "cuda|disk", "cuda", true},
	{"exited-at-once", "a pod's image cannot be pulled; it is EXITED", "none", "", true},
	{"error-status", "a pod gets the status ERROR", "none", "", true},
	{"host-without-network", "a pod's ports are listed and nothing is reachable", "none", "", true},
	{"pod-dies", "a pod's container ends for good that long after its start; it is EXITED", "duration", "2s", true},
	{"pod-vanishes", "a pod is gone without a trace that long after its start", "duration", "2s", true},
	{"delete-200-but-alive", "the delete is answered with success and the pod lives on for so many lists", "number", "2", true},
	{"delete-500", "that many deletes answer 500 and do nothing", "count", "1", false},
	{"delete-403", "deletes are refused", "none", "", false},
	{"terminated-later", "a deleted pod lives on for half that time and is listed as TERMINATED for the other half", "duration", "2s", false},
	{"pod-key-forbidden", "a pod's own key may not delete it", "none", "", false},
	{"429", "that many requests are over the rate limit", "count", "1", false},
	{"read-500", "that many lists and looks answer 500", "count", "1", false},
	{"html-502", "that many requests get an HTML page with 502 in place of an answer", "count", "1", false},
	{"proxy-buffers", "the HTTP proxy gives a response only when it is complete", "none", "", false},
	{"proxy-drops", "that many responses through the HTTP proxy end in their middle", "count", "1", false},
}

func faultKind(name string) (FaultKind, bool) {
	i := slices.IndexFunc(FaultKinds, func(k FaultKind) bool { return k.Name == name })
	if i < 0 {
		return FaultKind{}, false
	}
	return FaultKinds[i], true
}

// ParseFault reads NAME[=VALUE][:COUNT][:PERCENT%]; COUNT * is without end.
func ParseFault(s string) (Fault, error) {
	head, rest, more := strings.Cut(s, ":")
	var f Fault
	f.Name, f.Value, _ = strings.Cut(head, "=")
	for more {
		var part string
		part, rest, more = strings.Cut(rest, ":")
		if percent, ok := strings.CutSuffix(part, "%"); ok {
			p, err := strconv.ParseFloat(percent, 64)
			if err != nil || p <= 0 || p > 100 {
				return Fault{}, fmt.Errorf("fault %s: %q is not a percentage", s, part)
			}
			f.Probability = p / 100
			continue
		}
		n, err := strconv.Atoi(part)
		switch {
		case part == "*":
			f.Count = -1
		case err != nil || n < 1:
			return Fault{}, fmt.Errorf("fault %s: %q is neither a count nor a percentage", s, part)
		default:
			f.Count = n
		}
	}
	return f, f.check()
}

func (f Fault) check() error {
	k, ok := faultKind(f.Name)
	if !ok {
		var names []string
		for _, k := range FaultKinds {
			names = append(names, k.Name)
		}
		return fmt.Errorf("no fault is called %q; there are %s", f.Name, strings.Join(names, ", "))
	}
	v := f.Value
	if v == "" {
		v = k.byDefault
	}
	var err error
	switch k.value {
	case "none":
		if v != "" {
			err = fmt.Errorf("takes no value")
		}
	case "duration":
		_, err = time.ParseDuration(v)
	case "count", "number":
		var n int
		if n, err = strconv.Atoi(v); err == nil && n < 1 {
			err = fmt.Errorf("%d is not at least 1", n)
		}
	case "factor":
		_, err = strconv.ParseFloat(v, 64)
	default:
		if !slices.Contains(strings.Split(k.value, "|"), v) {
			err = fmt.Errorf("%q is not %s", v, strings.ReplaceAll(k.value, "|", " or "))
		}
	}
	if err != nil {
		return fmt.Errorf("fault %s: %w", f.Name, err)
	}
	return nil
}

// SetFaults replaces all faults. It panics on one that does not exist.
func (e *Emulator) SetFaults(faults ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.faults = nil
	for _, s := range faults {
		f, err := ParseFault(s)
		if err != nil {
			panic(err)
		}
		e.arm(f)
	}
}

// arm adds a checked fault. e.mu is held.
func (e *Emulator) arm(f Fault) {
	k, _ := faultKind(f.Name)
	if f.Value == "" {
		f.Value = k.byDefault
	}
	switch {
	case f.Count != 0:
	case k.value == "count":
		f.Count, _ = strconv.Atoi(f.Value) // checked
	case k.once:
		f.Count = 1
	default:
		f.Count = -1
	}
	e.faults = append(e.faults, &f)
}

// fire reports whether a fault happens now, which uses it up by one, and its value.
// e.mu is held.
func (e *Emulator) fire(name string) (value string, ok bool) {
	for _, f := range e.faults {
		if f.Name != name || f.Count == 0 {
			continue
		}
		if f.Probability > 0 && f.Probability < 1 && e.rand.Float64() >= f.Probability {
			continue
		}
		if f.Count > 0 {
			f.Count--
		}
		e.fired[name]++
		return f.Value, true
	}
	return "", false
}

// fireFor is fire for a fault whose value is a time.
func (e *Emulator) fireFor(name string) time.Duration {
	v, ok := e.fire(name)
	if !ok {
		return 0
	}
	d, _ := time.ParseDuration(v) // checked
	return d
}
