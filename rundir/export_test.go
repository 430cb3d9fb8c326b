package rundir

import "testing"

// EncodeLine lets external tests make journals without an fsync per line.
func EncodeLine(t testing.TB, seq uint64, typ string, data any) []byte {
	t.Helper()
	raw, err := marshalObject(data)
	if err != nil {
		t.Fatal(err)
	}
	line, err := encodeLine(Event{Seq: seq, Type: typ, Data: raw})
	if err != nil {
		t.Fatal(err)
	}
	return line
}
