package search

import "slices"

// maxSeen is the number of servers on devices already measured that a search starts, for each
// further device, before it ends.
const maxSeen = 4

// devices returns the ids of the devices of a search: each is that of the latest trial there,
// because a server that was started anew may be on another. "" for one that is unknown.
func devices(s Settings, outcomes []Outcome) []string {
	on := make([]string, max(1, s.Devices))
	for _, o := range outcomes {
		if o.On != "" && o.State != Seen && !slices.Contains(on[:o.Device], o.On) {
			on[o.Device] = o.On
		}
	}
	return on
}

// Taken returns the ids of the devices that a probe must not run on, since the trials before it
// are of them.
func Taken(s Settings, outcomes []Outcome, p Probe) []string { return devices(s, outcomes)[:p.Device] }

// seen returns how many servers of a further device were on none that counts: one that is taken,
// or one of which nobody knows which it is.
func seen(device int, on []string, outcomes []Outcome) (n int) {
	for _, o := range outcomes {
		if o.Device == device && (o.State == Seen || o.measured() && (o.On == "" || slices.Contains(on[:device], o.On))) {
			n++
		}
	}
	return n
}

// counts reports whether an outcome says something of its device. Of several devices, each
// rests on trials that are known to be its own; the loads on the way to the point estimate
// may be of any.
func (t *tier) counts(o Outcome) bool {
	switch {
	case o.State == Seen:
		return false
	case t.Devices <= 1 || t.device == 0 && o.Why == Find || o.On == t.id:
		return true
	}
	return o.On == "" && !o.measured() // it ended before anybody asked
}

// first returns the devices of what the first of several has shown, or of an answer that tells
// none apart; nil if nobody knows which they are.
func (t *tier) first() []OnDevice {
	switch {
	case t.Devices <= 1:
		return t.all()
	case t.id == "":
		return nil
	}
	return []OnDevice{{ID: t.id, Capacity: t.answer.Capacity, Reason: t.answer.Reason}}
}

// all returns the devices of the certified load, where they are not told apart.
func (t *tier) all() (list []OnDevice) {
	if t.best < 0 {
		return nil
	}
	for _, o := range t.levels[t.best].all {
		known := slices.ContainsFunc(list, func(d OnDevice) bool { return d.ID == o.On })
		if o.On != "" && o.Why == Confirm && o.measured() && !known {
			list = append(list, OnDevice{ID: o.On, Capacity: t.answer.Capacity, Reason: t.answer.Reason})
		}
	}
	return list
}
