package backends

import "fmt"

// CheckPlain says, as an [ErrSpec], what of a spec only a backend can carry that
// starts roles one after the other on one machine: one that cannot would start
// something else than what is meant. What a role gets beside its command line
// may depend on where the others are, so only a role that is alone may have it.
func CheckPlain(spec Spec) error {
	for _, r := range spec.Roles {
		switch {
		case r.Extra != nil && len(spec.Roles) > 1:
			return fmt.Errorf("%w: role %s of %s is one of several and is configured by files, or by where the others are: only the process backend can do that, and docker inside a container that runs", ErrSpec, r.Name, spec.Engine)
		case len(r.Ports) > 0:
			return fmt.Errorf("%w: role %s of %s listens on several ports: only the process backend can do that, and docker inside a container that runs", ErrSpec, r.Name, spec.Engine)
		case r.Started != nil:
			return fmt.Errorf("%w: role %s of %s has to be up before the next role is started: only the process backend can do that, and docker inside a container that runs", ErrSpec, r.Name, spec.Engine)
		}
	}
	return nil
}
