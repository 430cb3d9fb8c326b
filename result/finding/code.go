// Package finding is the one table of the findings about a trial: the reasons for
// INVALID, and the remarks beside valid numbers. Each
// has a code, a meaning and what to do. The advice of a summary and the tables
// of docs/run.md are made from it.
//
// It imports nothing of this project.
package finding

import (
	"regexp"
	"slices"
	"strings"
)

// A Code names one kind of finding, as the columns invalid_reasons and findings
// have it: snake_case, and stable from version to version. Only this package
// makes codes, so that a code that is not in the table does not compile.
type Code struct{ name string }

// String returns the code as it is stored.
func (c Code) String() string { return c.name }

// Equal reports whether two codes are the same.
func (c Code) Equal(other Code) bool { return c == other }

// MarshalText implements [encoding.TextMarshaler].
func (c Code) MarshalText() ([]byte, error) { return []byte(c.name), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]. It takes every text: a run
// that another version has recorded may have codes that this one does not know.
func (c *Code) UnmarshalText(text []byte) error {
	c.name = string(text)
	return nil
}

// Collector returns the code of the finding that a collector failed as a whole or in
// part. The table has it for every kind of collector.
func Collector(kind string) Code { return Code{"no_" + kind} }

// A Fact is what people are told about a code. Texts are Markdown without links.
type Fact struct {
	Code   Code
	Doc    string // what it means, in a clause
	Detail string // more of that, for the documentation alone; may be ""
	Advice string // what to do; the first clause, up to a semicolon, is enough to go on
}

// Brief returns a reason for INVALID in one line, in plain text: the first clause of what it
// means and of its advice. It is "" for a code that was a reason in no version.
func Brief(c Code) string {
	f, ok := reason(c)
	if !ok {
		return ""
	}
	advice, _, _ := strings.Cut(parenthesis.ReplaceAllString(f.Advice, ""), ";")
	return strings.ReplaceAll(f.Doc+" -> "+advice, "`", "")
}

// parenthesis matches what stands between parentheses, with the space before it.
var parenthesis = regexp.MustCompile(` \([^)]*\)`)

// Advice returns the cause of a reason for INVALID and what to try, in plain text:
// cause -> what to try. It is "" for a code that was a reason in no version.
func Advice(c Code) string {
	f, ok := reason(c)
	if !ok {
		return ""
	}
	return strings.ReplaceAll(f.Doc+" -> "+f.Advice, "`", "")
}

// reason returns the fact of a code that is a reason, or was one in runs that are still read.
func reason(c Code) (Fact, bool) {
	from := reasons
	if slices.Contains([]Code{ClientCPU, ClientLoop, ClientCeiling, ClientThrottled}, c) {
		from = remarks
	}
	i := slices.IndexFunc(from, func(f Fact) bool { return f.Code == c })
	if i < 0 {
		return Fact{}, false
	}
	return from[i], true
}
