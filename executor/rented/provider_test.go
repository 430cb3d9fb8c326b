package rented

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/secret"
	"sweep.dev/sweep/rundir/podledger"
)

// The ledger's details of a place become the plug-in's configuration. Details of the
// pod, and values that are no text, such as a credential, do not.
func TestDecodeAt(t *testing.T) {
	t.Parallel()
	type config struct {
		Host   string        `yaml:"host"`
		Port   int           `yaml:"port"`
		Key    secret.String `yaml:"key"`
		Inside *struct{}     `yaml:"inside"`
	}
	f := backends.Factory{Config: config{}}
	at := placeOf(f, map[string]string{"host": "h", "port": "22", "key": "k", "inside": "0123", "grace": "2s"})
	if want := map[string]string{"host": "h", "port": "22"}; !maps.Equal(at, want) {
		t.Errorf("the place is %v, want %v", at, want)
	}
	c := config{Host: "default", Port: 1}
	if err := decodeAt(at, &c); err != nil || c.Host != "h" || c.Port != 22 || !c.Key.IsZero() {
		t.Errorf("%+v, %v", c, err)
	}
	if err := decodeAt(map[string]string{"port": "many"}, &c); err == nil {
		t.Error("a port that is no number: no error")
	}
}

// A pod goes by its name, its id or the beginning of one of them that no other pod
// has; what is wrong with a name is told apart.
func TestInventory_Named(t *testing.T) {
	t.Parallel()
	pod := func(owner, id string) Pod {
		p := Pod{Listed: backends.Listed{}, AtProvider: true, By: &Provider{backend: struct{ backends.Backend }{}}}
		p.Name, p.ID = backends.NewName(owner, "0123456789", noon).String(), id
		return p
	}
	mine, other, theirs := pod(me, "abc1"), pod(me, "abd2"), pod(stranger, "xyz3")
	mine.Entry = &podledger.Entry{}
	duplicate := mine
	duplicate.ID = "duplicate" // made of one request: it shares the entry
	inv := &Inventory{Pods: []Pod{mine, other, theirs, duplicate}}

	list, err := inv.Named([]string{"abc1", "abc", "duplicate", other.Name}, me, false)
	if err != nil || len(list) != 3 || list[0].Entry == nil || list[1].Entry != nil || list[2].ID != "abd2" {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := inv.Named([]string{"ab"}, me, false); err == nil || !strings.Contains(err.Error(), "2 pods") {
		t.Errorf("the beginning of two: %v", err)
	}
	if _, err := inv.Named([]string{"nosuch"}, me, false); !isA[*UnknownError](err) {
		t.Errorf("no such pod: %v", err)
	}
	if _, err := inv.Named([]string{"xyz"}, me, false); !isA[*ForeignError](err) {
		t.Errorf("another owner's: %v", err)
	}
	if list, err := inv.Named([]string{"xyz"}, me, true); err != nil || len(list) != 1 {
		t.Errorf("another owner's, by force: %v, %v", list, err)
	}
}

func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
