package backends

import "fmt"

// ExtraAt renders what a replica gets beside its command line; nothing where the
// role has no Extra. A replica that needs files where a has no Dir for them is
// refused. Errors are [ErrSpec].
func (r Role) ExtraAt(a Address) (Extra, error) {
	if r.Extra == nil {
		return Extra{}, nil
	}
	extra, err := r.Extra(a)
	switch {
	case err != nil:
		return Extra{}, fmt.Errorf("%w: %w", ErrSpec, err)
	case len(extra.Files) > 0 && a.Dir == "":
		return Extra{}, fmt.Errorf("%w: role %s is configured by files, which only sweep's script in the pod can write: turn on dead_man or bootstrap of the backend", ErrSpec, r.Name)
	}
	return extra, nil
}
