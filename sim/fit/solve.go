package fit

import "math"

// least finds the x with the least sum of squares of f(x), from x on, by Levenberg and
// Marquardt's method with differences for derivatives. It returns x, the sum, and the
// standard errors of x by the curvature there: infinite for one that f does not depend on.
func least(f func([]float64) []float64, x []float64) (best []float64, sum float64, errors []float64) {
	const (
		step   = 0.01 // of the differences
		rounds = 25
		small  = 1e-4 // the last change of the sum that counts, as a share
	)
	n := len(x)
	best = append([]float64(nil), x...)
	r := f(best)
	sum = squares(r)
	damp := 1e-2
	var normal [][]float64
	for range rounds {
		jac := make([][]float64, n) // by parameter
		for j := range n {
			moved := append([]float64(nil), best...)
			moved[j] += step
			up := f(moved)
			moved[j] -= 2 * step
			down := f(moved)
			jac[j] = make([]float64, len(r))
			for i := range r {
				jac[j][i] = (up[i] - down[i]) / (2 * step)
			}
		}
		normal = make([][]float64, n)
		gradient := make([]float64, n)
		for j := range n {
			normal[j] = make([]float64, n)
			for k := range n {
				normal[j][k] = dot(jac[j], jac[k])
			}
			gradient[j] = -dot(jac[j], r)
		}
		before := sum
		for range 10 {
			damped := make([][]float64, n)
			for j := range n {
				damped[j] = append([]float64(nil), normal[j]...)
				damped[j][j] += damp*normal[j][j] + 1e-9
			}
			move, ok := solve(damped, gradient)
			if ok {
				tried := make([]float64, n)
				for j := range n {
					tried[j] = best[j] + math.Max(-1, math.Min(1, move[j]))
				}
				if got := f(tried); squares(got) < sum {
					best, r, sum = tried, got, squares(got)
					damp = math.Max(damp/5, 1e-6)
					break
				}
			}
			damp *= 4
		}
		if before-sum <= small*before {
			break
		}
	}
	return best, sum, standard(normal, sum/math.Max(1, float64(len(r)-n)))
}

// standard returns the standard errors by the normal matrix and the variance of what is left.
func standard(normal [][]float64, variance float64) []float64 {
	errors := make([]float64, len(normal))
	var told []int // what f depends on
	for j := range normal {
		if errors[j] = math.Inf(1); normal[j][j] > 1e-12 {
			told = append(told, j)
		}
	}
	part := make([][]float64, len(told))
	for i, j := range told {
		for _, k := range told {
			part[i] = append(part[i], normal[j][k])
		}
	}
	for i, j := range told {
		unit := make([]float64, len(told))
		unit[i] = 1
		if inverse, ok := solve(part, unit); ok && inverse[i] > 0 {
			errors[j] = math.Sqrt(variance * inverse[i])
		}
	}
	return errors
}

func dot(a, b []float64) (s float64) {
	for i := range a {
		s += a[i] * b[i]
	}
	return s
}

func squares(r []float64) float64 { return dot(r, r) }

// solve solves a x = b by elimination with pivots; ok is false if a is singular.
func solve(a [][]float64, b []float64) (x []float64, ok bool) {
	n := len(b)
	m := make([][]float64, n)
	for i := range n {
		m[i] = append(append([]float64(nil), a[i]...), b[i])
	}
	for c := range n {
		p := c
		for i := c + 1; i < n; i++ {
			if math.Abs(m[i][c]) > math.Abs(m[p][c]) {
				p = i
			}
		}
		if m[c], m[p] = m[p], m[c]; math.Abs(m[c][c]) < 1e-12 {
			return nil, false
		}
		for i := c + 1; i < n; i++ {
			q := m[i][c] / m[c][c]
			for k := c; k <= n; k++ {
				m[i][k] -= q * m[c][k]
			}
		}
	}
	x = make([]float64, n)
	for i := n - 1; i >= 0; i-- {
		x[i] = (m[i][n] - dot(m[i][i+1:n], x[i+1:])) / m[i][i]
	}
	return x, true
}
