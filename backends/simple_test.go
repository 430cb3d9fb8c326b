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
