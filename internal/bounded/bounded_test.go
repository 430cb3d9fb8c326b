package bounded

import (
	"errors"
	"io"
	"strings"
	"testing"
)

func TestBuffer(t *testing.T) {
	t.Parallel()
	errFull := errors.New("full")
	for what, c := range map[string]struct {
		full func() error
		err  error
	}{
		"dropped":  {nil, nil},
		"reported": {func() error { return nil }, nil},
		"an error": {func() error { return errFull }, errFull},
	} {
		b := &Buffer{Max: 5, Full: c.full}
		if n, err := b.Write([]byte("abc")); n != 3 || err != nil {
			t.Errorf("%s: what fits: %d, %v", what, n, err)
		}
		// io.Copy must not find a way around the bound.
		if _, err := io.Copy(b, strings.NewReader("defg")); !errors.Is(err, c.err) {
			t.Errorf("%s: got %v, want %v", what, err, c.err)
		}
		if n, err := b.Write([]byte("h")); !errors.Is(err, c.err) || err == nil && n != 1 {
			t.Errorf("%s: without room: %d, %v", what, n, err)
		}
		if b.String() != "abcde" || string(b.Bytes()) != "abcde" {
			t.Errorf("%s: kept %q", what, b.String())
		}
	}
}
