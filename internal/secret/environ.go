package secret

import (
	"net/url"
	"slices"
	"strings"
)

// Named reports whether a variable of this name holds a credential: a word of it,
// in any letter case, ends with one of those below. TOKENS are a count, as in
// MAX_TOKENS.
func Named(name string) bool {
	words := strings.FieldsFunc(strings.ToUpper(name), func(r rune) bool { return r == '_' || r == '-' || r == '.' })
	ends := []string{"KEY", "KEYS", "TOKEN", "SECRET", "SECRETS", "PASSWORD", "PASSWORDS", "PASSWD", "PASSPHRASE", "CREDENTIAL", "CREDENTIALS"}
	return slices.ContainsFunc(words, func(word string) bool {
		return word == "PAT" || word == "AUTH" || slices.ContainsFunc(ends, func(end string) bool { return strings.HasSuffix(word, end) })
	})
}

// FromEnviron returns every credential of an environment, given as name=value: the
// values of the variables that are [Named] so, and the passwords in the URLs of
// all others, as a proxy's may be. Their reference is ${NAME}.
func FromEnviron(environ []string) []String {
	var list []String
	for _, variable := range environ {
		name, value, ok := strings.Cut(variable, "=")
		if !ok {
			continue
		}
		ref := "${" + name + "}"
		if Named(name) {
			list = append(list, New(ref, value))
		}
		if !strings.Contains(value, "://") {
			continue
		}
		if u, err := url.Parse(value); err == nil && u.User != nil {
			password, _ := u.User.Password()
			list = append(list, New(ref, password))
			// As it stands in the URL, where it is escaped.
			if _, escaped, ok := strings.Cut(u.User.String(), ":"); ok && escaped != password {
				list = append(list, New(ref, escaped))
			}
		}
	}
	return list
}
