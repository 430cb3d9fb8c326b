package podledger_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/rundir/podledger"
)

var (
	alice = podledger.Run{ID: "run-a", Owner: "alice@laptop", Dir: "/home/alice/runs/a"}
	bob   = podledger.Run{ID: "0123456789", Owner: "alice@laptop", Dir: "/home/alice/runs/b"}
)

// A memory is a run directory's ledger that keeps what it is told.
type memory struct {
	mu     sync.Mutex
	states []backends.State
	fail   map[backends.State]error
}

func (m *memory) Record(_ context.Context, a backends.Transition) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fail[a.State]; err != nil {
		return err
	}
	m.states = append(m.states, a.State)
	return nil
}

func open(t *testing.T, dir, fault string) *podledger.Ledger {
	t.Helper()
	fx, err := effect.New(fault)
	if err != nil {
		t.Fatal(err)
	}
	b, err := podledger.Open(fx, dir)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func entries(t *testing.T, b *podledger.Ledger) []podledger.Entry {
	t.Helper()
	list, err := b.Entries()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func record(t *testing.T, l backends.Ledger, transitions ...backends.Transition) {
	t.Helper()
	for _, a := range transitions {
		if err := l.Record(t.Context(), a); err != nil {
			t.Fatalf("%s: %v", a.State, err)
		}
	}
}

// born returns the transitions of a launch.
func born(run podledger.Run, pod string) []backends.Transition {
	expires := time.Now().Add(time.Hour).Truncate(time.Second)
	name := backends.NewName(run.Owner, run.ID, expires).String()
	return []backends.Transition{
		{Pod: pod, State: backends.Intended, Kind: "test", Name: name, At: map[string]string{"url": "http://127.0.0.1:1"}, Expires: &expires, USDPerHour: 0.5},
		{Pod: pod, State: backends.Sent},
		{Pod: pod, State: backends.Created, USDPerHour: 0.6, Ref: &backends.Ref{Kind: "test", RunID: run.ID, Pod: pod, ID: "id-" + pod, Name: name}},
	}
}

func kept(pod string, until time.Time) backends.Transition {
	return backends.Transition{Pod: pod, State: backends.Kept, Expires: &until}
}

func TestLedger_life(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state", "ledger")
	b := open(t, dir, "")
	inner := &memory{}
	l := b.Ledger(alice, "sha256:d", inner)
	transitions := born(alice, "d1-l01")
	record(t, l, transitions...)
	record(t, b.Ledger(alice, "", inner), backends.Transition{Pod: "d1-l01", State: backends.Ready})

	list := entries(t, open(t, dir, "")) // as another process has it
	if len(list) != 1 {
		t.Fatalf("%d entries, want 1", len(list))
	}
	e := list[0]
	if e.RunID != alice.ID || e.Owner != alice.Owner || e.Dir != alice.Dir || e.Digest != "sha256:d" ||
		e.State != backends.Ready || e.Name != transitions[0].Name || e.USDPerHour != 0.6 || !e.Expires.Equal(*transitions[0].Expires) ||
		e.At["url"] == "" || e.Since.IsZero() || e.Changed.Before(e.Since) || e.Find().ID != "id-d1-l01" {
		t.Errorf("the entry is %+v", e)
	}
	record(t, l, backends.Transition{Pod: "d1-l01", State: backends.DeleteSent}, backends.Transition{Pod: "d1-l01", State: backends.Gone})
	if list := entries(t, b); len(list) != 0 {
		t.Errorf("after Gone: %+v", list)
	}
	want := []backends.State{backends.Intended, backends.Sent, backends.Created, backends.Ready, backends.DeleteSent, backends.Gone}
	if fmt.Sprint(inner.states) != fmt.Sprint(want) {
		t.Errorf("the journal has %v, want %v", inner.states, want)
	}
}

// An error of either is an error of Record, and none of the two says that
// something is gone which the other still owes.
func TestLedger_errors(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk is full")
	gone := backends.Transition{Pod: "p", State: backends.Gone}

	// The journal refuses an intent: the ledger has nothing.
	b := open(t, t.TempDir(), "")
	l := b.Ledger(alice, "d", &memory{fail: map[backends.State]error{backends.Intended: broken}})
	if err := l.Record(t.Context(), born(alice, "p")[0]); !errors.Is(err, broken) {
		t.Errorf("intent: %v", err)
	}
	if list := entries(t, b); len(list) != 0 {
		t.Errorf("an intent that was refused is owed: %+v", list)
	}

	// The ledger refuses it: the journal owes nothing either.
	b = open(t, t.TempDir(), "podledger.rename:err=ENOSPC")
	inner := &memory{}
	if err := b.Ledger(alice, "d", inner).Record(t.Context(), born(alice, "p")[0]); err == nil {
		t.Error("intent without a ledger: no error")
	}
	if fmt.Sprint(inner.states) != fmt.Sprint([]backends.State{backends.Intended, backends.Gone}) {
		t.Errorf("the journal has %v", inner.states)
	}

	// The journal refuses Created: the ledger has the id all the same.
	b = open(t, t.TempDir(), "")
	inner = &memory{fail: map[backends.State]error{backends.Created: broken, backends.Gone: broken}}
	l = b.Ledger(alice, "d", inner)
	transitions := born(alice, "p")
	record(t, l, transitions[:2]...)
	if err := l.Record(t.Context(), transitions[2]); !errors.Is(err, broken) {
		t.Errorf("created: %v", err)
	}
	if list := entries(t, b); len(list) != 1 || list[0].Ref == nil || list[0].Ref.ID != "id-p" {
		t.Errorf("the ledger has %+v", list)
	}
	// The journal refuses Gone: the ledger still owes it.
	if err := l.Record(t.Context(), gone); !errors.Is(err, broken) {
		t.Errorf("gone: %v", err)
	}
	if list := entries(t, b); len(list) != 1 {
		t.Error("the ledger forgot what the journal owes")
	}

	// The ledger cannot remove: Record says so.
	dir := t.TempDir()
	record(t, open(t, dir, "").Ledger(alice, "d", &memory{}), transitions...)
	if err := open(t, dir, "podledger.remove:err=EIO").Ledger(alice, "d", &memory{}).Record(t.Context(), gone); err == nil {
		t.Error("gone, and the file is still there: no error")
	}
}

// A name that is owed is not forgotten for another one.
func TestLedger_intendedTwice(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), "")
	l := b.Ledger(alice, "d", &memory{})
	first, second := born(alice, "p"), born(alice, "p")
	record(t, l, first[:2]...)
	if err := l.Record(t.Context(), second[0]); err == nil || !strings.Contains(err.Error(), first[0].Name) {
		t.Errorf("another intent of an owed pod: %v", err)
	}
	if list := entries(t, b); len(list) != 1 || list[0].Name != first[0].Name {
		t.Errorf("the ledger has %+v", list)
	}
	record(t, l, backends.Transition{Pod: "p", State: backends.Gone}, second[0])
	if list := entries(t, b); len(list) != 1 || list[0].Name != second[0].Name {
		t.Errorf("the ledger has %+v", list)
	}
}

