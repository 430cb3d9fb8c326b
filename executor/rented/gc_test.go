package rented

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/rundir"
	"sweep.dev/sweep/rundir/podledger"
)

const me, stranger = "me@laptop", "stranger@laptop"

// A truth is one random pod at a provider with what is really true of it,
// which decide cannot see.
type truth struct {
	mine    bool
	expired bool // by its own clock, for longer than clocks differ
	live    bool // its run is at work
	kept    bool // until later
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// dated returns a name whose date begins otherwise. A serial may begin with an x too.
func dated(name, begin string) string {
	i := strings.LastIndex(name, "-x")
	return name[:i] + begin + name[i+len("-x"):]
}

// randomPod draws a pod, and the truth about it.
func randomPod(t *rapid.T) (Pod, truth) {
	var f Pod
	var is truth
	owner := rapid.SampledFrom([]string{me, stranger}).Draw(t, "owner")
	run := rapid.SampledFrom([]string{"0123456789", "abcdef0123", "a run with spaces", "night-3"}).Draw(t, "run")
	left := time.Duration(rapid.Int64Range(-72*3600, 72*3600).Draw(t, "seconds left")) * time.Second
	expires := noon.Add(left)
	f.Name = backends.NewName(owner, run, expires).String()
	f.Kind, f.ID, f.Pod, f.AtProvider = "test", "id", "p-l01", rapid.Bool().Draw(t, "listed")
	is.mine, is.expired = owner == me, left <= -skew

	// The provider's listing of it, which may lack marks.
	f.Owner = rapid.SampledFrom([]string{"", owner, backends.OwnerTag(owner)}).Draw(t, "listed owner")
	f.RunID = rapid.SampledFrom([]string{"", run, backends.RunTag(run)}).Draw(t, "listed run")
	if rapid.Bool().Draw(t, "expiry is marked") {
		name, _ := backends.ParseName(f.Name)
		f.Expires = name.Expires
	}

	// Lookalikes: what is not exactly what we make is not ours.
	switch rapid.IntRange(0, 9).Draw(t, "lookalike") {
	case 0:
		f.Name = rapid.SampledFrom([]string{
			"", "web-1", "sw-", "sw-" + strings.Repeat("0", 8), strings.ToUpper(f.Name), f.Name + " ", f.Name + "-copy", "my-" + f.Name,
			strings.Replace(f.Name, "sw-", "sv-", 1), dated(f.Name, "-y"), f.Name[:len(f.Name)-8], f.Name + "\n" + f.Name,
			dated(f.Name, "-x0"),
		}).Draw(t, "name")
		is.mine = false
	case 1:
		f.Name = rapid.String().Draw(t, "any name")
		is.mine = false
	case 2: // somebody copied a pod of ours with its name, and says so
		f.Owner = rapid.SampledFrom([]string{"mallory", backends.OwnerTag("mallory"), strings.ToUpper(backends.OwnerTag(me))}).Draw(t, "marked owner")
		is.mine = false
	case 3:
		f.RunID = "another-run"
		is.mine = false
	}

	// The state of its run, as far as it is known here.
	f.Run = rapid.SampledFrom([]RunSeen{RunUnseen, RunLive, RunEnded}).Draw(t, "run seen")
	is.live = f.Run == RunLive
	if rapid.Bool().Draw(t, "in the ledger") {
		state := rapid.SampledFrom([]backends.State{
			backends.Intended, backends.Sent, backends.Created, backends.Ready, backends.Kept,
			backends.Stopped, backends.Draining, backends.DeleteSent,
		}).Draw(t, "state")
		f.Entry = &podledger.Entry{RunID: run, Owner: owner, Owed: rundir.Owed{Pod: f.Pod, State: state, Name: f.Name, Expires: expires}}
		if state == backends.Kept {
			// Never beyond its time, as the dead-man switch in it has it.
			f.Entry.Expires = expires.Add(-time.Duration(rapid.Int64Range(0, 48*3600).Draw(t, "kept shorter")) * time.Second)
			is.kept = f.Entry.Expires.Add(skew).After(noon)
		}
	}
	return f, is
}

// The rules of sweep gc over random accounts: never what is not provably ours,
// never an unexpired pod of a run at work, never one that is kept; always every
// expired one of ours.
func TestDecide_randomAccounts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		for range rapid.IntRange(1, 8).Draw(t, "pods") {
			f, is := randomPod(t)
			s := Scope{Now: noon, Owner: me, Expired: rapid.Bool().Draw(t, "--expired")}
			name, parsed := backends.ParseName(f.Name)
			if parsed && rapid.Bool().Draw(t, "--run") {
				s.Run = rapid.SampledFrom([]string{name.Run, "another-run"}).Draw(t, "run asked for")
			}
			asked := s.Run == "" || s.Run == name.Run
			got, reason := decide(f, s)
			if reason == "" {
				t.Errorf("no reason for %s", got)
			}
			keptPast := f.Entry != nil && f.Entry.State == backends.Kept && !is.kept
			switch ended := got == End; {
			case ended && !is.mine:
				t.Errorf("ended what is not provably ours: %+v: %s", f, reason)
			case ended && !asked:
				t.Errorf("ended a pod of a run that was not asked for: %+v", f)
			case ended && is.live && !is.expired && !keptPast:
				t.Errorf("ended an unexpired pod of a run at work: %+v: %s", f, reason)
			case ended && is.kept && !is.expired:
				t.Errorf("ended a pod that is kept: %+v: %s", f, reason)
			case ended && f.Run == RunUnseen && !is.expired && !keptPast && s.Run == "":
				t.Errorf("ended an unexpired pod of a run that cannot be seen: %+v: %s", f, reason)
			case ended && s.Expired && !is.expired && !keptPast:
				t.Errorf("--expired ended one that is not: %+v: %s", f, reason)
			case !ended && is.mine && is.expired && asked:
				t.Errorf("left an expired pod of ours: %+v: %s: %s", f, got, reason)
			}
			// The clock of who made it, or ours, may be off by up to skew without
			// an unexpired pod being ended.
			if name, ok := backends.ParseName(f.Name); ok && s.Run == "" && f.Run != RunEnded {
				off := time.Duration(rapid.Int64Range(0, int64(skew)-1).Draw(t, "clock ahead"))
				late := s
				late.Now = name.Expires.Add(-time.Nanosecond).Add(off)
				f := f
				f.Entry = nil
				if f.Expires.After(name.Expires) {
					f.Expires = time.Time{}
				}
				if action, _ := decide(f, late); action == End {
					t.Errorf("ended before its time by a clock that is %v ahead: %+v", off, f)
				}
			}
		}
	})
}

