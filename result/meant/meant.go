// Package meant knows what people write and what sweep calls it: the words of
// other tools and of habit, which no distance of spelling leads to. It is one
// table for each place where a name can stand. A name that is not in them is a
// matter of spelling: see [syntax.Nearest].
package meant

import (
	"slices"
	"strings"

	"sweep.dev/sweep/internal/syntax"
)

// A word is a valid name and what else people write for it.
type word struct {
	name string // "" if no single name does it
	said string // separated by spaces, in small letters; - and _ are the same
	hint string // what to do, if the name alone does not say it
}

func plain(name string) string { return strings.ReplaceAll(strings.ToLower(name), "-", "_") }

func find(table []word, said string) (word, bool) {
	said = plain(said)
	for _, w := range table {
		if slices.Contains(strings.Fields(plain(w.said)), said) {
			return w, true
		}
	}
	return word{}, false
}

// Setting returns the path in a plan of the setting that said stands for, like
// load.requests; "" for none.
func Setting(said string) string {
	w, _ := find(settings[:], said)
	return w.name
}

// Gone says what to write instead of a key that a plan had; "" for any other.
func Gone(said string) string {
	w, _ := find(gone[:], said)
	return w.hint
}

// Parallelism returns the kind of parallelism that said stands for, as profiles of
// engines name it: tensor for tp; "" for none.
func Parallelism(said string) string {
	w, _ := find(parallelism[:], said)
	return w.name
}

// Command returns the one of names, commands, that said stands for, and what else
// there is to know about it. For what is no command there is only a hint.
func Command(said string, names []string) (name, hint string) { return among(commands[:], said, names) }

// Flag returns the one of names, flags of a command without their dashes, that said
// stands for. For what is no flag there is only a hint.
func Flag(said string, names []string) (name, hint string) { return among(flags[:], said, names) }

func among(table []word, said string, names []string) (name, hint string) {
	w, _ := find(table, said)
	if w.name != "" && !slices.Contains(names, w.name) {
		return "", ""
	}
	return w.name, w.hint
}

// Column returns the one of names, columns of a table in its order, that said most
// likely means: by the table of words, by the parts of the name in whatever
// order (ttft_p95), and by its spelling; "" for none.
func Column(said string, names []string) string {
	if w, ok := find(columns[:], said); ok && slices.Contains(names, w.name) {
		return w.name
	}
	if name := byParts(said, names); name != "" {
		return name
	}
	return syntax.Nearest(said, names)
}

// byParts returns the first of names that has every part of said and the fewest
// others; its unit does not count.
func byParts(said string, names []string) string {
	want := strings.FieldsFunc(plain(said), func(r rune) bool { return r == '_' || r == '.' })
	for i, part := range want {
		if w, ok := find(parts[:], part); ok {
			want[i] = w.name
		}
	}
	if len(want) == 0 {
		return ""
	}
	best, fewest := "", 0
	for _, name := range names {
		if others, ok := more(strings.Split(name, "_"), want); ok && (best == "" || others < fewest) {
			best, fewest = name, others
		}
	}
	return best
}

// more returns how many parts has beyond want; ok is false if it lacks one of them.
func more(has, want []string) (others int, ok bool) {
	has = slices.Clone(has)
	for _, part := range want {
		i := slices.Index(has, part)
		if i < 0 {
			return 0, false
		}
		has = slices.Delete(has, i, i+1)
	}
	for _, part := range has {
		if !slices.Contains([]string{"ms", "s", "tok", "req", "bytes", "usd", "w", "j"}, part) {
			others++
		}
	}
	return others, true
}
