package backends_test

import (
	"errors"
	"testing"

	"sweep.dev/sweep/backends"
)

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
