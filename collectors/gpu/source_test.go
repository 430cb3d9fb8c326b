package gpu

import (
	"context"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/internal/gpustate"
)

// An asking host keeps the commands that it is asked to run, and answers none.
type askingHost struct {
	host.Host
	asked [][]string
}

func (h *askingHost) Exec(_ context.Context, argv ...string) ([]byte, error) {
	h.asked = append(h.asked, argv)
	return nil, gpustate.ErrFields
}

// A pod's agent runs every command that a look takes: what the table of tools does
// not let through would leave a rented GPU unseen.
func TestWays_areRunOnPods(t *testing.T) {
	t.Parallel()
	args := map[string]*regexp.Regexp{}
	for _, tool := range gpustate.Tools() {
		args[tool.Name] = regexp.MustCompile(`\A(` + tool.Args + `)\z`)
	}
	for _, w := range ways() {
		if w.overHTTP {
			continue
		}
		h := &askingHost{}
		s := w.source(Config{}, h, func() {})
		for _, look := range []*source{s, s.snapshot} {
			if look == nil {
				continue
			}
			ask := look.look
			if look.open != nil {
				ask = look.open
			}
			if _, _, err := ask(t.Context()); err == nil {
				t.Errorf("%s: an answer of nothing", w.name)
			}
		}
		if len(h.asked) == 0 {
			t.Errorf("%s ran nothing", w.name)
		}
		for _, argv := range h.asked {
			if p := args[argv[0]]; p == nil || !p.MatchString(strings.Join(argv[1:], " ")) {
				t.Errorf("%s: the agent does not run %q", w.name, argv)
			}
		}
	}
}

// The schema has the ways that there are.
func TestConfig_enum(t *testing.T) {
	t.Parallel()
	names := []string{Auto}
	for _, w := range ways() {
		names = append(names, w.name)
	}
	field, _ := reflect.TypeFor[Config]().FieldByName("Source")
	if got, want := field.Tag.Get("enum"), strings.Join(names, ","); got != want {
		t.Errorf("the enum is %q, want %q", got, want)
	}
}
