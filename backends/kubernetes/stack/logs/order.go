package logs

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// Bounds of how long a line waits for older ones of other logs.
const (
	orderWait = time.Second
	maxWaits  = 20_000   // lines
	maxBytes  = 32 << 20 // of them
)

// An Order puts the lines of several logs into the order of their times. A line waits a
// second for older ones. Lines of one log keep its order, also if its clock goes back.
type Order struct {
	take func(Line) error

	mu    sync.Mutex // guards what follows
	lines waiting
	last  map[string]time.Time // by log, the latest time of its lines so far
	n     int                  // lines so far
	bytes int                  // of the lines that wait
	err   error
}

// NewOrder hands lines to take, one at a time.
func NewOrder(take func(Line) error) *Order { return &Order{take: take, last: map[string]time.Time{}} }

// Add is for [Follow]. It fails with the first error of take.
func (o *Order) Add(l Line) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.n++
	o.bytes += len(l.Text)
	log := l.From.String()
	if l.Time.After(o.last[log]) {
		o.last[log] = l.Time
	}
	heap.Push(&o.lines, waits{l, o.last[log], time.Now(), o.n})
	o.flush(func(*waits) bool { return len(o.lines) > maxWaits || o.bytes > maxBytes })
	return o.err
}

// Keep hands lines on until the context ends, and then all that are left.
func (o *Order) Keep(ctx context.Context) {
	for sleep(ctx, orderWait/10) {
		o.mu.Lock()
		o.flush(func(w *waits) bool { return time.Since(w.came) > orderWait })
		o.mu.Unlock()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flush(func(*waits) bool { return true })
}

func (o *Order) flush(due func(*waits) bool) {
	for len(o.lines) > 0 && o.err == nil && due(&o.lines[0]) {
		l := heap.Pop(&o.lines).(waits).line
		o.bytes -= len(l.Text)
		o.err = o.take(l)
	}
}

// A waits is a line that waits.
type waits struct {
	line Line
	at   time.Time // its place among the others
	came time.Time
	n    int // lines of one log that have one time keep their order
}

type waiting []waits

func (w waiting) Len() int      { return len(w) }
func (w waiting) Swap(i, j int) { w[i], w[j] = w[j], w[i] }
func (w *waiting) Push(x any)   { *w = append(*w, x.(waits)) }

func (w waiting) Less(i, j int) bool {
	if c := w[i].at.Compare(w[j].at); c != 0 {
		return c < 0
	}
	return w[i].n < w[j].n
}

func (w *waiting) Pop() any {
	last := len(*w) - 1
	one := (*w)[last]
	(*w)[last] = waits{} // its text is not kept
	*w = (*w)[:last]
	return one
}
