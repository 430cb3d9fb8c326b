package failure

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// A pattern is a Text that is ready to be looked for. A table of a hundred
// expressions over hundreds of lines would take a second; nearly all of them are
// ruled out by a text that their matches must contain.
type pattern struct {
	Text
	re       *regexp.Regexp
	literals []string // in lower case; a match contains one of them; nil is no bound
}

// compile panics where an expression is wrong: tables are checked when they are
// read.
func compile(list []Text) []pattern {
	out := make([]pattern, 0, len(list))
	for _, f := range list {
		re := regexp.MustCompile("(?i)" + f.Match)
		tree, err := syntax.Parse(f.Match, syntax.Perl)
		if err != nil {
			panic(err)
		}
		out = append(out, pattern{f, re, literals(tree)})
	}
	return out
}

// find returns where the groups of the first match in a line are, or nil; lower
// is the line in lower case.
func (p *pattern) find(line, lower string) []int {
	if p.literals != nil && !slices.ContainsFunc(p.literals, func(s string) bool { return strings.Contains(lower, s) }) {
		return nil
	}
	return p.re.FindStringSubmatchIndex(line)
}

// literals returns texts of which every match of re contains one, or nil if
// there are none.
func literals(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpLiteral:
		return []string{strings.ToLower(string(re.Rune))}
	case syntax.OpCapture, syntax.OpPlus:
		return literals(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return literals(re.Sub[0])
		}
	case syntax.OpConcat:
		var best []string
		for _, sub := range re.Sub {
			if l := literals(sub); shortest(l) > shortest(best) {
				best = l
			}
		}
		return best
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			l := literals(sub)
			if l == nil {
				return nil
			}
			all = append(all, l...)
		}
		return all
	}
	return nil
}

func shortest(list []string) int {
	n := 0
	for i, s := range list {
		if i == 0 || len(s) < n {
			n = len(s)
		}
	}
	return n
}
