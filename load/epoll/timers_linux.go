package epoll

import "time"

// timers are the moments at which something is to be done with slots, one for
// each: a binary heap.
type timers []*slot

// next returns the earliest moment; far away if there is none.
func (h timers) next() time.Duration {
	if len(h) == 0 {
		return 1<<63 - 1
	}
	return h[0].alarm
}

// set has s come up at a moment, in place of any other.
func (h *timers) set(s *slot, at time.Duration) {
	s.alarm = at
	if s.heap < 0 {
		s.heap = len(*h)
		*h = append(*h, s)
	}
	h.up(s.heap)
	h.down(s.heap)
}

func (h *timers) remove(s *slot) {
	i := s.heap
	if i < 0 {
		return
	}
	last := len(*h) - 1
	h.swap(i, last)
	(*h)[last] = nil
	*h = (*h)[:last]
	s.heap = -1
	if i < last {
		h.up(i)
		h.down(i)
	}
}

func (h timers) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heap, h[j].heap = i, j
}

func (h timers) up(i int) {
	for i > 0 {
		p := (i - 1) / 2
		if h[p].alarm <= h[i].alarm {
			return
		}
		h.swap(i, p)
		i = p
	}
}

func (h timers) down(i int) {
	for {
		c := 2*i + 1
		if c >= len(h) {
			return
		}
		if c+1 < len(h) && h[c+1].alarm < h[c].alarm {
			c++
		}
		if h[i].alarm <= h[c].alarm {
			return
		}
		h.swap(i, c)
		i = c
	}
}
