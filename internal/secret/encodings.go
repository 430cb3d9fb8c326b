package secret

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"unicode/utf16"
)

// encodings lists a value as it is and as the usual encodings write it, each
// form once.
func encodings(value string) []string {
	list := []string{value, hex.EncodeToString([]byte(value)), strings.ToUpper(hex.EncodeToString([]byte(value)))}
	for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			list = append(list, base64Core(e, value, before))
		}
	}
	for _, escaped := range []string{url.QueryEscape(value), strings.ReplaceAll(url.QueryEscape(value), "+", "%20"), url.PathEscape(value)} {
		list = append(list, escaped, lowerEscapes(escaped))
	}
	list = append(list, jsonEscapes(value)...)
	seen := map[string]bool{}
	return slices.DeleteFunc(list, func(s string) bool {
		twice := seen[s]
		seen[s] = true
		return twice || len(s) < maskedFrom
	})
}

// base64Core returns what base64 makes of a value that comes after so many bytes of
// a longer text (modulo 3), whatever those are and whatever follows. The
// characters at both ends that depend on the neighbours are left out: they
// hold 6 bits of the value at most, each.
func base64Core(e *base64.Encoding, value string, before int) string {
	padded := e.EncodeToString([]byte("\x00\x00"[:before] + value))
	from := (8*before + 5) / 6
	to := 8 * (before + len(value)) / 6
	return padded[from:to]
}

// lowerEscapes writes the escapes of a URL in small letters: %2f.
func lowerEscapes(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:], strings.ToLower(string(b[i+1:i+3])))
			i += 2
		}
	}
	return string(b)
}

// jsonEscapes lists a value as it stands in a JSON string: as Go writes it,
// without its escapes for HTML, with escaped slashes (PHP), in ASCII alone
// (Python).
func jsonEscapes(value string) []string {
	quoted, err := json.Marshal(value)
	if err != nil {
		return nil
	}
	html := string(quoted[1 : len(quoted)-1])
	plain := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(html)
	var ascii strings.Builder
	for _, r := range plain {
		if r < 0x80 {
			ascii.WriteRune(r)
			continue
		}
		for _, u := range utf16.Encode([]rune{r}) {
			ascii.WriteString(`\u` + hex.EncodeToString([]byte{byte(u >> 8), byte(u)}))
		}
	}
	return []string{html, plain, strings.ReplaceAll(plain, "/", `\/`), ascii.String()}
}
