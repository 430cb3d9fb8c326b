package secret_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"sweep.dev/sweep/internal/secret"
)

func mask() secret.Mask {
	return secret.NewMask([]secret.String{
		secret.New("${A}", "aaaaaaaa"), secret.New("${LONG}", "aaaaaaaa-and-more"), secret.New("${B}", "s3cr3t-c4n4ry"), secret.New("${PORT}", "8000"),
	})
}

func TestMask(t *testing.T) {
	big := strings.Repeat("x", 64<<10-5)
	for text, want := range map[string]string{
		"":                           "",
		"port 8000 is taken":         "port 8000 is taken",
		"s3cr3t-c4n4ry":              "${B}",
		"k=s3cr3t-c4n4ry, aaaaaaaa.": "k=${B}, ${A}.",
		"aaaaaaaa-and-more":          "${LONG}",
		"aaaaaaaa-and-mor":           "${A}-and-mor",
		// Cut within a secret, at the end or at the beginning.
		"key s3cr3t-c4n4":                   "key ${B}",
		"key s3cr3t-c4n4...":                "key ${B}...",
		"key s3cr3t-":                       "key s3cr3t-",
		"r3t-c4n4ry was sent":               "${B} was sent",
		"c4n4ry was sent":                   "c4n4ry was sent",
		"-c4n4ry was s3cr3t-c4n4":           "-c4n4ry was ${B}",
		"r3t-c4n4ry,s3cr3t-c4n4ry,s3cr3t-c": "${B},${B},${B}",
		"r3t-c4n4":                          "r3t-c4n4",
		"aaaaaaaa-and-mo...":                "${A}-and-mo...",
		"not cut...":                        "not cut...",
		"a s3cr3t-c4n4 in the middle":       "a s3cr3t-c4n4 in the middle",
		"s3cr3t-c4n4rys3cr3t-c4n4ry":        "${B}${B}",
		big + "aaaaaaaa-and-more" + big:     big + "${LONG}" + big,
		big + "aaaaaaaa-and-mor":            big + "${A}-and-mor",
	} {
		if got := mask().Text(text); got != want {
			t.Errorf("Text(%.40q) = %.40q, want %.40q", text, got, want)
		}
		for name, r := range map[string]io.Reader{"whole": strings.NewReader(text), "byte by byte": iotest.OneByteReader(strings.NewReader(text))} {
			if len(text) > 1000 && name != "whole" {
				continue
			}
			var b strings.Builder
			found, err := mask().Copy(&b, r)
			if err != nil || b.String() != want || found != (want != text) {
				t.Errorf("Copy(%.40q) %s = %.40q, %t, %v; want %.40q", text, name, b.String(), found, err, want)
			}
		}
	}
}

func TestMask_zero(t *testing.T) {
	m := secret.NewMask([]secret.String{secret.Plain("short")})
	var b strings.Builder
	if found, err := m.Copy(&b, strings.NewReader("short")); !m.IsZero() || found || err != nil || b.String() != "short" || m.Text("short") != "short" {
		t.Errorf("got %q, %t, %v", b.String(), found, err)
	}
}

func TestMask_error(t *testing.T) {
	broken := errors.New("broken")
	var b strings.Builder
	if _, err := mask().Copy(&b, io.MultiReader(strings.NewReader("s3cr3t-c4n4ry"), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}
