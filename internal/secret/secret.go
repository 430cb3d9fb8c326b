// Package secret holds values that must never be printed. A [String] keeps the
// reference it was written as ("Bearer ${TOKEN}") and shows that everywhere;
// only [String.Reveal] gives the value, at the place that sends it.
package secret

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
)

// A String is a text that may contain secrets by reference. Its zero value is
// the empty text. No format verb, log, JSON or YAML encoder prints the value.
type String struct {
	ref   string
	value *string // behind a pointer, so that %#v and %+v of a struct show an address
}

// New makes a String that shows ref and reveals value.
func New(ref, value string) String { return String{ref: ref, value: &value} }

// Plain makes a String without secrets: it shows what it is.
func Plain(s string) String { return String{ref: s, value: &s} }

// Reveal returns the value. Call it where the value is sent, nowhere else.
func (s String) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// IsZero reports whether the text is empty.
func (s String) IsZero() bool { return s.Reveal() == "" }

// Ref returns the text as it was written, references unexpanded.
func (s String) Ref() string { return s.ref }

// String implements [fmt.Stringer] with the reference.
func (s String) String() string { return s.ref }

// GoString implements [fmt.GoStringer] with the reference.
func (s String) GoString() string { return fmt.Sprintf("secret.String(%q)", s.ref) }

// Format implements [fmt.Formatter]: every verb prints the reference.
func (s String) Format(f fmt.State, verb rune) {
	text := s.ref
	switch {
	case verb == 'v' && f.Flag('#'):
		text = s.GoString()
	case verb == 'q':
		text = fmt.Sprintf("%q", s.ref)
	}
	_, _ = io.WriteString(f, text) // fmt.State has no way to report this
}

// MarshalJSON implements [json.Marshaler] with the reference.
func (s String) MarshalJSON() ([]byte, error) { return json.Marshal(s.ref) }

// MarshalText implements encoding.TextMarshaler with the reference.
func (s String) MarshalText() ([]byte, error) { return []byte(s.ref), nil }

// LogValue implements [slog.LogValuer] with the reference.
func (s String) LogValue() slog.Value { return slog.StringValue(s.ref) }

// UnmarshalYAML keeps the text as a reference whose value is the text itself;
// the plan replaces it by the expanded value while it loads.
func (s *String) UnmarshalYAML(unmarshal func(any) error) error {
	var text string
	if err := unmarshal(&text); err != nil {
		return err
	}
	*s = Plain(text)
	return nil
}
