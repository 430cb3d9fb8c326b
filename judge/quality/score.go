package quality

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Score reports whether an answer is right; nil for an item that is not scored.
func (i *Item) Score(answer string) *bool {
	switch i.Match {
	case MatchNone:
		return nil
	case MatchExact:
		return new(slices.ContainsFunc(i.Expected, func(e string) bool { return normal(e) == normal(answer) }))
	case MatchContains:
		has := " " + normal(answer) + " "
		return new(slices.ContainsFunc(i.Expected, func(e string) bool { return strings.Contains(has, " "+normal(e)+" ") }))
	case MatchNumber:
		return new(i.isNumber(answer))
	default:
		return new(i.chosen(answer) == i.Expected[0])
	}
}

// normal returns a text in lower case, with one space in the place of everything that is
// neither a letter nor a digit.
func normal(s string) string {
	words := strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return strings.Join(words, " ")
}

// numbers matches a number in a text, with commas between thousands. A minus is part of
// it only if it follows no letter, digit or parenthesis: 12-5 is 12 and 5.
var numbers = regexp.MustCompile(`(?:^|[^\w)-])(-\d[\d,]*(?:\.\d+)?)|(\d[\d,]*(?:\.\d+)?)`)

// isNumber takes the last number of an answer, as the flexible extraction of the
// GSM8K task of lm-evaluation-harness does.
func (i *Item) isNumber(answer string) bool {
	all := numbers.FindAllStringSubmatch(answer, -1)
	if len(all) == 0 {
		return false
	}
	last := all[len(all)-1]
	got, ok := numberOf(last[1] + last[2])
	return ok && slices.ContainsFunc(i.Expected, func(e string) bool {
		want, _ := numberOf(e)
		return got == want
	})
}

func numberOf(s string) (float64, bool) {
	s = strings.TrimSpace(strings.ReplaceAll(s, ",", ""))
	if !plainNumber.MatchString(s) {
		return 0, false
	}
	v, err := strconv.ParseFloat(s, 64)
	return v, err == nil
}

var plainNumber = regexp.MustCompile(`^-?\d+(\.\d+)?$`)

// How an answer names a choice: with its letter at the beginning, or after the word
// answer.
var (
	leading = regexp.MustCompile(`^[^\pL\pN]*([A-H])(?:[^\pL\pN]|$)`)
	after   = regexp.MustCompile(`(?i:answer)(?:\s+is)?[\s:*("]*([A-H])(?:[^\pL\pN]|$)`)
)

// chosen returns the letter of the choice that an answer names, else that of the only choice
// whose text it has; "" for none.
func (i *Item) chosen(answer string) string {
	for _, by := range []*regexp.Regexp{leading, after} {
		if m := by.FindStringSubmatch(answer); m != nil && int(m[1][0]-'A') < len(i.Choices) {
			return m[1]
		}
	}
	found := ""
	has := " " + normal(answer) + " "
	for n, c := range i.Choices {
		if !strings.Contains(has, " "+normal(c)+" ") {
			continue
		}
		if found != "" {
			return ""
		}
		found = mark(n)
	}
	return found
}
