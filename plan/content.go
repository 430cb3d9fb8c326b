package plan

import (
	"fmt"
	"slices"
	"strings"
)

// Unrepresentative says why a cell's content cannot answer how fast its server
// is; "" if it can. The speed of speculative decoding is that of the tokens
// which are accepted, and made-up texts, or answers that go on after their end,
// have another share of them than the texts of users.
func (p *Plan) Unrepresentative(c Cell) string {
	profile, ok := p.Profile(c.Server.Profile)
	if !ok {
		return ""
	}
	args, env := slices.Clone(c.Server.Args), map[string]bool{}
	for name := range c.Server.Env {
		env[name] = true
	}
	for _, role := range c.Server.Roles {
		for name, value := range role.Args {
			args = append(args, Arg{Name: name, Value: value})
		}
		for name := range role.Env {
			env[name] = true
		}
	}
	by, pinned := profile.Speculates(args, env)
	if by == "" || pinned {
		return ""
	}
	var why []string
	if c.Load.Prompts.Kind == PromptsSynthetic {
		why = append(why, "made-up prompts")
	}
	if c.Load.Output == OutputExact {
		why = append(why, "answers of an exact length (ignore_eos)")
	}
	if len(why) == 0 {
		return ""
	}
	do := "send prompts of users with load.output: natural"
	if pins := profile.Speculation.Pinned; len(pins) > 0 {
		do += fmt.Sprintf(", or fix the acceptance (%s)", pins[0])
	}
	return fmt.Sprintf("the speed of speculative decoding (%s) depends on the text, and this load has %s: no comparison of servers ranks it; %s",
		by, strings.Join(why, " and "), do)
}
