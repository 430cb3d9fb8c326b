package file

import (
	"slices"
	"strings"

	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/axes"
)

// A load axis has its value in the matrix, or at a key of the load.

// Given reports whether the file gives a load axis a value, here or there.
func (f *File) Given(axis string) bool {
	return f.Has("matrix", axis) || f.Has(axes.Path(axis)...)
}

// Meant reports whether another word was most likely meant to give a load axis a
// value.
func (f *File) Meant(axis string) bool {
	return f.Mistyped["matrix."+axis] || f.Mistyped[strings.Join(axes.Path(axis), ".")]
}

// PatternAt returns where the key of a pattern is given, or would be.
func (f *File) PatternAt(key string) []string {
	switch {
	case !slices.Contains(axes.Amounts(), key):
		return Path("load", key)
	case f.Has("matrix", key):
		return Path("matrix", key)
	}
	return axes.Path(key)
}

// Closed and Open say what makes requests go; neither holds for a file that does
// not tell.
func (f *File) Closed() bool { return f.goesBy(false) }

// Open reports the other of Closed.
func (f *File) Open() bool { return !f.Closed() && f.goesBy(true) }

func (f *File) goesBy(open bool) bool {
	return slices.ContainsFunc(plan.Patterns(), func(way plan.Pattern) bool {
		return way.Open == open && f.Has(f.PatternAt(way.Key)...)
	})
}
