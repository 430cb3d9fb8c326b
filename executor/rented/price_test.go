package rented

import (
	"testing"
	"time"

	"sweep.dev/sweep/backends"
)

// A provider that does not offer a GPU has no price of it, which is not $0.
func TestOffered(t *testing.T) {
	t.Parallel()
	none, sold, free := backends.Offer{}, backends.Offer{USDPerHour: 3}, backends.Offer{USDPerHour: 5, Available: true}
	for _, c := range []struct {
		offers []backends.Offer
		usd    float64
	}{
		{nil, 0},
		{[]backends.Offer{none, none}, 0},
		{[]backends.Offer{none, sold}, 3},
		{[]backends.Offer{sold, none, free, sold}, 5},
	} {
		if got := offered(c.offers); got.USDPerHour != c.usd || got.Known != (c.usd > 0) || (got.Source != "") != got.Known {
			t.Errorf("%+v: got %+v, want %g", c.offers, got, c.usd)
		}
	}
}

// The rate is of what runs at once; money adds up over all.
func TestQuote_Add(t *testing.T) {
	t.Parallel()
	q := Quote{AtOnce: 2, Keep: time.Hour, Max: 4, Spent: 1}
	q.Add(Price{USDPerHour: 2, Known: true}, 1, time.Hour)
	q.Add(Price{USDPerHour: 1, Known: true}, 1, 30*time.Minute)
	q.Add(Price{}, 1, time.Hour)
	if want := (Quote{Pods: 3, AtOnce: 2, Unknown: 1, USDPerHour: 4, USD: 2.5, Spent: 1, Max: 4, Kept: 3, Keep: time.Hour}); q != want {
		t.Errorf("got %+v, want %+v", q, want)
	}
	if q.OverBudget() {
		t.Error("$3.50 are over $4")
	}
	q.Add(Price{USDPerHour: 1, Known: true}, 1, time.Hour)
	if !q.OverBudget() {
		t.Error("$4.50 are not over $4")
	}
	// Launches one after another: more pods, but no more at once or kept.
	q = Quote{AtOnce: 1, Keep: time.Hour}
	q.Add(Price{USDPerHour: 2, Known: true}, 3, 2*time.Hour)
	q.Add(Price{}, 3, time.Hour)
	if want := (Quote{Pods: 6, AtOnce: 1, Unknown: 3, USDPerHour: 2, USD: 4, Kept: 2, Keep: time.Hour}); q != want {
		t.Errorf("got %+v, want %+v", q, want)
	}
}
