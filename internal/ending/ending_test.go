package ending

import (
	"errors"
	"testing"
)

func closed(e *Ending) bool {
	select {
	case <-e.Done():
		return true
	default:
		return false
	}
}

func TestEnding(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	e := New()
	if closed(e) || e.Err() != nil {
		t.Errorf("it has ended before it did: %v", e.Err())
	}
	e.Ended(first)
	e.Ended(second)
	e.Ask()
	if !closed(e) || !errors.Is(e.Err(), first) {
		t.Errorf("%v, want the first end", e.Err())
	}

	e = New()
	e.Ask()
	e.Ended(first)
	if closed(e) || e.Err() != nil {
		t.Errorf("an end that was asked for is noted: %v", e.Err())
	}
}
