package oracle

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"sweep.dev/sweep/result"
)

// A side is what the valid trials of a cell say of a figure: their logarithms by their
// numbers, and how far below and above its own a single one may be, at 95 %.
type side struct {
	logs      map[int]float64
	down, up  float64
	countless bool // a value has no logarithm
}

// sideOf gathers them. Of what a server is, such as the time it took to start, each
// launch counts once.
func (c *cell) sideOf(f figure) side {
	s := side{logs: map[int]float64{}, down: math.Inf(1), up: math.Inf(1)}
	launches := map[any]bool{}
	for _, row := range c.valid() {
		v, ok := f.of(row)
		if !ok || f.column == "start_up_s" && launches[row["launch"]] {
			continue
		}
		launches[row["launch"]] = true
		s.countless = s.countless || v <= 0
		s.logs[int(row["trial"].(int64))] = math.Log(v)
		s.down, s.up = f.reach(row)
	}
	return s
}

// reach returns how far the logarithm of a figure may be below and above its value within a
// trial.
func (f figure) reach(row result.Row) (down, up float64) {
	down, up = math.Inf(1), math.Inf(1)
	column := f.column
	if f.of95 != "" {
		column = f.of95
	}
	center, ok := row.Number(column)
	if low, has := row.Number(column + "_low"); ok && has && low > 0 {
		down = math.Log(center) - math.Log(low)
	}
	if high, has := row.Number(column + "_high"); ok && has {
		up = math.Log(high) - math.Log(center)
	}
	if f.of95 != "" { // the figure falls with it
		down, up = up, down
	}
	return down, up
}

func (s side) center() float64 {
	sum := 0.0
	for _, v := range s.logs {
		sum += v
	}
	return sum / float64(len(s.logs))
}

// squares returns those of the distances from the center.
func (s side) squares() float64 {
	sum := 0.0
	for _, v := range s.logs {
		sum += (v - s.center()) * (v - s.center())
	}
	return sum
}

func (s side) same(o side) bool {
	for n := range s.logs {
		if _, ok := o.logs[n]; !ok {
			return false
		}
	}
	return len(s.logs) == len(o.logs)
}

// minus returns the difference of two sides' logarithms, with how far it may be below and
// above that, each with the chance tail.
func (s side) minus(o side, tail float64) (distance, down, up float64) {
	if s.countless || o.countless || len(s.logs) == 0 || len(o.logs) == 0 {
		return 0, math.Inf(1), math.Inf(1)
	}
	distance = s.center() - o.center()
	n, m := float64(len(s.logs)), float64(len(o.logs))
	switch {
	case n == 1 || m == 1:
		below, above := s.within(tail)
		below2, above2 := o.within(tail)
		return distance, math.Hypot(below, above2), math.Hypot(above, below2)
	case s.same(o):
		d := side{logs: map[int]float64{}}
		for k, v := range s.logs {
			d.logs[k] = v - o.logs[k]
		}
		half := student(1-tail, n-1) * math.Sqrt(d.squares()/(n-1)/n)
		return distance, half, half
	}
	a, b := s.squares()/(n-1)/n, o.squares()/(m-1)/m
	if a+b == 0 {
		return distance, 0, 0
	}
	half := student(1-tail, math.Pow(a+b, 2)/(a*a/(n-1)+b*b/(m-1))) * math.Sqrt(a+b)
	return distance, half, half
}

func (s side) within(tail float64) (below, above float64) {
	if n := float64(len(s.logs)); n > 1 {
		half := student(1-tail, n-1) * math.Sqrt(s.squares()/(n-1)/n)
		return half, half
	}
	wider := student(1-tail, 9) / student(0.975, 9)
	return wider * s.down, wider * s.up
}

// behind returns how many times worse than the best a cell certainly is; 0 where that cannot
// be told.
func (f figure) behind(c, best *cell, sides int) float64 {
	a, b := c.sideOf(f), best.sideOf(f)
	if !f.least {
		a, b = b, a
	}
	distance, down, _ := a.minus(b, 0.05/float64(sides*(sides-1)))
	if distance-down > 0 {
		return math.Exp(distance)
	}
	return 0
}