// Torn and foreign files are reported, and cost no other entry.
func TestEntries_damaged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir, "")
	for _, pod := range []string{"p1", "p2"} {
		record(t, b.Ledger(alice, "d", &memory{}), born(alice, pod)...)
	}
	whole, err := os.ReadFile(filepath.Join(dir, backends.RunTag(alice.ID)+"-p1.json"))
	if err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(t.TempDir(), "elsewhere.json")
	write(t, secret, whole)
	if err := os.Symlink(secret, filepath.Join(dir, "aaaa-link.json")); err != nil {
		t.Fatal(err)
	}
	for i, raw := range [][]byte{{}, whole[:len(whole)/2], append(slices.Clip(whole), '{'), []byte(`{"schema":2}`), []byte(`{"schema":1}`)} {
		write(t, filepath.Join(dir, fmt.Sprintf("zzzz-torn%d.json", i)), raw)
	}
	write(t, filepath.Join(dir, ".zzzz-p9.json.tmp"), whole[:10]) // a writer was killed
	write(t, filepath.Join(dir, "README"), whole)
	list, err := b.Entries()
	if len(list) != 2 || list[0].Pod != "p1" || list[1].Pod != "p2" {
		t.Errorf("entries: %+v", list)
	}
	if !errors.Is(err, podledger.ErrDamaged) {
		t.Fatalf("error %v", err)
	}
	for _, name := range []string{"aaaa-link.json", "zzzz-torn0", "zzzz-torn1", "zzzz-torn2", "zzzz-torn3", "zzzz-torn4"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not reported: %v", name, err)
		}
	}
}

