package engine

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// A Speculation says how a plan turns speculative decoding on, and how it fixes
// the share of the proposed tokens that is accepted.
type Speculation struct {
	Args []string `yaml:"args,omitempty" doc:"Arguments of speculative decoding: it is on if one of them is given."`
	// Pinned: with any of these the speed does not depend on the text.
	Pinned []Pin `yaml:"pinned,omitempty" doc:"Settings that fix how many of the proposed tokens are accepted, whatever the text."`
}

// A Pin is an argument, or a field of its value, or an environment variable that
// fixes the acceptance.
type Pin struct {
	Arg   string `yaml:"arg,omitempty" doc:"Argument."`
	Field string `yaml:"field,omitempty" doc:"Field of its value, if that is a mapping or JSON."`
	Value string `yaml:"value,omitempty" doc:"Value that fixes it." default:"any"`
	Env   string `yaml:"env,omitempty" doc:"Environment variable, in the place of arg."`
}

func (p Pin) String() string {
	switch {
	case p.Env != "":
		return "env " + p.Env
	case p.Field == "":
		return strings.TrimSuffix(p.Arg+": "+p.Value, ": ")
	}
	return fmt.Sprintf("%s: {%s: %s}", p.Arg, p.Field, p.Value)
}

// off are the values that leave speculative decoding off.
var off = []string{"<nil>", "false", "0", "none"}

// Speculates reports whether arguments turn speculative decoding on, by the name of
// the first that does, and whether they or the environment fix the acceptance.
func (p *Profile) Speculates(args []Arg, env map[string]bool) (by string, pinned bool) {
	for _, a := range args {
		name, _, _ := strings.Cut(a.Name, ".") // of a nested setting
		if by == "" && p.listed(p.Speculation.Args, name) && !slices.Contains(off, fmt.Sprint(a.Value)) {
			by = a.Name
		}
		for _, pin := range p.Speculation.Pinned {
			if pin.Arg != "" && p.FlagName(pin.Arg) == p.FlagName(a.Name) {
				v, ok := field(a.Value, pin.Field)
				pinned = pinned || ok && (pin.Value == "" || fmt.Sprint(v) == pin.Value)
			}
		}
	}
	for _, pin := range p.Speculation.Pinned {
		pinned = pinned || env[pin.Env]
	}
	return by, pinned && by != ""
}

// field returns a field of an argument's value, or the value itself for "".
func field(value any, name string) (any, bool) {
	if name == "" {
		return value, true
	}
	if text, ok := value.(string); ok {
		var decoded map[string]any
		if json.Unmarshal([]byte(text), &decoded) != nil {
			return nil, false
		}
		value = decoded
	}
	mapping, _ := value.(map[string]any)
	v, ok := mapping[name]
	return v, ok
}

func (c *checker) speculation() {
	s := c.p.Speculation
	for i, pin := range s.Pinned {
		switch where := at("speculation", "pinned", i); {
		case len(s.Args) == 0:
			c.fail(where, "no argument turns speculative decoding on: name it in speculation.args")
		case (pin.Arg == "") == (pin.Env == ""):
			c.fail(where, "want arg or env, one of them")
		case pin.Env != "" && (pin.Field != "" || pin.Value != ""):
			c.fail(where, "an environment variable has no field and no value here")
		case pin.Field != "" && pin.Value == "":
			c.fail(where, "field %q: want the value that fixes the acceptance", pin.Field)
		}
	}
}
