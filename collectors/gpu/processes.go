package gpu

import "sweep.dev/sweep/internal/gpustate"

// processes tells those of the deployment from others'. The numbers that a GPU's
// driver has can be compared with ours where one of ours is among them; in a
// container they are another namespace's, and then only those that came under
// load are known to be foreign.
type processes struct {
	looks    int
	seen     bool            // any process at all
	ours     map[string]bool // GPUs that have one of the deployment's
	counts   map[int]int     // of each host at its latest look
	baseline int             // before the load
	most     int
	others   map[int]int // of each host: most at once that are not the deployment's
}

func (p *processes) begin() {
	p.baseline = 0
	for _, n := range p.counts {
		p.baseline += n
	}
	p.most = 0
}

// observe takes the processes on a host's GPUs into account. own are the
// deployment's.
func (p *processes) observe(host int, list []gpustate.Reading, own map[int]bool) {
	all := make(map[int]bool)
	known := false
	list = gpustate.Whole(list)
	for _, r := range list {
		if !r.PIDsKnown || r.UUID == "" {
			continue
		}
		known = true
		for _, pid := range r.PIDs {
			all[pid] = true
			if own[pid] {
				if p.ours == nil {
					p.ours = make(map[string]bool)
				}
				p.ours[r.UUID] = true
			}
		}
	}
	if !known {
		return
	}
	p.looks++
	if p.counts == nil {
		p.counts = make(map[int]int)
	}
	p.counts[host] = len(all)
	p.seen = p.seen || len(all) > 0
	sum := 0
	for _, n := range p.counts {
		sum += n
	}
	p.most = max(p.most, sum)
	others := make(map[int]bool)
	for _, r := range list {
		for _, pid := range r.PIDs {
			if p.ours[r.UUID] && !own[pid] {
				others[pid] = true
			}
		}
	}
	if p.others == nil {
		p.others = make(map[int]int)
	}
	p.others[host] = max(p.others[host], len(others))
}

// foreign returns how many at least were not of the deployment.
func (p *processes) foreign() (n int, ok bool) {
	if len(p.ours) == 0 {
		return max(0, p.most-p.baseline), p.looks > 0
	}
	for _, others := range p.others {
		n += others
	}
	return n, p.looks > 0
}
