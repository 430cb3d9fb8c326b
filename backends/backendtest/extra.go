package backendtest

import (
	"io"
	"slices"
	"strings"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/polltest"
)

// awkward is what a shell, a template or JSON could make something else of.
const awkward = "it's \"quoted\" $HOME ${PATH} `id` $(id) \\n \\\\ %s {{.}}\n\ttab: ünï 漢字\n\n"

// gets gives the server something beside its command line. The function that it
// returns holds, of the server that is up, that all of it was there before it started,
// and that both got the path of the same folder.
func (t *trial) gets() func(backends.Deployment) {
	if simulates(t.Backend) {
		return func(backends.Deployment) {}
	}
	t.spec.Roles = slices.Clone(t.spec.Roles)
	role := &t.spec.Roles[0]
	role.Env = map[string]string{"BACKENDTEST_BOTH": "of the role"}
	var dir string
	role.Extra = func(a backends.Address) (backends.Extra, error) {
		dir = a.Dir
		return backends.Extra{
			Env:   map[string]string{"BACKENDTEST_EXTRA": awkward, "BACKENDTEST_BOTH": "of the extra"},
			Files: map[string][]byte{"awkward": []byte(awkward), "second.yaml": []byte("dir: " + a.Dir + "\n")},
		}, nil
	}
	argv := role.Argv
	role.Argv = func(a backends.Address) ([]string, error) {
		const look = `printf '%s' "$BACKENDTEST_EXTRA"; cat "$1/awkward" "$1/second.yaml"; printf '%s\n' "dir: $1" "$BACKENDTEST_BOTH" "the end"; shift; exec "$@"`
		inner, err := argv(a)
		return append([]string{"/bin/sh", "-c", look, "look", a.Dir}, inner...), err
	}
	return func(d backends.Deployment) {
		t.Helper()
		var text []byte
		polltest.Until(t.T, "the log has it all", func() bool {
			r, err := t.host(d).Logs(t.Context())
			if err != nil {
				return false
			}
			defer r.Close()
			text, err = io.ReadAll(r)
			return err == nil && strings.Contains(string(text), "\nthe end\n")
		})
		if want := awkward + awkward + "dir: " + dir + "\ndir: " + dir + "\nof the role\nthe end\n"; dir == "" || !strings.Contains(string(text), want) {
			t.Errorf("in %q the server found %q, want %q", dir, text, want)
		}
	}
}
