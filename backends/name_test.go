package backends

import (
	"testing"
	"time"
)

func TestName(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 999, time.UTC)
	for _, run := range []string{"0a1b2c3d4e", "run-WITH odd/letters", "x", ""} {
		n := NewName("somebody@host", run, at)
		s := n.String()
		if len(s) > 60 {
			t.Errorf("%s has %d characters", s, len(s))
		}
		got, ok := ParseName(s)
		if !ok || got != n {
			t.Errorf("ParseName(%s) = %+v, %v; want %+v", s, got, ok, n)
		}
		if got.Owner != OwnerTag("somebody@host") || got.Run != RunTag(run) || !got.Expires.Equal(at.Truncate(time.Second)) {
			t.Errorf("%s: %+v", s, got)
		}
		if again := NewName("somebody@host", run, at).String(); again == s {
			t.Errorf("%s twice", s)
		}
	}
	for _, s := range []string{
		"", "sw", "sw-", "my-pod", "sw-1234567-0a1b2c3d4e-abcdefgh-xtabcde", "SW-12345678-0a1b2c3d4e-abcdefgh-xtabcde",
		"sw-12345678-0a1b2c3d4e-abcdefgh-tabcde", "sw-12345678-0a1b2c3d4e-abcdefgh-xtabcde-migration",
		"sw-12345678-0a1b2c3d4e-abcdefgh-x0tabcd", " sw-12345678-0a1b2c3d4e-abcdefgh-xtabcde",
	} {
		if n, ok := ParseName(s); ok {
			t.Errorf("ParseName(%q) = %+v", s, n)
		}
	}
}