// lacks reports whether a cell is further from the best than four standard errors, which trials
// enough would tell.
func (f figure) lacks(c, best *cell) bool {
	a, b := c.sideOf(f), best.sideOf(f)
	if a.center() < b.center() {
		a, b = b, a
	}
	const tail = 0.025
	distance, down, _ := a.minus(b, tail)
	n, m, df := float64(len(a.logs)), float64(len(b.logs)), 9.0
	switch {
	case n == 1 || m == 1:
	case a.same(b):
		df = n - 1
	default:
		x, y := a.squares()/(n-1)/n, b.squares()/(m-1)/m
		df = math.Pow(x+y, 2) / (x*x/(n-1) + y*y/(m-1))
	}
	return down > 0 && !math.IsInf(down, 0) && distance >= 4*down/student(1-tail, df)
}

// A row of loads has the spread of all its cells together.
type together struct {
	sides []side
	df    float64
	sd    float64
	blind bool // a cell says nothing of how well it is known
}

func pooled(cells []*cell, f figure) together {
	var t together
	common := true
	for _, c := range cells {
		s := c.sideOf(f)
		t.sides = append(t.sides, s)
		t.blind = t.blind || s.countless
		common = common && s.same(t.sides[0])
	}
	var squares float64
	for _, s := range t.sides {
		squares += s.squares()
		t.df += float64(len(s.logs) - 1)
	}
	if common && len(cells) > 1 {
		// An effect of a trial that all sides share is no spread of one side.
		shared := side{logs: map[int]float64{}}
		for _, s := range t.sides {
			for k, v := range s.logs {
				shared.logs[k] += v / float64(len(t.sides))
			}
		}
		squares -= float64(len(t.sides)) * shared.squares()
		t.df -= float64(len(shared.logs) - 1)
	}
	if t.df > 0 {
		t.sd = math.Sqrt(max(0, squares) / t.df)
	}
	return t
}

// least is the least that the ratio of one cell to another certainly is, and greatest the
// greatest.
func (t together) bounds(i, j int, tail float64) (least, greatest float64) {
	a, b := t.sides[i], t.sides[j]
	if t.df <= 0 {
		distance, down, up := a.minus(b, tail)
		return math.Exp(distance - down), math.Exp(distance + up)
	}
	half := student(1-tail, t.df) * t.sd * math.Sqrt(1/float64(len(a.logs))+1/float64(len(b.logs)))
	distance := a.center() - b.center()
	return math.Exp(distance - half), math.Exp(distance + half)
}

// sweetest returns the load from which on all are certainly near the most, and those that may
// be the most.
func sweetest(cells []*cell, f figure, may func(*cell) bool) (spot *cell, maybe []*cell) {
	cells = slices.DeleteFunc(slices.Clone(cells), func(c *cell) bool { return !may(c) || !known(c.mean(f)) })
	if len(cells) < 2 {
		if len(cells) == 1 {
			return cells[0], cells
		}
		return nil, nil
	}
	t := pooled(cells, f)
	if t.blind {
		return nil, cells
	}
	from := slices.Index(cells, top(cells, f, may))
	stopped := false
	for i := range slices.Backward(cells) {
		enough, best := true, true
		for j := range cells {
			if j == i {
				continue
			}
			least, _ := t.bounds(i, j, 0.05)
			_, greatest := t.bounds(i, j, 0.05/float64(len(cells)-1))
			enough, best = enough && least > 0.95, best && !(greatest < 1)
		}
		if best {
			maybe = append([]*cell{cells[i]}, maybe...)
		}
		if i <= from {
			if stopped = stopped || !enough; !stopped {
				spot = cells[i]
			}
		}
	}
	return spot, maybe
}

// quantiles are those of Student's t that were asked for.
var quantiles sync.Map

// student returns the p-quantile of Student's t: with t = sqrt(df) tan(x) its share up to x is
// the integral of cos(x)^(df-1), which Simpson's rule takes.
func student(p, df float64) float64 {
	key := fmt.Sprint(p, " ", df)
	if v, ok := quantiles.Load(key); ok {
		return v.(float64)
	}
	a, _ := math.Lgamma((df + 1) / 2)
	b, _ := math.Lgamma(df / 2)
	scale := math.Exp(a-b) / math.Sqrt(math.Pi)
	share := func(x float64) float64 {
		const n = 400
		sum := 0.0
		for i := range n + 1 {
			weight := 2.0 + 2*float64(i%2)
			if i == 0 || i == n {
				weight = 1
			}
			sum += weight * math.Pow(math.Cos(x*float64(i)/n), df-1)
		}
		return 0.5 + scale*sum*x/(3*n)
	}
	low, high := 0.0, math.Pi/2
	for range 50 {
		if mid := (low + high) / 2; share(mid) < p {
			low = mid
		} else {
			high = mid
		}
	}
	v := math.Sqrt(df) * math.Tan((low+high)/2)
	quantiles.Store(key, v)
	return v
}
