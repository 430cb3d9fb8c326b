package ready

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sweep.dev/sweep/internal/lines"
)

func TestAwaitedLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l := newAwaitedLine(path, "added model .*tiny")
	write := func(text string) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{"", "loading\n", strings.Repeat("x", 3*lines.Max) + "\n", "\x1b[2madded\x1b[0m model \x1b[3m", "name\x1b[0m=tiny"} {
		if text != "" {
			write(text)
		}
		if l.seen() == nil {
			t.Fatalf("seen after %.40q", text)
		}
	}
	write("\nmore\n")
	if err := l.seen(); err != nil {
		t.Error(err)
	}
	if err := newAwaitedLine(path, "(").seen(); err == nil {
		t.Error("an expression that does not compile was found")
	}
}
