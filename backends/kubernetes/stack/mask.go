package stack

import (
	"regexp"
	"strings"

	"sweep.dev/sweep/internal/secret"
)

// A shell script in an argument has flags and assignments of its own.
var (
	assigned = regexp.MustCompile(`([A-Za-z_][A-Za-z0-9_.-]*)(=|\s+)("[^"]*"|'[^']*'|[^\s"';&|]+)`)
	userinfo = regexp.MustCompile(`://[^/\s@]+@`)
)

const mask = "***"

// masked returns a command without the secrets that stand in it: the values of flags and of
// variables whose names are those of credentials, and passwords in URLs. A reference as
// $HF_TOKEN is none.
func masked(args []string) []string {
	out := make([]string, len(args))
	next := false
	for i, arg := range args {
		flag, value, joined := strings.Cut(arg, "=")
		switch {
		case next && !strings.HasPrefix(arg, "-"):
			out[i], next = hidden(arg), false
		case strings.ContainsAny(arg, " \t\n"):
			out[i], next = script(arg), false
		case joined && secret.Named(strings.TrimLeft(flag, "-")):
			out[i], next = flag+"="+hidden(value), false
		default:
			out[i], next = userinfo.ReplaceAllString(arg, "://"+mask+"@"), strings.HasPrefix(arg, "-") && !joined && secret.Named(strings.TrimLeft(arg, "-"))
		}
	}
	return out
}

// hidden returns a value that must not be shown, or a reference to one.
func hidden(value string) string {
	if strings.HasPrefix(strings.Trim(value, `"'`), "$") || value == "" {
		return value
	}
	return mask
}

// script masks a text of several words. "--api-key VALUE" and "KEY=VALUE" are found at
// every place; a word alone before a space must be a flag.
func script(text string) string {
	var b strings.Builder
	at := 0
	for at < len(text) {
		m := assigned.FindStringSubmatchIndex(text[at:])
		if m == nil {
			break
		}
		name, sep, value := text[at+m[2]:at+m[3]], text[at+m[4]:at+m[5]], text[at+m[6]:at+m[7]]
		flag := m[2] > 0 && text[at+m[2]-1] == '-'
		if secret.Named(name) && (sep == "=" || flag) {
			b.WriteString(text[at:at+m[6]] + hidden(value))
			at += m[7]
			continue
		}
		b.WriteString(text[at : at+m[3]])
		at += m[3]
	}
	b.WriteString(text[at:])
	return userinfo.ReplaceAllString(b.String(), "://"+mask+"@")
}
