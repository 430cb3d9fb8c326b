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
		for _, value := range parts(s.Reveal()) {
			for _, text := range encodings(value) {
				m.forms = append(m.forms, form{text, s.Ref()})
			}
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

// parts returns a value and, of one that has several lines, each of them that is
// long enough to be a part of a key: a log is read line by line.
func parts(value string) []string {
	if len(value) < maskedFrom {
		return nil
	}
	out := []string{value}
	if lines := strings.Split(strings.TrimSpace(value), "\n"); len(lines) > 1 {
		for _, line := range lines {
			if line = strings.TrimSpace(line); len(line) >= 2*maskedFrom && !strings.HasPrefix(line, "-----") {
				out = append(out, line)
			}
		}
	}
	return out
}

// IsZero reports whether nothing is hidden.
func (m Mask) IsZero() bool { return len(m.forms) == 0 }

// Text returns s without secrets.
func (m Mask) Text(s string) string {
	if m.IsZero() || len(s) < maskedFrom {
		return s
	}
	var out strings.Builder
	at, f := first(&m, s, 0)
	from, ref := m.head(s[:at])
	out.WriteString(ref)
	for ; f != nil; at, f = first(&m, s, from) {
		out.WriteString(s[from:at])
		out.WriteString(f.ref)
		from = at + len(f.text)
	}
	cut, ref := m.tail(s[from:])
	out.WriteString(s[from : from+cut])
	out.WriteString(ref)
	return out.String()
}

// Copy copies r to w without secrets, also if one is longer than a read.
// found says whether there was one.
func (m Mask) Copy(w io.Writer, r io.Reader) (found bool, err error) {
	if m.IsZero() {
		_, err = io.Copy(w, r)
		return false, err
	}
	put := func(text []byte, ref string) error {
		found = found || ref != ""
		_, err := io.WriteString(w, string(text)+ref)
		return err
	}
	keep := len(m.forms[0].text) - 1 // the longest beginning of a secret
	var text []byte
	buf := make([]byte, 64<<10)
	for begun := false; ; {
		n, rerr := r.Read(buf)
		text = append(text, buf[:n]...)
		end := rerr != nil
		if !begun && !end && len(text) <= 2*keep {
			continue // the rest of one must be whole to be seen
		}
		at, f := first(&m, text, 0)
		from := 0
		if !begun {
			begun = true
			var ref string
			from, ref = m.head(string(text[:min(at, keep)]))
			if err := put(nil, ref); err != nil {
				return found, err
			}
		}
		// At the end of what was read a longer one may begin before it, and not
		// be whole yet.
		for f != nil && (end || at+keep < len(text)) {
			if err := put(text[from:at], f.ref); err != nil {
				return found, err
			}
			from = at + len(f.text)
			at, f = first(&m, text, from)
		}
		done, ref := max(from, len(text)-keep), ""
		switch {
		case end:
			done = max(from, len(text)-keep-len(dots))
			var cut int
			cut, ref = m.tail(string(text[done:]))
			done += cut
		case f != nil:
			done = min(done, at)
		}
		if err := put(text[from:done], ref); err != nil {
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

// dots is what a text ends with that was cut.
const dots = "..."

// head returns how much of a text's beginning is the rest of a secret, where the
// text begins within one, and what to show for it: a log may be read from
// anywhere. Less than what would be hidden by itself is no secret.
func (m *Mask) head(s string) (to int, ref string) {
	for i := range m.forms {
		f := m.forms[i].text
		for n := min(len(f)-1, len(s)); n >= max(maskedFrom, to+1); n-- {
			if s[:n] == f[len(f)-n:] {
				to, ref = n, m.forms[i].ref
			}
		}
	}
	return to, ref
}

// tail returns where at a text's end a secret begins that is not whole, and what to
// show for it: servers' answers are cut.
func (m *Mask) tail(whole string) (from int, ref string) {
	s, cut := strings.CutSuffix(whole, dots)
	longest := 0
	for i := range m.forms {
		f := m.forms[i].text
		for n := min(len(f)-1, len(s)); n >= max(maskedFrom, longest+1); n-- {
			if s[len(s)-n:] == f[:n] {
				longest, ref = n, m.forms[i].ref
			}
		}
	}
	switch {
	case longest == 0:
		return len(whole), ""
	case cut:
		ref += dots
	}
	return len(s) - longest, ref
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
