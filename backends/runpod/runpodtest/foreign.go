package runpodtest

import (
	"strconv"
	"time"

	"sweep.dev/sweep/backends"
)

// Foreign puts n pods of other people into the account and returns their ids.
// Nothing runs for them. Their names are of all kinds: other people's, those
// that only look like sweep's, and sweep's own of another owner, some with marks
// and some long overdue.
func (e *Emulator) Foreign(n int) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var ids []string
	for i := range n {
		overdue := e.now().Add(-48 * time.Hour).Truncate(time.Second)
		other := backends.NewName("somebody-else", "r"+e.letters(9), overdue)
		other.Serial = e.letters(8) // the only part that the seed does not give
		marks := map[string]string{
			backends.MarkOwner: "somebody-else", backends.MarkRun: other.Run, backends.MarkPod: "d1-l01",
			backends.MarkExpires: strconv.FormatInt(overdue.Unix(), 10),
		}
		lookalikes := []struct {
			name string
			env  map[string]string
		}{
			{"pytorch-training", nil},
			{"sw-backup", nil},
			{"sw-" + e.letters(8) + "-" + e.letters(8), nil},
			{"sweep-" + e.letters(6), map[string]string{"SWEEP_RUN_ID": "mine"}},
			{other.String(), marks},
			{other.String() + "-copy", marks},
			{"SW-" + other.String()[3:], nil},
			{"swp-7f3a9c-r0012-a1", nil},
			{"", nil},
			{"my pod", marks},
			{"sw-00000000-run1-aaaaaaaa-x0", nil},
			{"production – do not delete", nil},
		}
		like := lookalikes[i%len(lookalikes)]
		g := gpuTypes[e.rand.IntN(len(gpuTypes))]
		p := &pod{
			id: e.letters(14), key: "rpa_" + e.letters(40), name: like.name, foreign: true,
			image: "runpod/pytorch:1.0.2-cu1281-torch280-ubuntu2404", disk: 50, ports: []string{"8888/http", "22/tcp"},
			env: like.env, gpu: g, count: 1, cloud: "SECURE", place: dataCenters[0].id, cuda: cudaVersions[0],
			usd: g.secure, machine: e.letters(8), status: "RUNNING", up: true,
			created: e.now().Add(-72 * time.Hour).UTC(), started: e.now().Add(-72 * time.Hour).UTC(),
			shown: map[int]int{22: 35558}, log: newPodLog(e.opts.Now),
			quit: func() {}, forgotten: make(chan struct{}), again: make(chan struct{}, 1),
		}
		if p.env == nil {
			p.env = map[string]string{}
		}
		if i%3 == 2 {
			p.status, p.up = "EXITED", false
		}
		p.meter.set(e.now(), p.usd, p.diskHour(!p.up))
		e.pods = append(e.pods, p)
		ids = append(ids, p.id)
	}
	return ids
}
