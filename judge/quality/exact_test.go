package quality

import (
	"math"
	"testing"
)

// The numbers of these tests are of scipy 1.17.1 and statsmodels 0.15.0: proportion_confint
// with method beta, mcnemar with exact=True, and sums over scipy.stats.binom.

func near(got, want, within float64) bool { return math.Abs(got-want) <= within }

func TestShare(t *testing.T) {
	for _, c := range []struct {
		k, n                  int
		confidence, low, high float64
	}{
		{0, 0, 0.95, 0, 1},
		{0, 10, 0.95, 0, 0.3084971078187607},
		{7, 10, 0.95, 0.34754714994000274, 0.9332604888222655},
		{10, 10, 0.95, 0.6915028921812392, 1},
		{150, 200, 0.95, 0.6840371666701309, 0.8083928303774125},
		{181, 200, 0.99, 0.8390818260074686, 0.9507298338064929},
	} {
		if low, high := Share(c.k, c.n, c.confidence); !near(low, c.low, 1e-9) || !near(high, c.high, 1e-9) {
			t.Errorf("%d of %d at %v: %v to %v, want %v to %v", c.k, c.n, c.confidence, low, high, c.low, c.high)
		}
	}
}

func TestMcNemar(t *testing.T) {
	for _, c := range []struct {
		losses, gains int
		want          float64
	}{
		{0, 0, 1},
		{3, 3, 1},
		{0, 5, 0.0625},
		{0, 6, 0.03125},
		{6, 0, 0.03125},
		{10, 3, 0.09228515625},
		{25, 40, 0.08168153394154003},
		{121, 59, 4.4344492637551645e-06},
	} {
		if got := McNemar(c.losses, c.gains); !near(got, c.want, 1e-9*c.want) {
			t.Errorf("%d losses, %d gains: p %v, want %v", c.losses, c.gains, got, c.want)
		}
	}
}

// The wanted intervals are where the score test, with its constrained likelihood
// maximized by scipy.optimize, has the normal quantile.
func TestPaired(t *testing.T) {
	for _, c := range []struct {
		gains, losses, pairs  int
		confidence, low, high float64
	}{
		{12, 2, 50, 0.95, 0.0611124, 0.3447087},
		{2, 12, 50, 0.95, -0.3447087, -0.0611124},
		{3, 10, 200, 0.95, -0.0768012, 0.0003870},
		{5, 5, 100, 0.95, -0.0702212, 0.0702212},
		{30, 41, 200, 0.975, -0.1497259, 0.0401148},
		{0, 6, 200, 0.95, -0.0638943, -0.0105893},
		{0, 0, 200, 0.95, -0.0188453, 0.0188453},
		{200, 0, 200, 0.95, 0.9623093, 1}, // (1-d)/(1+d) = z²/n
	} {
		if low, high := Paired(c.gains, c.losses, c.pairs, c.confidence); !near(low, c.low, 1e-6) || !near(high, c.high, 1e-6) {
			t.Errorf("+%d -%d of %d at %v: %v to %v, want %v to %v", c.gains, c.losses, c.pairs, c.confidence, low, high, c.low, c.high)
		}
	}
}

func TestDetectable(t *testing.T) {
	for _, c := range []struct {
		pairs             int
		gain, alpha, want float64
	}{
		{200, 0, 0.05, 0.03924277773922464},
		{200, 0.02, 0.05, 0.0661114774606567},
		{200, 0.1, 0.05, 0.11372240840863267},
		{50, 0, 0.05, 0.15352242757513745},
		{1000, 0.05, 0.025, 0.03671328751510885},
		{MaxItems, 0.03, 0.05, 0.010704676444202178},
	} {
		if got, ok := Detectable(c.pairs, c.gain, c.alpha, 0.8); !ok || !near(got, c.want, 1e-6) {
			t.Errorf("%d pairs, gains %v, alpha %v: %v %v, want %v", c.pairs, c.gain, c.alpha, got, ok, c.want)
		}
	}
	// Five pairs never reach 5 %, however all of them get worse.
	if got, ok := Detectable(5, 0, 0.05, 0.8); ok {
		t.Errorf("five pairs show a loss of %v", got)
	}
	if _, ok := Detectable(0, 0, 0.05, 0.8); ok {
		t.Error("no pairs show a loss")
	}
}
