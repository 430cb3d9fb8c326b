package history

import (
	"fmt"
	"time"
)

// An OrderError says that a night is older than one that the history has of the same series.
type OrderError struct {
	Path   string
	Date   time.Time // of the night
	Newest Night     // that the history has
}

func (e *OrderError) Error() string {
	return fmt.Sprintf("%s: the night of %s is older than that of %s (run %s), and nights are added in their order",
		e.Path, e.Date.Format(time.RFC3339), e.Newest.Date.Format(time.RFC3339), e.Newest.Run)
}

// After returns the newest night of a plan that began after an instant; ok is false if there
// is none.
func (f *File) After(plan string, at time.Time) (newest Night, ok bool) {
	for _, n := range f.Nights {
		if n.Plan == plan && n.Date.After(at) {
			newest, ok, at = n, true, n.Date
		}
	}
	return newest, ok
}

// inOrder fails for nights that the file has not, and that began before another one of their
// series: they would be judged by few nights, as if the series were new.
func (f *File) inOrder(path string, nights []Night) error {
	newest := map[Key]Night{}
	for _, n := range f.Nights {
		if last, ok := newest[n.Key]; !ok || n.Date.After(last.Date) {
			newest[n.Key] = n
		}
	}
	for _, n := range nights {
		_, there := f.number[place{n.Run, n.Cell}]
		last, ok := newest[n.Key]
		if !there && ok && last.Run != n.Run && last.Again != n.Run && last.Date.After(n.Date) {
			return &OrderError{path, n.Date, last}
		}
	}
	return nil
}
