package ssh

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"sweep.dev/sweep/backends"
)

// quote makes one word of a POSIX shell of s. Between single quotes every byte
// stands for itself but the quote; NUL is in no word and has to be refused
// before (see text).
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// words quotes several.
func words(list ...string) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = quote(s)
	}
	return strings.Join(quoted, " ")
}

// text refuses what no argument and no variable of a process can hold.
func text(what, s string) error {
	if strings.ContainsRune(s, 0) {
		return fmt.Errorf("%w: %s has a NUL byte", backends.ErrSpec, what)
	}
	return nil
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// exports returns the lines that put env into the environment. What a shell cannot
// name is refused: it would have to go through somebody's argv.
func exports(env map[string]string) (string, error) {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if !variable.MatchString(name) {
			return "", fmt.Errorf("%w: no variable can be called %q", backends.ErrSpec, name)
		}
		if err := text("variable "+name, env[name]); err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "export %s=%s\n", name, quote(env[name]))
	}
	return b.String(), nil
}

// folder returns a path on the host as a word: a leading ~ is the home of the user
// there.
func folder(path string) string {
	switch rest, ok := strings.CutPrefix(path, "~"); {
	case ok && rest == "":
		return `"$HOME"`
	case ok && rest[0] == '/':
		return `"$HOME"` + quote(rest)
	default:
		return quote(path)
	}
}