// Cut at every byte, an entry is what it was or is reported.
func TestEntries_cut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir, "")
	record(t, b.Ledger(alice, "d", &memory{}), born(alice, "p")...)
	path := filepath.Join(dir, backends.RunTag(alice.ID)+"-p.json")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(whole) - 1 { // the last byte is a line's end
		write(t, path, whole[:cut])
		if list, err := b.Entries(); len(list) != 0 || !errors.Is(err, podledger.ErrDamaged) {
			t.Fatalf("cut at %d: %d entries, %v", cut, len(list), err)
		}
	}
	// A damaged entry is not overwritten: a person may still read the name in it.
	err = b.Ledger(alice, "d", &memory{}).Record(t.Context(), backends.Transition{Pod: "p", State: backends.DeleteSent})
	if !errors.Is(err, podledger.ErrDamaged) {
		t.Errorf("a transition for a damaged entry: %v", err)
	}
	record(t, b.Ledger(alice, "d", &memory{}), backends.Transition{Pod: "p", State: backends.Gone})
	if list := entries(t, b); len(list) != 0 {
		t.Errorf("after Gone: %+v", list)
	}
}

// Neither a pod's nor a run's name leads out of the folder, nor does a link
// that somebody has put into it.
func TestLedger_names(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	dir := filepath.Join(base, "ledger")
	b := open(t, dir, "")
	for _, pod := range []string{"", ".", "..", "../p", "a/b", "/etc/p", ".hidden", "a\x00b", "a\nb", strings.Repeat("a", 129)} {
		for _, state := range []backends.State{backends.Intended, backends.Gone} {
			if err := b.Ledger(alice, "d", &memory{}).Record(t.Context(), backends.Transition{Pod: pod, State: state}); err == nil {
				t.Errorf("pod %q, %s: no error", pod, state)
			}
		}
	}
	evil := alice
	evil.ID = "../../evil"
	record(t, b.Ledger(evil, "d", &memory{}), born(evil, "p")...) // its tag is a plain word
	victim := filepath.Join(base, "victim")
	write(t, victim, []byte("untouched"))
	link := filepath.Join(dir, "."+backends.RunTag(alice.ID)+"-p.json.tmp")
	if err := os.Symlink(victim, link); err != nil {
		t.Fatal(err)
	}
	if err := b.Ledger(alice, "d", &memory{}).Record(t.Context(), born(alice, "p")[0]); err == nil {
		t.Error("writing through a link out of the folder: no error")
	}
	if got, err := os.ReadFile(victim); err != nil || string(got) != "untouched" {
		t.Errorf("outside of the folder: %q, %v", got, err)
	}
	left, err := os.ReadDir(base)
	if err != nil || len(left) != 2 {
		t.Errorf("beside the folder: %v, %v", left, err)
	}
}

func TestTake(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), "")
	l := b.Ledger(alice, "d", &memory{})
	record(t, l, born(alice, "p")...)
	if _, err := b.Take(entries(t, b)[0], bob); err == nil {
		t.Error("took over a pod that is not kept")
	}
	record(t, l, kept("p", time.Now().Add(time.Hour)))
	old := entries(t, b)[0]
	taken, err := b.Take(old, bob)
	if err != nil || taken.RunID != bob.ID || taken.Name != old.Name || taken.State != backends.Created {
		t.Fatalf("took %+v, %v", taken, err)
	}
	if _, err := b.Take(old, alice); !errors.Is(err, podledger.ErrChanged) {
		t.Errorf("taken twice: %v", err)
	}
	if _, err := b.Update(old, backends.Transition{Pod: "p", State: backends.DeleteSent}); !errors.Is(err, podledger.ErrChanged) {
		t.Errorf("changed by who does not have it: %v", err)
	}
	// A later transition of its first run changes nothing of the new run's entry.
	record(t, l, backends.Transition{Pod: "p", State: backends.Gone})
	list := entries(t, b)
	if len(list) != 1 || list[0].RunID != bob.ID || list[0].Dir != bob.Dir || list[0].Digest != "d" {
		t.Fatalf("the ledger has %+v", list)
	}
	record(t, b.Ledger(bob, "d", &memory{}), backends.Transition{Pod: "p", State: backends.Gone})
	if list := entries(t, b); len(list) != 0 {
		t.Errorf("after Gone: %+v", list)
	}
}

// A pod of the same name is not overwritten.
func TestTake_sameName(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), "")
	record(t, b.Ledger(alice, "d", &memory{}), append(born(alice, "p"), kept("p", time.Now().Add(time.Hour)))...)
	e := entries(t, b)[0]
	record(t, b.Ledger(bob, "d", &memory{}), born(bob, "p")...)
	if _, err := b.Take(e, bob); err == nil || errors.Is(err, podledger.ErrChanged) {
		t.Errorf("took a pod over another: %v", err)
	}
	if list := entries(t, b); len(list) != 2 {
		t.Errorf("the ledger has %+v", list)
	}
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), "")
	record(t, b.Ledger(alice, "d", &memory{}), born(alice, "p")...)
	e := entries(t, b)[0]
	if _, err := b.Update(e, backends.Transition{Pod: "other", State: backends.Gone}); err == nil {
		t.Error("a transition of another pod: no error")
	}
	stopped, err := b.Update(e, backends.Transition{Pod: "p", State: backends.Stopped})
	if err != nil || stopped.State != backends.Stopped || entries(t, b)[0].State != backends.Stopped {
		t.Errorf("stopped: %+v, %v", stopped, err)
	}
	if _, err := b.Update(e, backends.Transition{Pod: "p", State: backends.Gone}); !errors.Is(err, podledger.ErrChanged) {
		t.Errorf("by an old entry: %v", err)
	}
	if _, err := b.Update(stopped, backends.Transition{Pod: "p", State: backends.Gone}); err != nil || len(entries(t, b)) != 0 {
		t.Errorf("gone: %v", err)
	}
}

