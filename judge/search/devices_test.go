package search

import (
	"reflect"
	"slices"
	"testing"
)

// A fleet is servers whose nth launch is on the nth device, over and over. Each device
// keeps the objective below its edge.
type fleet struct {
	devices []string
	edges   map[string]int
	launch  int
}

// probe runs a probe as a run does: on a new server if the one that is up is on a device
// that is taken, and not at all if the new one is too.
func (f *fleet) probe(taken []string) func(Probe) Outcome {
	return func(p Probe) Outcome {
		up := func() string { return f.devices[f.launch%len(f.devices)] }
		if slices.Contains(taken, up()) {
			if f.launch++; slices.Contains(taken, up()) {
				return Outcome{Probe: p, State: Seen, On: up()}
			}
		}
		o := sure(func(level int) bool { return level < f.edges[up()] })(p)
		o.On = up()
		return o
	}
}

// hunt runs a whole search on a fleet, on a new server after each of the trials in restart.
func (f *fleet) hunt(s Settings, restart ...int) (Answer, []Outcome) {
	var outcomes []Outcome
	for {
		p, ok := Next(s, outcomes)
		if !ok {
			return Answers(s, outcomes)[0], outcomes
		}
		outcomes = append(outcomes, f.probe(Taken(s, outcomes, p))(p))
		if slices.Contains(restart, len(outcomes)) {
			f.launch++
		}
	}
}

func TestDevices(t *testing.T) {
	t.Parallel()
	edges := map[string]int{"a": 30, "b": 33, "c": 27, "d": 30, "none": 0, "": 30}
	for _, c := range []struct {
		name     string
		fleet    []string
		capacity int // the level; -1 for none
		devices  []string
		decides  string
		least    int
		most     int
		reason   string
	}{
		{"two alike", []string{"a", "d", "b"}, 29, []string{"a", "d", "b"}, "a", 29, 32, Certified},
		{"one slower, one faster", []string{"a", "b", "c"}, 26, []string{"a", "b", "c"}, "c", 26, 32, Certified},
		{"the first is the slowest", []string{"c", "a", "b"}, 26, []string{"c", "a", "b"}, "c", 26, 32, Certified},
		{"a card comes again", []string{"a", "a", "a", "c", "a", "c", "b"}, 26, []string{"a", "c", "b"}, "c", 26, 32, Certified},
		{"no other card comes", []string{"a"}, 29, []string{"a"}, "", -1, -1, Certified},
		{"two cards alone", []string{"a", "c"}, 26, []string{"a", "c"}, "c", 26, 29, Certified},
		{"nobody knows the card", []string{""}, 29, nil, "", -1, -1, Certified},
		{"one keeps nothing", []string{"a", "none", "b"}, -1, []string{"a", "none"}, "none", -1, -1, BelowRange},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := settings(1)
			s.Devices = 3
			a, outcomes := (&fleet{devices: c.fleet, edges: edges}).hunt(s)
			var ids []string
			for _, d := range a.Devices {
				if d.ID != "" {
					ids = append(ids, d.ID)
				}
			}
			least, most := a.Spread()
			if a.Reason != c.reason || indexOf(s.Levels, a.Capacity) != c.capacity || !slices.Equal(ids, c.devices) || a.Decides != c.decides ||
				indexOf(s.Levels, least) != c.least || indexOf(s.Levels, most) != c.most {
				t.Errorf("%s on level %d, of %v, %d to %d, decided by %q after %d trials", a.Reason, indexOf(s.Levels, a.Capacity), ids,
					indexOf(s.Levels, least), indexOf(s.Levels, most), a.Decides, len(outcomes))
			}
		})
	}
}

// Where the server is lost after any trial, and the next is on another device, the search
// still rests on the trials of each device alone, and finds the same.
func TestDevices_restarted(t *testing.T) {
	t.Parallel()
	s := settings(1)
	s.Devices = 3
	edges := map[string]int{"a": 30, "b": 31, "c": 28}
	cards := []string{"a", "b", "c"}
	_, all := (&fleet{devices: cards, edges: edges}).hunt(s)
	for n := 1; n < len(all); n++ {
		a, outcomes := (&fleet{devices: cards, edges: edges}).hunt(s, n)
		least, most := a.Spread()
		if indexOf(s.Levels, a.Capacity) != 27 || indexOf(s.Levels, least) != 27 || indexOf(s.Levels, most) < 29 || len(a.Devices) != 3 {
			t.Errorf("lost after %d: level %d, %d to %d, %+v", n, indexOf(s.Levels, a.Capacity), indexOf(s.Levels, least), indexOf(s.Levels, most), a.Devices)
		}
		again, _, more := Replay(s, func(p Probe) (Outcome, bool) {
			i := slices.IndexFunc(outcomes, func(o Outcome) bool { return o.Level == p.Level && o.Trial == p.Trial })
			if i < 0 {
				return Outcome{}, false
			}
			o := outcomes[i]
			o.Probe = Probe{}
			return o, true
		})
		if more || !reflect.DeepEqual(again, outcomes) {
			t.Errorf("lost after %d: the replay is another search, of %d trials instead of %d", n, len(again), len(outcomes))
		}
	}
}

// The answer for one device names it.
func TestDevices_one(t *testing.T) {
	t.Parallel()
	s := settings(1)
	a, _ := (&fleet{devices: []string{"a"}, edges: map[string]int{"a": 30}}).hunt(s)
	least, most := a.Spread()
	if len(a.Devices) != 1 || a.Devices[0].ID != "a" || least != nil || most != nil {
		t.Errorf("%+v, spread %v %v", a.Devices, least, most)
	}
}

func TestRehearse_devices(t *testing.T) {
	t.Parallel()
	s := settings(1)
	one := len(Rehearse(s, Server{Edge: 30}))
	s.Devices = 3
	three := Rehearse(s, Server{Edge: 30})
	if got := three[len(three)-1].Device; got != 2 || len(three) < one+2*s.Trials+2 {
		t.Errorf("%d trials on %d devices, %d on one", len(three), got+1, one)
	}
	for _, c := range []struct{ devices, done, expected, most int }{
		{0, 0, 1, 1}, {1, 0, 1, 1}, {3, 0, 3, 3 + 2*5}, {3, 1, 2, 2 + 2*5}, {3, 2, 1, 1 + 5}, {3, 3, 1, 1 + 5},
	} {
		s.Devices = c.devices
		if expected, most := s.Launches(c.done); expected != c.expected || most != c.most {
			t.Errorf("%+v: %d launches, at most %d", c, expected, most)
		}
	}
}
