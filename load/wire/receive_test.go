package wire

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// A stream that calls itself JSON is told by its first byte, and nothing of it is lost.
func TestIsStream(t *testing.T) {
	for body, want := range map[string]bool{
		"data: {}\n\n":           true,
		"\n\nevent: x\ndata: 1":  true,
		": ping\n\ndata: {}":     true,
		`{"choices":[]}`:         false,
		`[1]`:                    false,
		"":                       false,
		strings.Repeat(" ", 100): false,
		"<html>":                 false,
	} {
		resp := &http.Response{Body: io.NopCloser(strings.NewReader(body))}
		got := IsStream(resp)
		rest, err := io.ReadAll(resp.Body)
		if got != want || err != nil || string(rest) != body {
			t.Errorf("%q: %v, and then %q, %v", body, got, rest, err)
		}
	}
}
