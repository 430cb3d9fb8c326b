package plan

import (
	"slices"
	"strings"

	"sweep.dev/sweep/plan/internal/file"
)

// loadPath says where a load axis stands when it is no axis; nil for others.
func loadPath(axis string) []string {
	kind, _ := lookupAxis(axis)
	return kind.path()
}

// given says whether a file gives a load axis a value, here or there.
func given(f *file.File, axis string) bool {
	return f.Has("matrix", axis) || f.Has(loadPath(axis)...)
}

// mistyped says whether another word was most likely meant to give it one.
func mistyped(f *file.File, axis string) bool {
	return f.Mistyped["matrix."+axis] || f.Mistyped[strings.Join(loadPath(axis), ".")]
}

// where is the key that gives a load axis its value.
func where(f *file.File, axis string) []string {
	if f.Has("matrix", axis) {
		return file.Path("matrix", axis)
	}
	return loadPath(axis)
}

// patternAt is where the key of a pattern is given, or would be.
func patternAt(f *file.File, key string) []string {
	if slices.Contains(amountAxes(), key) {
		return where(f, key)
	}
	return file.Path("load", key)
}

// closedLoop and openLoop say what makes requests go; neither holds for a file that does
// not tell.
func closedLoop(f *file.File) bool { return goesBy(f, false) }

func openLoop(f *file.File) bool { return !closedLoop(f) && goesBy(f, true) }

func goesBy(f *file.File, open bool) bool {
	return slices.ContainsFunc(patterns(), func(way pattern) bool {
		return way.open == open && f.Has(patternAt(f, way.key)...)
	})
}
