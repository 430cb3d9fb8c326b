package secret

import (
	"io"
	"slices"
	"strings"
)

// maskedFrom is the length, in bytes, from which a value is hidden. A shorter
// one is no credential, and would hide ordinary words and numbers.
const maskedFrom = 8

// A Mask hides secrets in texts that somebody else wrote: a server may print or
// answer what it was given. The type [String] keeps us from printing them; a
// Mask finds them by their value, and by what the usual encodings make of it:
// base64 wherever in a longer text it stands (as in Basic authentication), hex,
// and the escapes of URLs and JSON. The zero Mask hides nothing.
type Mask struct {
	forms []form // the longest first: one may be a part of another
	// begin has a bit for the first two bytes of every form. Hardly any place
	// of a text passes it, so that the cost of a text is that of one look at
	// each of its bytes, however many forms there are.
	begin *[1 << 16 / 64]uint64
}

// A form is one way to write a secret.
type form struct{ text, ref string }

// NewMask makes a Mask that shows the references of secrets in place of their
// values, those of eight bytes and more.
func NewMask(secrets []String) Mask {
	var m Mask
	for _, s := range secrets {
		if len(s.Reveal()) < maskedFrom {
			continue
		}
		for _, text := range encodings(s.Reveal()) {
			m.forms = append(m.forms, form{text, s.Ref()})
		}
	}
	if len(m.forms) == 0 {
		return Mask{}
	}
	slices.SortStableFunc(m.forms, func(a, b form) int { return len(b.text) - len(a.text) })
	m.begin = new([1 << 16 / 64]uint64)
	for _, f := range m.forms {
		k := uint16(f.text[0])<<8 | uint16(f.text[1])
		m.begin[k>>6] |= 1 << (k & 63)
	}
	return m
}

// IsZero says that nothing is hidden.
func (m Mask) IsZero() bool { return len(m.forms) == 0 }

// Text is s without secrets.
func (m Mask) Text(s string) string {
	if m.IsZero() {
		return s
	}
	var out strings.Builder
	from := 0
	for {
		at, f := first(&m, s, from)
		if f == nil {
			break
		}
		out.WriteString(s[from:at])
		out.WriteString(f.ref)
		from = at + len(f.text)
	}
	if from == 0 {
		return s
	}
	out.WriteString(s[from:])
	return out.String()
}

// Copy copies r to w without secrets, also where one is longer than a read.
// found says whether there was one.
func (m Mask) Copy(w io.Writer, r io.Reader) (found bool, err error) {
	if m.IsZero() {
		_, err = io.Copy(w, r)
		return false, err
	}
	keep := len(m.forms[0].text) - 1 // the longest beginning of a secret
	var text []byte
	buf := make([]byte, 64<<10)
	for {
		n, rerr := r.Read(buf)
		text = append(text, buf[:n]...)
		from := 0
		at, f := first(&m, text, from)
		// At the end of what was read a longer one may begin before it, and not
		// be whole yet.
		for f != nil && (rerr != nil || at+keep < len(text)) {
			found = true
			if _, err := io.WriteString(w, string(text[from:at])+f.ref); err != nil {
				return found, err
			}
			from = at + len(f.text)
			at, f = first(&m, text, from)
		}
		done := max(from, len(text)-keep)
		if rerr != nil {
			done = len(text)
		} else if f != nil {
			done = min(done, at)
		}
		if _, err := w.Write(text[from:done]); err != nil {
			return found, err
		}
		text = append(text[:0], text[done:]...)
		switch rerr {
		case nil:
		case io.EOF:
			return found, nil
		default:
			return found, rerr
		}
	}
}

// first is the first form in s at or after from, the longest where several
// begin there.
func first[T string | []byte](m *Mask, s T, from int) (at int, f *form) {
	for at = from; at+1 < len(s); at++ {
		if k := uint16(s[at])<<8 | uint16(s[at+1]); m.begin[k>>6]&(1<<(k&63)) == 0 {
			continue
		}
		for i := range m.forms {
			text := m.forms[i].text
			if len(text) <= len(s)-at && string(s[at:at+len(text)]) == text {
				return at, &m.forms[i]
			}
		}
	}
	return len(s), nil
}
