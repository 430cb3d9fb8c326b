package secret

import (
	"bytes"
	"io"
	"slices"
	"strings"
)

// maskedFrom is the length, in bytes, from which a value is hidden. A shorter
// one is no credential, and would hide ordinary words and numbers.
const maskedFrom = 8

// A Mask hides secrets in texts that somebody else wrote: a server may print or
// answer what it was given. The type [String] keeps us from printing them; a
// Mask finds them by their value. The zero Mask hides nothing.
type Mask struct {
	secrets  []hidden // the longest first: one may be a part of another
	replacer *strings.Replacer
}

type hidden struct{ value, ref string }

// NewMask makes a Mask that shows the references of secrets in place of their
// values, those of eight bytes and more.
func NewMask(secrets []String) Mask {
	var m Mask
	for _, s := range secrets {
		if len(s.Reveal()) >= maskedFrom {
			m.secrets = append(m.secrets, hidden{s.Reveal(), s.Ref()})
		}
	}
	if len(m.secrets) == 0 {
		return Mask{}
	}
	slices.SortStableFunc(m.secrets, func(a, b hidden) int { return len(b.value) - len(a.value) })
	var pairs []string
	for _, s := range m.secrets {
		pairs = append(pairs, s.value, s.ref)
	}
	m.replacer = strings.NewReplacer(pairs...)
	return m
}

// IsZero says that nothing is hidden.
func (m Mask) IsZero() bool { return m.replacer == nil }

// Text is s without secrets.
func (m Mask) Text(s string) string {
	if m.IsZero() {
		return s
	}
	return m.replacer.Replace(s)
}

// Copy copies r to w without secrets, also where one is longer than a read.
// found says whether there was one.
func (m Mask) Copy(w io.Writer, r io.Reader) (found bool, err error) {
	if m.IsZero() {
		_, err = io.Copy(w, r)
		return false, err
	}
	keep := len(m.secrets[0].value) - 1 // the longest beginning of a secret
	var text []byte
	buf := make([]byte, 64<<10)
	for {
		n, rerr := r.Read(buf)
		text = append(text, buf[:n]...)
		for {
			at, s := m.first(text)
			// A longer one may begin before it, and not be whole yet.
			if s == nil || rerr == nil && at+keep >= len(text) {
				break
			}
			found = true
			if _, err := io.WriteString(w, string(text[:at])+s.ref); err != nil {
				return found, err
			}
			text = text[at+len(s.value):]
		}
		done := max(0, len(text)-keep)
		if rerr != nil {
			done = len(text)
		} else if at, s := m.first(text); s != nil {
			done = min(done, at)
		}
		if _, err := w.Write(text[:done]); err != nil {
			return found, err
		}
		text = text[done:]
		switch rerr {
		case nil:
		case io.EOF:
			return found, nil
		default:
			return found, rerr
		}
	}
}

// first is the first secret in b, the longest where several begin there.
func (m Mask) first(b []byte) (at int, s *hidden) {
	at = -1
	for i := range m.secrets {
		if j := bytes.Index(b, []byte(m.secrets[i].value)); j >= 0 && (at < 0 || j < at) {
			at, s = j, &m.secrets[i]
		}
	}
	return at, s
}
