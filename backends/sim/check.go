package sim

import (
	"fmt"
	"strings"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/engine/catalog"
)

// Check implements [backends.Checker]: it finds the roles that the simulator does
// not play and the models of which it has no shape.
func (b *Backend) Check(spec backends.Spec) error {
	for _, role := range spec.Roles {
		k, err := kindOf(spec, role, backends.Address{Host: "127.0.0.1", Port: 8000})
		if err != nil {
			return err
		}
		if !k.computes {
			continue
		}
		if _, ok := catalog.ModelByName(spec.Model); !ok {
			var known []string
			for _, m := range catalog.Models() {
				known = append(known, m.Name)
			}
			return fmt.Errorf("%w: the simulator has no shape of the model %q; it knows %s", backends.ErrSpec, spec.Model, strings.Join(known, ", "))
		}
	}
	return nil
}
