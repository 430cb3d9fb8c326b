package docker

import (
	"fmt"

	"sweep.dev/sweep/backends"
)

// Check implements [backends.Checker].
func (b *Backend) Check(spec backends.Spec) error {
	if b.config.Inside != nil {
		return b.checkInside(spec)
	}
	for _, role := range spec.Roles {
		if role.Image == "" {
			return fmt.Errorf("%w: role %s has no image: set engines.%s.image", backends.ErrSpec, role.Name, spec.Engine)
		}
	}
	if err := b.Layer.Check(spec); err != nil {
		return err
	}
	return b.config.checkGPUs(spec)
}