// One row for each rule, in words.
func TestDecide(t *testing.T) {
	t.Parallel()
	pod := func(left time.Duration) Pod {
		var f Pod
		f.Name, f.AtProvider = backends.NewName(me, "0123456789", noon.Add(left)).String(), true
		return f
	}
	with := func(f Pod, change func(*Pod)) Pod { change(&f); return f }
	kept := func(until time.Duration) func(*Pod) {
		return func(f *Pod) {
			f.Entry = &podledger.Entry{Owed: rundir.Owed{State: backends.Kept, Expires: noon.Add(until)}}
		}
	}
	mine := Scope{Now: noon, Owner: me}
	for _, c := range []struct {
		name string
		f    Pod
		s    Scope
		want Action
		why  string
	}{
		{"expired, by its name alone", pod(-time.Hour), mine, End, "over 60 min ago"},
		{"expired a moment ago: clocks differ", pod(-time.Minute), mine, Leave, ""},
		{"expired, and its run is still at work", with(pod(-time.Hour), func(f *Pod) { f.Run = RunLive }), mine, End, ""},
		{"unexpired, of a run that is over", with(pod(time.Hour), func(f *Pod) { f.Run = RunEnded }), mine, End, "not at work"},
		{"unexpired, of a run at work", with(pod(time.Hour), func(f *Pod) { f.Run, f.Holder = RunLive, " as process 1 on h" }), mine, Leave, "as process 1 on h"},
		{"unexpired, of a run elsewhere", pod(time.Hour), mine, Leave, "it expires in 60 min: sweep gc --run 0123456789"},
		{"with a lease, of a run elsewhere", with(pod(168*time.Hour), func(f *Pod) { f.Lease = noon.Add(8 * time.Minute) }), mine, Leave, "without a sign of life of its run it ends in 8 min: sweep gc"},
		{"unexpired, of a run elsewhere that is named", pod(time.Hour), Scope{Now: noon, Owner: me, Run: "0123456789"}, End, "named"},
		{"named, but at work", with(pod(time.Hour), func(f *Pod) { f.Run = RunLive }), Scope{Now: noon, Owner: me, Run: "0123456789"}, Leave, "at work"},
		{"another run is named", pod(-time.Hour), Scope{Now: noon, Owner: me, Run: "9876543210"}, Other, ""},
		{"--expired", with(pod(time.Hour), func(f *Pod) { f.Run = RunEnded }), Scope{Now: noon, Owner: me, Expired: true}, Leave, "over in 60 min"},
		{"kept", with(pod(time.Hour), kept(30*time.Minute)), mine, Leave, "another 30 min"},
		{"kept, and its run is named", with(pod(time.Hour), kept(30*time.Minute)), Scope{Now: noon, Owner: me, Run: "0123456789"}, Leave, "kept"},
		{"kept until a while ago", with(pod(time.Hour), kept(-30*time.Minute)), mine, End, "kept until 30 min ago"},
		{"stopped by a person, of a run that is over", with(pod(time.Hour), func(f *Pod) {
			f.Run, f.Entry = RunEnded, &podledger.Entry{Owed: rundir.Owed{State: backends.Stopped}}
		}), mine, Leave, "a person has stopped it"},
		{"another owner's, by explicit request", pod(-time.Hour), Scope{Now: noon, Owner: backends.OwnerTag(me)}, End, ""},
		{"another owner's", pod(-time.Hour), Scope{Now: noon, Owner: stranger}, Foreign, "another owner"},
		{"nobody's", pod(-time.Hour), Scope{Now: noon}, Foreign, ""},
		{"a mark that allows more time", with(pod(-time.Hour), func(f *Pod) { f.Expires = noon.Add(time.Hour) }), mine, Leave, ""},
		{"another tool's", with(pod(0), func(f *Pod) { f.Name = "sw-build-7" }), mine, Foreign, "name"},
	} {
		if got, reason := decide(c.f, c.s); got != c.want || !strings.Contains(reason, c.why) {
			t.Errorf("%s: %s (%s), want %s (%s)", c.name, got, reason, c.want, c.why)
		}
	}
}
