package rundir

import (
	"testing"
	"time"

	"sweep.dev/sweep/backends"
)

// What a resume may still spend follows from the journal: a pod costs its last price from its
// intent on, once, and one of which nothing was sent costs nothing.
func TestReplay_spent(t *testing.T) {
	t.Parallel()
	var data []byte
	seq := uint64(0)
	at := func(minute int, typ string, what any) {
		t.Helper()
		raw, err := marshalObject(what)
		if err != nil {
			t.Fatal(err)
		}
		seq++
		line, err := encodeLine(Event{Seq: seq, Time: time.Unix(int64(60*minute), 0).UTC(), Type: typ, Data: raw})
		if err != nil {
			t.Fatal(err)
		}
		data = append(data, line...)
	}
	at(0, typeCreated, Manifest{RunID: "r"})
	for _, pod := range []string{"made", "lost", "intended"} {
		at(0, typePod, backends.Transition{Pod: pod, State: backends.Intended, USDPerHour: 2})
	}
	at(10, typePod, backends.Transition{Pod: "made", State: backends.Sent})
	at(10, typePod, backends.Transition{Pod: "lost", State: backends.Sent})
	at(20, typePod, backends.Transition{Pod: "made", State: backends.Created, USDPerHour: 3})
	at(30, typePod, backends.Transition{Pod: "lost", State: backends.Gone})
	for _, pod := range []string{"made", "intended", "made"} {
		at(60, typePod, backends.Transition{Pod: pod, State: backends.Gone})
	}
	st, _, err := replay(data)
	if err != nil {
		t.Fatal(err)
	}
	if st.SpentUSD != 1+3 || len(st.Owed) != 0 {
		t.Errorf("$%g are spent and %v is owed, want $4 and nothing", st.SpentUSD, st.Owed)
	}
}
