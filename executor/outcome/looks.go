package outcome

import (
	"fmt"
	"slices"
	"time"

	"sweep.dev/sweep/judge/validity"
	"sweep.dev/sweep/result"
)

// looks returns what the samples say of the server's own processes and of the machine
// that they run on.
func looks(samples []result.Sample) (server []validity.Process, thefts []validity.Theft) {
	at := map[string]int{}
	process := func(s *result.Sample) *validity.Process {
		name := fmt.Sprintf("%s %d", s.Role, s.Replica)
		i, ok := at[name]
		if !ok {
			i = len(server)
			at[name] = i
			server = append(server, validity.Process{Name: name})
		}
		return &server[i]
	}
	last := time.Duration(0)
	for i := range samples {
		s := &samples[i]
		if s.Source != result.FromHost {
			continue
		}
		switch s.Name {
		case result.ProcessesStopped:
			p := process(s)
			p.Stopped = append(p.Stopped, s.T)
		case result.ProcessCPU:
			p := process(s)
			p.Work = append(p.Work, validity.Work{At: s.T, CPU: time.Duration(s.Value * float64(time.Second))})
		case result.MachineSteal:
			if last > 0 {
				thefts = append(thefts, validity.Theft{From: last, To: s.T, Share: s.Value})
			}
			last = s.T
		}
	}
	for _, p := range server {
		slices.SortFunc(p.Work, func(a, b validity.Work) int { return int(a.At - b.At) })
	}
	return server, thefts
}
