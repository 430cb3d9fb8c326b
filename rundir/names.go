package rundir

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/layout"
)

const tempSuffix = ".tmp"

// A name becomes a part of a path, so it is a plain word: no separator, no
// leading dot, nothing that a shell or a file system treats apart.
var (
	slug      = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
	eventType = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)
)

func checkSlug(what, name string) error {
	if !slug.MatchString(name) {
		return fmt.Errorf("%s %q: want letters, digits, '.', '_' and '-', beginning with a letter or digit", what, name)
	}
	return nil
}

func checkNumber(what string, n int) error {
	if n < 1 || n > 999_999_999 {
		return fmt.Errorf("%s %d: want a number from 1", what, n)
	}
	return nil
}

func checkKey(a AttemptKey) error {
	if err := checkSlug("cell", a.Cell); err != nil {
		return err
	}
	if err := checkNumber("trial", a.Trial); err != nil {
		return err
	}
	return checkNumber("attempt", a.Attempt)
}

// checkFile admits names of attempt files: a slug, or up to three joined by '/'.
func checkFile(name string) error {
	parts := strings.Split(name, "/")
	if len(parts) > 3 {
		return fmt.Errorf("file %q: more than three parts", name)
	}
	for _, p := range parts {
		if err := checkSlug("file", p); err != nil {
			return err
		}
	}
	if name == layout.Result {
		return fmt.Errorf("file %q is written by the commit", name)
	}
	return nil
}

func checkDerived(name string) error {
	if err := checkSlug("derived file", name); err != nil {
		return err
	}
	if layout.Own(name) {
		return fmt.Errorf("derived file %q: the name belongs to the run itself", name)
	}
	return nil
}

func launchName(deployment string, n int) (string, error) {
	if err := checkSlug("deployment", deployment); err != nil {
		return "", err
	}
	if err := checkNumber("launch", n); err != nil {
		return "", err
	}
	return layout.LaunchDir(deployment, n), nil
}

func trialName(k Key) string { return layout.TrialDir(k.Cell, k.Trial) }

func attemptName(a AttemptKey) string { return layout.AttemptDir(a.Cell, a.Trial, a.Attempt) }

func tempName(a AttemptKey) string { return attemptName(a) + tempSuffix }

// isTempFile reports whether name is what an atomic write leaves behind when it is killed.
func isTempFile(name string) bool {
	inner, ok := strings.CutSuffix(name, tempSuffix)
	return ok && strings.HasPrefix(inner, ".") && effect.Temp(inner[1:]) == name
}

// AttemptDir returns the folder of a committed attempt.
func AttemptDir(dir string, c Commit) string {
	return filepath.Join(dir, attemptName(AttemptKey{c.Key, c.Attempt}))
}
