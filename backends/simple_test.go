package backends_test

import (
	"context"
	"errors"
	"testing"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/host"
)

func TestCheckPlain(t *testing.T) {
	plain := backends.Role{Name: "server", Replicas: 1, Env: map[string]string{"A": "1"}}
	if err := backends.CheckPlain(backends.Spec{Roles: []backends.Role{plain, plain}}); err != nil {
		t.Error(err)
	}
	alone := plain
	alone.Extra = func(backends.Address) (e backends.Extra, err error) { return }
	if err := backends.CheckPlain(backends.Spec{Roles: []backends.Role{alone}}); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*backends.Role){
		"extra":   func(r *backends.Role) { r.Extra = func(backends.Address) (e backends.Extra, err error) { return } },
		"ports":   func(r *backends.Role) { r.Ports = map[string]int{"metrics": 0} },
		"started": func(r *backends.Role) { r.Started = func(context.Context, host.Host, int) error { return nil } },
	} {
		role := plain
		change(&role)
		if err := backends.CheckPlain(backends.Spec{Roles: []backends.Role{plain, role}}); !errors.Is(err, backends.ErrSpec) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestRole_ExtraAt(t *testing.T) {
	wrong := errors.New("wrong")
	for name, c := range map[string]struct {
		extra func(backends.Address) (backends.Extra, error)
		dir   string
		want  error
	}{
		"none": {},
		"environment": {extra: func(backends.Address) (backends.Extra, error) {
			return backends.Extra{Env: map[string]string{"A": "1"}}, nil
		}},
		"files": {dir: "/d", extra: func(a backends.Address) (backends.Extra, error) {
			return backends.Extra{Files: map[string][]byte{"f": []byte(a.Dir)}}, nil
		}},
		"files and no folder": {want: backends.ErrSpec, extra: func(backends.Address) (backends.Extra, error) {
			return backends.Extra{Files: map[string][]byte{"f": nil}}, nil
		}},
		"wrong": {dir: "/d", want: wrong, extra: func(backends.Address) (backends.Extra, error) { return backends.Extra{}, wrong }},
	} {
		role := backends.Role{Name: "server", Extra: c.extra}
		got, err := role.ExtraAt(backends.Address{Dir: c.dir})
		if !errors.Is(err, c.want) || c.want != nil && !errors.Is(err, backends.ErrSpec) {
			t.Errorf("%s: got %v", name, err)
		}
		if c.want == nil && c.dir != "" && string(got.Files["f"]) != c.dir {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