func TestForRun(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), "")
	first, second := b.ForRun(alice, "test", "here"), b.ForRun(bob, "test", "here")
	until := time.Now().Add(time.Hour)
	inner := &memory{}
	record(t, first.Ledger("d", inner), append(born(alice, "short"), kept("short", until.Add(-30*time.Minute)))...)
	record(t, first.Ledger("d", inner), append(born(alice, "long"), kept("long", until))...)
	record(t, first.Ledger("other", inner), append(born(alice, "other"), kept("other", until.Add(time.Hour)))...)
	record(t, first.Ledger("d", inner), born(alice, "busy")...)

	refusals := map[string]func() (bool, error){
		"another owner": func() (bool, error) {
			stranger := bob
			stranger.Owner = "mallory@laptop"
			_, ok, err := b.ForRun(stranger, "test", "here").Adopt("d", time.Minute)
			return ok, err
		},
		"another kind": func() (bool, error) {
			_, ok, err := b.ForRun(bob, "docker", "here").Adopt("d", time.Minute)
			return ok, err
		},
		"another place": func() (bool, error) {
			_, ok, err := b.ForRun(bob, "test", "there").Adopt("d", time.Minute)
			return ok, err
		},
		"another digest":     func() (bool, error) { _, ok, err := second.Adopt("e", time.Minute); return ok, err },
		"no digest":          func() (bool, error) { _, ok, err := second.Adopt("", time.Minute); return ok, err },
		"not kept that long": func() (bool, error) { _, ok, err := second.Adopt("d", 2*time.Hour); return ok, err },
	}
	for what, adopt := range refusals {
		if ok, err := adopt(); ok || err != nil {
			t.Errorf("%s: adopted %v, %v", what, ok, err)
		}
	}
	o, ok, err := second.Adopt("d", time.Minute)
	if err != nil || !ok || o.Pod != "long" {
		t.Errorf("adopted %q, %v, %v; want the one that is kept longest", o.Pod, ok, err)
	}
	if holds, err := first.Holds("long"); holds || err != nil {
		t.Errorf("the first run holds what was taken over: %v, %v", holds, err)
	}
	for _, pod := range []string{"short", "never heard of"} {
		if holds, err := first.Holds(pod); !holds || err != nil {
			t.Errorf("the first run does not hold %s: %v", pod, err)
		}
	}
	if holds, err := second.Holds("long"); !holds || err != nil {
		t.Errorf("the second run does not hold what it took: %v, %v", holds, err)
	}
	if _, ok, err := second.Adopt("d", time.Minute); !ok || err != nil {
		t.Errorf("the shorter one: %v, %v", ok, err)
	}
	if _, ok, err := second.Adopt("d", time.Minute); ok || err != nil {
		t.Errorf("one too many: %v, %v", ok, err)
	}
}

func TestDefaultDir(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		env  map[string]string
		want string // "" is an error
	}{
		{map[string]string{"SWEEP_STATE_DIR": "/s", "XDG_STATE_HOME": "/x", "HOME": "/h"}, "/s"},
		{map[string]string{"XDG_STATE_HOME": "/x", "HOME": "/h"}, "/x/sweep/ledger"},
		{map[string]string{"XDG_STATE_HOME": "relative", "HOME": "/h"}, "/h/.local/state/sweep/ledger"}, // as its specification says
		{map[string]string{"SWEEP_STATE_DIR": "", "HOME": "/h"}, "/h/.local/state/sweep/ledger"},
		{map[string]string{"HOME": "relative"}, ""},
		{nil, ""},
	} {
		got, err := podledger.DefaultDir(func(name string) (string, bool) { v, ok := c.env[name]; return v, ok })
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%v: %q, %v; want %q", c.env, got, err, c.want)
		}
	}
}

func TestOpen_notAFolder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, nil)
	if _, err := podledger.Open(nil, path); err == nil {
		t.Error("a file as the ledger's folder: no error")
	}
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}
