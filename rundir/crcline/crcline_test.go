package crcline_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"sweep.dev/sweep/rundir/crcline"
)

func TestLine(t *testing.T) {
	t.Parallel()
	const object = `{"n":1,"text":"ä"}`
	line := crcline.Encode([]byte(object))
	// By another implementation of CRC-32C, of the bytes after the comma.
	if want := `{"crc":"8945fd19","n":1,"text":"ä"}` + "\n"; string(line) != want {
		t.Fatalf("%s, want %s", line, want)
	}
	got, err := crcline.Decode(bytes.TrimSuffix(line, []byte("\n")))
	if err != nil || string(got) != object {
		t.Fatalf("%s, %v", got, err)
	}
	for i := range len(line) - 1 {
		bad := bytes.Clone(line[:len(line)-1])
		bad[i] ^= 1
		if _, err := crcline.Decode(bad); !errors.Is(err, crcline.ErrForeign) && !errors.Is(err, crcline.ErrChecksum) {
			t.Errorf("byte %d changed: %v", i, err)
		}
		if _, err := crcline.Decode(line[:i]); err == nil {
			t.Errorf("the first %d bytes are a line", i)
		}
	}
}

func TestHoldsGood(t *testing.T) {
	t.Parallel()
	line := string(crcline.Encode([]byte(`{"n":1}`)))
	good := func(object []byte) bool { return strings.Contains(string(object), `"n"`) }
	for text, want := range map[string]bool{
		"": false, "x": false, crcline.Prefix: false, line: true, "junk" + line: true,
		"junk\n" + line + "junk": true, strings.TrimSuffix(line, "\n"): false,
		string(crcline.Encode([]byte(`{"m":1}`))): false, crcline.Prefix + line: true,
	} {
		if got := crcline.HoldsGood([]byte(text), good); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
